"""The call sites that pay for the manager: the part of a count that tells operations apart by who
called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tare.base.units import format_count, format_percent
from tare.heap_traces.frames import site_text
from tare.observers.call_sites import Cost, costs_of
from tare.records.runs import Outcome, Record
from tare.report.fields import Field, Row, counts, means, percents, sizes, table, texts
from tare.report.model import Table
from tare.studies.count.details import Details
from tare.studykit import site_tables
from tare.studykit.site_tables import Measure, first_view, ranked

FEW = 10
"""Call sites that a sentence counts as few."""
MOST_SITES = 100
"""That are shown one by one."""
_SUMMED = ("calls", "instructions", "bytes")


def has_sites(record: Record) -> bool:
    """Whether the count was told apart by call site."""
    return record.outcome.details_as(Details).call_sites is not None


def costs(outcome: Outcome) -> Iterator[Cost]:
    """None where the count was not told apart."""
    found = outcome.details_as(Details).call_sites
    return iter(()) if found is None else costs_of(found)


def sites_tables(program: str, firsts: Mapping[str, Record], number: int) -> list[Table]:
    """The costliest call sites under each manager; a terminal has those under the first."""
    tables = []
    for place, (manager, record) in enumerate(firsts.items()):
        if has_sites(record):
            title = f"Costliest call sites under {manager}: {program}"
            found = _table(title, record, f"table-costs-{number}-{place}")
            tables.append(replace(found, essential=place == 0))
    return [table for table in tables if table.rows]


def sites_sentence(record: Record, manager: str) -> str:
    """How much of the manager's work few call sites lead to."""
    few = _sites(record)[0][:FEW]
    if not few:
        return "No call site of the manager is known."
    share = sum(row["instructions"] for row in few) / _whole(record)
    which = "1 call site leads" if len(few) == 1 else f"{len(few)} call sites lead"
    return f"{which} to {format_percent(share)} of the manager's instructions under {manager}."


def _whole(record: Record) -> float:
    return max(record.outcome.values["manager_instructions"], 1)


def _sites(record: Record) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What all stacks that read alike cost together, by operation, the costliest first; and all
    others, whose sums alone are known."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    others: dict[str, Any] = {"operation": "", **dict.fromkeys(_SUMMED, 0)}
    call_sites = record.outcome.details_as(Details).call_sites
    assert call_sites is not None
    number = call_sites.all_costs
    for cost in costs_of(call_sites):
        row = others
        if not cost.is_rest:
            number -= 1
            frames = cost.frames[::-1]
            new = {"frames": frames, "operation": cost.operation, **dict.fromkeys(_SUMMED, 0)}
            row = found.setdefault((cost.operation, site_text(frames)), new)
        for name in _SUMMED:
            row[name] += getattr(cost, name)
    sites = sorted(found.values(), key=lambda row: -row["instructions"])
    for small in sites[MOST_SITES:]:
        for name in _SUMMED:
            others[name] += small[name]
    number += len(sites[MOST_SITES:])
    return sites[:MOST_SITES], {**others, "sites": max(number, 1)}


def _table(title: str, record: Record, identifier: str) -> Table:
    measure = Measure(
        "instructions", _whole(record), lambda number: f"{format_count(number)} instructions"
    )
    sites, others = _sites(record)
    rows = ranked(sites, measure, others)
    called = "The call of the operation, and what called it. ← reads: called by."
    fields: list[Field[Row]] = [
        texts("call site", called, site_tables.site_text),
        texts("operation", "What it called.", "operation"),
        counts("calls", "How often it did.", "calls"),
        counts("instructions", "Of the manager, in these calls together.", "instructions"),
        percents("share", "Of all instructions in the manager.", measure.share),
        means(
            "a call",
            "Instructions of a call, on average.",
            lambda row: row["instructions"] / max(row["calls"], 1),
        ),
        sizes("bytes", "Asked for by these calls.", "bytes", essential=False),
    ]
    return first_view(table(identifier, title, rows, fields), rows, measure)
