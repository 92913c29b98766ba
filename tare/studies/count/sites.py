"""The call sites that pay for the manager: the part of a count that tells operations apart by who
called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tare.base.units import format_count, format_percent
from tare.heap_traces.frames import site_text
from tare.observers.call_sites import Cost, costs_of
from tare.records.runs import Outcome, Record
from tare.report.fields import Field, counts, means, percents, sizes, table, texts
from tare.report.model import Table
from tare.studies.count.details import Details

SITES_ON_A_TERMINAL = 10
SITES_ON_THE_PAGE = 100
LEFT_OVER = "all other call sites"


@dataclass
class _Line:
    """What all stacks that read the same cost together."""

    operation: str
    text: str
    calls: int = 0
    instructions: int = 0
    bytes: int = 0

    def add(self, cost: Cost) -> None:
        self.calls += cost.calls
        self.instructions += cost.instructions
        self.bytes += cost.bytes


def has_sites(record: Record) -> bool:
    """Whether the count was told apart by call site."""
    return record.outcome.details_as(Details).call_sites is not None


def costs(outcome: Outcome) -> Iterator[Cost]:
    """None where the count was not told apart."""
    found = outcome.details_as(Details).call_sites
    return iter(()) if found is None else costs_of(found)


def sites_tables(program: str, firsts: Mapping[str, Record], number: int) -> list[Table]:
    """The costliest call sites under each manager; a few of the first are for a terminal, too."""
    tables = []
    for place, (manager, record) in enumerate(firsts.items()):
        if not has_sites(record):
            continue
        lines, tag = _lines(record), f"{number}-{place}"
        if place == 0:
            title = f"Costliest call sites under {manager}: {program}"
            tables.append(_table(f"table-costs-{tag}", title, record, lines, SITES_ON_A_TERMINAL))
        if place > 0 or len(lines) > SITES_ON_A_TERMINAL:
            most = min(len(lines), SITES_ON_THE_PAGE)
            title = f"The first {most} call sites under {manager}: {program}"
            long = _table(f"table-all-costs-{tag}", title, record, lines, SITES_ON_THE_PAGE)
            tables.append(replace(long, essential=False))
    return tables


def sites_sentence(record: Record, manager: str) -> str:
    """How much of the manager's work few call sites lead to."""
    lines = [line for line in _lines(record) if line.text != LEFT_OVER]
    if not lines:
        return "No call of the manager has a call site that is known."
    few = lines[:SITES_ON_A_TERMINAL]
    share = sum(line.instructions for line in few) / _whole(record)
    which = "1 call site leads" if len(few) == 1 else f"{len(few)} call sites lead"
    return f"{which} to {format_percent(share)} of the manager's instructions under {manager}."


def _whole(record: Record) -> float:
    return max(record.outcome.values["manager_instructions"], 1)


def _lines(record: Record) -> list[_Line]:
    """The costliest first; what is left over is one line, the last."""
    lines: dict[tuple[str, str], _Line] = {}
    rest = _Line("", LEFT_OVER)
    for cost in costs(record.outcome):
        if cost.is_rest:
            rest.add(cost)
            continue
        text = site_text(cost.frames[::-1])
        lines.setdefault((cost.operation, text), _Line(cost.operation, text)).add(cost)
    ranked = sorted(lines.values(), key=lambda line: -line.instructions)
    return [*ranked, *([rest] if rest.calls else [])]


def _table(identifier: str, title: str, record: Record, lines: Sequence[_Line], most: int) -> Table:
    whole = _whole(record)
    called = "The call of the operation, and what called it. ← reads: called by."
    fields: list[Field[_Line]] = [
        texts("call site", called, lambda line: line.text),
        texts("operation", "What it called.", lambda line: line.operation),
        counts("calls", "How often it did.", lambda line: line.calls),
        counts(
            "instructions",
            "Of the manager, in these calls together.",
            lambda line: line.instructions,
        ),
        percents(
            "share",
            "Of all instructions in the manager.",
            lambda line: line.instructions / whole,
        ),
        means(
            "a call",
            "Instructions of a call, on average.",
            lambda line: line.instructions / max(line.calls, 1),
        ),
        sizes("bytes", "Asked for by these calls.", lambda line: line.bytes, essential=False),
    ]
    notes = []
    if left := lines[most:]:
        share = format_percent(sum(line.instructions for line in left) / whole)
        notes.append(f"{format_count(len(left))} more call sites lead to {share} of them.")
    return table(identifier, title, lines[:most], fields, notes)
