"""docs/papers.md: each table and figure of the papers, folded under its finding, with the command
that repeats ours.

Published figures are in tare/answers/published.csv, measured ones in measured.csv, and all text
about them in exhibits.toml and preface.md; nothing on the page is written by hand.
"""

from __future__ import annotations

import fnmatch
import html
import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tare
from bench.papers.measured import DERIVED, Measured
from bench.papers.steps import Size, Step, descendants, steps
from tare.base.units import format_bytes, format_count, format_percent, format_seconds, parse_size

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "papers.md"
NOTHING = "–"
RESULTS = Path("papers-results")

_OPTION = re.compile(r"[\w-]+=[^,()]+")

FORMATS = {
    "bytes": format_bytes,
    "count": format_count,
    "megabytes": lambda value: f"{value / 1e6:.3g}",
    "number": lambda value: f"{value:.0f}",
    "percent": format_percent,
    "ratio": lambda value: f"{value:.2f}",
    "seconds": format_seconds,
}


@dataclass(frozen=True)
class Column:
    """A quantity. With ``ratio`` what counts of ours is the ratio to the step's baseline."""

    metric: str
    title: str
    format: str
    ratio: bool = False

    def text(self, value: float | None) -> str:
        return NOTHING if value is None else FORMATS[self.format](value)


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of a paper, or several that show one thing.

    ``finding`` is one sentence, under which the rest is folded; ``published`` and ``word`` are
    prose. ``instead`` says what there is where no step is.
    ``programs`` and ``managers`` say who stands for whom; where ``apart``, no program does, and
    published rows stand below ours; where ``managers_down``, too, in a table of their own.
    ``published_rows`` names the exhibit that has them, if it is another one. Where there is a
    ``baseline``, all rows are over those of this published manager, and of what stands for it.
    """

    id: str
    paper: str
    label: str
    title: str
    finding: str
    word: str = ""
    published: str = ""
    instead: str = ""
    steps: Sequence[str] = ()
    columns: Sequence[Column] = ()
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    managers: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    managers_down: bool = False
    published_rows: str = ""
    baseline: str = ""
    see: Sequence[str] = ()


@dataclass(frozen=True)
class Paper:
    key: str
    title: str
    about: str


Cells = Mapping[tuple[str, str], Mapping[str, float]]
"""By program and manager the values of metrics."""


def load_exhibits() -> tuple[list[Paper], list[Exhibit]]:
    with HERE.joinpath("exhibits.toml").open("rb") as file:
        content = tomllib.load(file)
    return [Paper(**each) for each in content["paper"]], [
        _exhibit(each) for each in content["exhibit"]
    ]


def _exhibit(table: Mapping[str, Any]) -> Exhibit:
    columns = [Column(**each) for each in table.get("columns", ())]
    programs = table.get("programs", {})
    if suite := table.get("suite"):
        programs = descendants(table["paper"], suite)
    rest = {k: v for k, v in table.items() if k not in ("columns", "programs", "suite")}
    return Exhibit(**rest, columns=columns, programs=programs)


def load_published() -> dict[str, Cells]:
    found: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for row in tare.published().iter_rows(named=True):
        cells = found.setdefault(row["exhibit"], {})
        values = cells.setdefault((row["program"], row["manager"]), {})
        values[row["metric"]] = row["value"]
    return {name: dict(cells) for name, cells in found.items()}


def page(measured: Sequence[Measured]) -> str:
    """The whole page, as Markdown."""
    papers, exhibits = load_exhibits()
    published = load_published()
    planned = {step.name: step for step in steps(Size.FULL)}
    lines = [
        HERE.joinpath("preface.md").read_text().rstrip(),
        "",
        *_overview(papers, exhibits, measured, planned),
    ]
    shown: dict[tuple[str, ...], Exhibit] = {}
    for paper in papers:
        lines += ["", f"## {paper.title}", "", paper.about]
        for exhibit in exhibits:
            if exhibit.paper == paper.key:
                theirs = published.get(exhibit.published_rows or exhibit.id, {})
                if exhibit.baseline:
                    theirs = _over(theirs, exhibit.baseline)
                first = shown.setdefault(tuple(exhibit.steps), exhibit)
                details = [*_details(exhibit, theirs, measured, planned, first)]
                lines += ["", *_section(exhibit, details)]
    return "\n".join(lines) + "\n"


def _overview(
    papers: Sequence[Paper],
    exhibits: Sequence[Exhibit],
    measured: Sequence[Measured],
    planned: Iterable[str],
) -> Iterator[str]:
    yield "| paper | table or figure | what it shows | ours |"
    yield "| --- | --- | --- | --- |"
    for paper in papers:
        short = re.sub(r"\W.*\W", " ", paper.title)
        for exhibit in exhibits:
            if exhibit.paper == paper.key:
                link = _link(exhibit)
                state = _state(exhibit, measured, planned)
                yield f"| {short} | {link} | {exhibit.title} | {state} |"


def _link(exhibit: Exhibit) -> str:
    return f"[{exhibit.label}](#{_anchor(_heading(exhibit))})"


def _heading(exhibit: Exhibit) -> str:
    return f"{exhibit.label}: {exhibit.title}"


def _anchor(heading: str) -> str:
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _state(exhibit: Exhibit, measured: Sequence[Measured], planned: Iterable[str]) -> str:
    rows = _of(exhibit, measured)
    sizes = {row.size for row in rows}
    if not exhibit.steps:
        return exhibit.instead
    if not sizes:
        return "not measured yet; in part on another page" if exhibit.see else "not measured yet"
    if len(sizes) > 1:
        return "in part at reduced size"
    if Size.FULL in sizes:
        return "measured in part" if _steps_left(exhibit, rows, planned) else "measured"
    return "at reduced size"


def _names(exhibit: Exhibit, planned: Iterable[str]) -> list[str]:
    """Of the steps that an exhibit shows."""
    return [name for each in exhibit.steps for name in fnmatch.filter(planned, each)]


def _steps_left(exhibit: Exhibit, rows: Iterable[Measured], planned: Iterable[str]) -> list[str]:
    measured = {row.step for row in rows}
    return [name for name in _names(exhibit, planned) if name not in measured]


def _of(exhibit: Exhibit, measured: Iterable[Measured]) -> list[Measured]:
    return [
        row for row in measured if any(fnmatch.fnmatch(row.step, each) for each in exhibit.steps)
    ]


def _section(exhibit: Exhibit, details: Sequence[str]) -> Iterator[str]:
    yield f"### {_heading(exhibit)}"
    if details:
        # GitHub reads what stands between blank lines as Markdown, MkDocs what is marked so.
        yield from ("", '<details markdown="1">')
        yield f"<summary>{_in_html(exhibit.finding)}</summary>"
        yield from (*details, "", "</details>")
    else:
        yield from ("", exhibit.finding)
    if exhibit.see:
        yield from ("", f"See {'; '.join(exhibit.see)}.")


def _details(
    exhibit: Exhibit,
    published: Cells,
    measured: Sequence[Measured],
    planned: Mapping[str, Step],
    first: Exhibit,
) -> Iterator[str]:
    """What is folded. ``first`` is the exhibit that shows the command of these steps."""
    if exhibit.word:
        yield from ("", exhibit.word)
    if exhibit.published:
        yield from ("", f"Published: {exhibit.published}")
    rows = _of(exhibit, measured)
    if exhibit.steps:
        if first is exhibit:
            yield from ("", "```sh", *_commands(exhibit, planned), "```")
        else:
            again = _run(_names(exhibit, planned))
            yield from ("", f"Repeat: `{again}`, the command of {_link(first)}.")
        yield from ("", _provenance(rows, _steps_left(exhibit, rows, planned)))
    if exhibit.columns and (rows or published):
        table = _down if exhibit.managers_down else _apart if exhibit.apart else _joined
        yield ""
        yield from table(exhibit, published, _cells(exhibit, rows))


def _in_html(text: str) -> str:
    """A sentence where Markdown is not read: only code is marked."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def _run(names: Iterable[str]) -> str:
    return f"python -m bench.papers run {' '.join(names)}"


