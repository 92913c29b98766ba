"""What the served explorer shows first: the SQL of its views, made of what is asked, and its rows.

Every view is a query that the page also offers as text, so that a reader can go on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tare.answers.explorer.served.index import FIGURES
from tare.answers.explorer.served.values import sendable
from tare.base.version import __version__
from tare.records.metrics import METRICS

if TYPE_CHECKING:
    import duckdb

MOST_CELLS = 20_000
MOST_POINTS = 5_000
MOST_TROUBLES = 20


class Asked(Struct, frozen=True):
    """The choices of the page. Empty: all; of ``programs`` and ``managers`` all words must be in a
    name; ``program`` is one, by its whole name."""

    study: str = ""
    metric: str = ""
    machine: str = ""
    programs: str = ""
    managers: str = ""
    program: str = ""


def quoted(text: str) -> str:
    """``text`` as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _where(asked: Asked) -> str:
    parts = [f"study = {quoted(asked.study)}", f"metric = {quoted(asked.metric)}"]
    if asked.machine:
        parts.append(f"machine = {quoted(asked.machine)}")
    if asked.program:
        parts.append(f"program = {quoted(asked.program)}")
    for column, text in (("program", asked.programs), ("manager", asked.managers)):
        parts += [f"contains(lower({column}), {quoted(word)})" for word in text.lower().split()]
    return "\n  AND ".join(parts)


def overview_sql(asked: Asked) -> str:
    """A row per program and manager: each results folder counts once."""
    return f"""SELECT program, manager, {FIGURES}
FROM medians JOIN folders USING (folder)
WHERE {_where(asked)}
GROUP BY program, manager ORDER BY program, manager"""


def quick_sql(asked: Asked) -> str:
    """The rows of ``overview_sql``, as the index has them."""
    of_all = "" if asked.machine else "\n  AND machine = ''"
    return f"""SELECT * EXCLUDE (study, metric, machine, obtained) FROM overview
WHERE {_where(asked)}{of_all}
ORDER BY program, manager"""


def folders_sql(asked: Asked) -> str:
    """A row per results folder and manager, the newest first."""
    return f"""SELECT started, folder, machine, manager, runs, failed, median, low, high, ratio
FROM medians JOIN folders USING (folder)
WHERE {_where(asked)}
ORDER BY started DESC, folder, manager"""


def start(connection: duckdb.DuckDBPyConnection, folder: str) -> dict[str, Any]:
    """What the page has to know before anything is asked: what there is to choose from."""

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return connection.execute(sql).fetchall()

    metrics = rows(
        """SELECT study, metric, sum(runs)::BIGINT, max(obtained) FROM overview
        WHERE machine = '' GROUP BY study, metric ORDER BY study"""
    )
    places = {name: place for place, name in enumerate(METRICS)}
    studies: dict[str, dict[str, Any]] = {}
    for study, metric, runs, obtained in sorted(metrics, key=lambda row: places[row[1]]):
        entry = studies.setdefault(study, {"name": study, "runs": 0, "metrics": []})
        entry["runs"] += runs
        entry["metrics"].append({"name": metric, "obtained": obtained})
    counts = rows(
        """SELECT (SELECT count(*) FROM folders), count(DISTINCT program),
        count(DISTINCT manager), (SELECT count(*) FROM measurements) FROM overview"""
    )[0]
    troubles = [text for (text,) in rows("SELECT message FROM troubles ORDER BY ALL")]
    named = {metric for _, metric, _, _ in metrics}
    return {
        "tare": __version__,
        "folder": folder,
        "folders": counts[0],
        "programs": counts[1],
        "managers": counts[2],
        "measurements": counts[3],
        "studies": sorted(studies.values(), key=lambda study: (-study["runs"], study["name"])),
        "machines": rows("SELECT machine, count(*) FROM folders GROUP BY ALL ORDER BY ALL"),
        "metrics": {
            name: {"title": metric.title, "unit": metric.unit, "explanation": metric.explanation}
            for name, metric in METRICS.items()
            if name in named
        },
        "troubles": [
            *troubles[:MOST_TROUBLES],
            *([f"and {len(troubles) - MOST_TROUBLES:,} more"] * (len(troubles) > MOST_TROUBLES)),
        ],
    }


def view(connection: duckdb.DuckDBPyConnection, sql: str, most: int) -> dict[str, Any]:
    """Up to ``most`` rows of a query, by columns, and how many there are."""
    found = connection.execute(sql)
    names = [column[0] for column in found.description]
    rows = found.fetchmany(most)
    left = 0
    while more := found.fetchmany(10_000):
        left += len(more)
    columns = {name: [sendable(row[place]) for row in rows] for place, name in enumerate(names)}
    return {"columns": columns, "rows": len(rows), "of": len(rows) + left}