def _commands(exhibit: Exhibit, planned: Mapping[str, Step]) -> Iterator[str]:
    """As they are typed; of many alike the first, and what runs the others."""
    names = _names(exhibit, planned)
    for name in names[:1]:
        if planned[name].prepare:
            yield shlex.join(planned[name].prepare).replace("{results}", str(RESULTS))
        yield shlex.join(planned[name].typed(RESULTS))
    if names[1:]:
        yield f"# {len(names) - 1} more: {_run(names[1:])}"


def _provenance(rows: Sequence[Measured], left: Sequence[str]) -> str:
    if not rows:
        return "Not measured yet: `make papers` does."
    dates = sorted({row.date for row in rows})
    versions = ", ".join(sorted({row.version for row in rows}))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    sizes = {row.size for row in rows}
    size = "in full" if sizes == {Size.FULL} else "at reduced size: fewer programs, inputs and runs"
    if len(sizes) > 1:
        size = "in part in full, in part at reduced size"
    machines = sorted({row.machine or "[a machine without record](#machines)" for row in rows})
    lacking = f" Not measured yet: {', '.join(left)}." if left else ""
    return f"Measured {size}, {when}, with Tare {versions}, on {' and '.join(machines)}.{lacking}"


def _cells(exhibit: Exhibit, rows: Iterable[Measured]) -> Cells:
    """What was measured, with what is derived from it; ratios where the column asks for them."""
    medians: dict[tuple[str, str], dict[str, float]] = {}
    ratios: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        key = (row.program, row.manager)
        medians.setdefault(key, {})[row.metric] = row.median
        if row.ratio is not None:
            ratios.setdefault(key, {})[row.metric] = row.ratio
    cells = {
        key: {
            column.metric: value
            for column in exhibit.columns
            if (value := _value(column, values, ratios.get(key, {}))) is not None
        }
        for key, values in medians.items()
    }
    if not exhibit.baseline:
        return cells
    return _over(cells, exhibit.managers.get(exhibit.baseline, exhibit.baseline))


def _value(
    column: Column, values: Mapping[str, float], ratios: Mapping[str, float]
) -> float | None:
    if column.ratio:
        return ratios.get(column.metric)
    if column.metric not in DERIVED:
        return values.get(column.metric)
    try:
        return DERIVED[column.metric](values)
    except (KeyError, ZeroDivisionError):
        return None


def _over(cells: Cells, baseline: str) -> Cells:
    """Over the baseline of the same program, which is left out."""
    return {
        (program, manager): {metric: value / base[metric] for metric, value in values.items()}
        for (program, manager), values in cells.items()
        if manager != baseline and (base := cells.get((program, baseline)))
    }


def _joined(exhibit: Exhibit, published: Cells, ours: Cells) -> Iterator[str]:
    """A line for each published row and each program of ours that stands for it: our figure, and
    the published one in brackets."""
    managed = any(manager for _, manager in published)
    titles = ["published for", "ours", *(column.title for column in exhibit.columns)]
    yield _line(titles)
    yield _line(["---", "---", *("---:" for _ in exhibit.columns)])
    for (program, manager), values in published.items():
        here = exhibit.managers.get(manager, manager)
        for stand_in in exhibit.programs.get(program, ()) or ("",):
            found = ours.get((stand_in, here), {})
            theirs = f"{program}, {manager}" if managed and manager else program
            named = f"`{stand_in}`" + (f", `{here}`" if managed else "") if stand_in else NOTHING
            cells = [
                f"{column.text(found.get(column.metric))} "
                f"({column.text(values.get(column.metric))})"
                for column in exhibit.columns
            ]
            yield _line([theirs, named, *cells])


def _apart(exhibit: Exhibit, published: Cells, ours: Cells) -> Iterator[str]:
    """Our lines, and below them the published ones; managers across where there is one quantity."""
    if len(exhibit.columns) == 1:
        yield from _across(exhibit, published, ours)
        return
    yield _line(["program", "manager", *(column.title for column in exhibit.columns)])
    yield _line(["---", "---", *("---:" for _ in exhibit.columns)])
    for cells, source in ((ours, ""), (published, " (published)")):
        for (program, manager), values in cells.items():
            if not values:
                continue
            texts = [column.text(values.get(column.metric)) for column in exhibit.columns]
            yield _line([program + source, manager or NOTHING, *texts])


def _across(exhibit: Exhibit, published: Cells, ours: Cells) -> Iterator[str]:
    (column,) = exhibit.columns
    theirs = list(dict.fromkeys(manager for _, manager in published))
    shown = list(dict.fromkeys(exhibit.managers.get(manager, manager) for manager in theirs))
    shown += dict.fromkeys(
        manager for (_, manager), values in ours.items() if values and manager not in shown
    )
    yield _line(["program", *(f"`{manager}`" for manager in shown)])
    yield _line(["---", *("---:" for _ in shown)])
    back = {exhibit.managers.get(manager, manager): manager for manager in theirs}
    for cells, source, name_of in (
        (ours, "", {manager: manager for manager in shown}),
        (published, " (published)", back),
    ):
        lines = _by_program(cells, column, [name_of.get(manager, "") for manager in shown])
        for program, values in lines.items():
            yield _line([program + source, *map(column.text, values)])
        is_one_by_one = cells is ours or not column.ratio  # some published ratios are means
        if len(lines) > 1 and len(shown) > 1 and is_one_by_one:
            means = _means(list(lines.values()), relative=not column.ratio)
            yield _line([f"*geometric mean{source}*", *means])


def _down(exhibit: Exhibit, published: Cells, ours: Cells) -> Iterator[str]:
    """Of one quantity under many managers: our managers down and programs across, and then so what
    was published."""
    (column,) = exhibit.columns
    for cells, source in ((ours, ""), (published, " (published)")):
        lines = _by_program(cells, column, managers := _by_size({key[1] for key in cells}))
        if not lines:
            continue
        if ours and source:
            yield ""
        has_means = column.ratio and len(lines) > 1 and cells is ours
        common = _options_of_all(managers)
        if common:
            yield from (f"All managers with options have `{', '.join(common)}`, too.", "")
        yield _line([f"manager{source}", *lines, *(["*geometric mean*"] if has_means else [])])
        yield _line(["---", *("---:" for _ in lines), *(["---:"] if has_means else [])])
        for place, manager in enumerate(managers):
            values = [line[place] for line in lines.values()]
            if any(value is not None for value in values):
                means = _means([[value] for value in values], relative=False) if has_means else []
                named = f"`{_without(manager, common)}`" if cells is ours else manager
                yield _line([named, *map(column.text, values), *means])


def _options_of_all(managers: Iterable[str]) -> list[str]:
    """Those that every manager with options has, as they are written."""
    written = [_OPTION.findall(manager) for manager in managers if "(" in manager]
    first = written[0] if len(written) > 1 else []
    return [option for option in first if all(option in each for each in written)]


def _without(manager: str, options: Iterable[str]) -> str:
    for option in options:
        manager = manager.replace(f", {option}", "").replace(f"({option}, ", "(")
    return manager


def _by_size(managers: Iterable[str]) -> list[str]:
    """Those that are as they are first; then by name, with sizes in the order of their bytes."""

    def key(manager: str) -> tuple[bool, str]:
        sized = re.sub(r"\b\d+(?:[KMG]i)?B", lambda size: f"{parse_size(size[0]):020d}", manager)
        return "(" in manager, sized

    return sorted(managers, key=key)


def _by_program(
    cells: Cells, column: Column, managers: Sequence[str]
) -> dict[str, list[float | None]]:
    programs = dict.fromkeys(program for program, _ in cells)
    lines = {
        program: [cells.get((program, manager), {}).get(column.metric) for manager in managers]
        for program in programs
    }
    return {program: line for program, line in lines.items() if any(v is not None for v in line)}


def _means(lines: Sequence[Sequence[float | None]], *, relative: bool) -> list[str]:
    """Of each column over the programs that have it; relative to the first column where values are
    sizes, which no mean makes sense of."""
    found = []
    for place in range(len(lines[0])):
        pairs = [(line[place], line[0] if relative else 1.0) for line in lines]
        logs = [math.log(value / base) for value, base in pairs if value and base]
        found.append(f"{math.exp(sum(logs) / len(logs)):.2f}" if logs else NOTHING)
    return found


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
