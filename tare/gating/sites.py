"""Which call sites a change touched: what the manager's operations cost before and after, by who
called them. Lines move when a program is changed, so places are the same by their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tare.base.units import format_bytes, format_count
from tare.gating.changes import BASE, HEAD
from tare.heap_traces.frames import (
    SHOWN_FRAMES,
    Frame,
    frame_text,
    own_frames,
    site_text,
    stack_texts,
)
from tare.records.metrics import Status
from tare.records.runs import Record
from tare.report.call_trees import Weight, grown
from tare.report.fields import Field, table, texts
from tare.report.figures.icicle import icicle
from tare.report.model import Cell, Figure, Table
from tare.studies.count import report as count
from tare.studies.count.sites import costs
from tare.studykit.findings import first_records

LEAST_SHARE = 0.001
"""Of all bytes, or of all of the manager's instructions: what changed by less is left out."""
_MOST_SITES = 100
_FEW = 10
_SUMMED = ("calls", "instructions", "bytes")


@dataclass
class SiteChange:
    """Sums before and after, by the names in ``_SUMMED``."""

    operation: str
    frames: Sequence[Frame]
    base: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0))
    head: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0))

    def more(self, name: str) -> int:
        return self.head[name] - self.base[name]


def site_changes(records: Sequence[Record]) -> list[SiteChange]:
    """Those of the first count of each program, the largest change first."""
    good = [
        record
        for record in records
        if record.run.study == count.STUDY and record.outcome.status is Status.OK
    ]
    firsts = {name: list(first_records(good, name).values()) for name in (BASE, HEAD)}
    if not all(firsts.values()):
        return []
    found: dict[tuple[str, str], SiteChange] = {}
    for name, (record, *_) in firsts.items():
        for cost in costs(record.outcome):
            if cost.is_rest:
                continue
            frames = cost.frames[::-1]
            site = found.setdefault(
                (cost.operation, _functions(frames)), SiteChange(cost.operation, frames)
            )
            if name == HEAD:
                site.frames = frames
            sums = site.base if name == BASE else site.head
            for each in _SUMMED:
                sums[each] += getattr(cost, each)
    wholes = {each: max(1, *_totals(found.values(), each)) for each in ("instructions", "bytes")}

    def share(site: SiteChange) -> float:
        return max(abs(site.more(name)) / whole for name, whole in wholes.items())

    changed = [site for site in found.values() if share(site) >= LEAST_SHARE]
    return sorted(changed, key=share, reverse=True)[:_MOST_SITES]


def _functions(frames: Sequence[Frame]) -> str:
    own = own_frames(frames)[:SHOWN_FRAMES] or list(frames[:1])
    return " ← ".join(frame_text(frame, with_place=False) for frame in own)


def _totals(found: Iterable[SiteChange], name: str) -> tuple[int, int]:
    sites = list(found)
    return sum(site.base[name] for site in sites), sum(site.head[name] for site in sites)


def sites_table(changed: Sequence[SiteChange]) -> Table:
    fields: list[Field[SiteChange]] = [
        texts(
            "call site",
            "The call of the operation, and what called it. ← reads: called by.",
            lambda row: site_text(row.frames),
        ),
        texts("operation", "What it called.", lambda row: row.operation),
        _sums("How often it did, in base and in head.", "calls", format_count),
        _sums("Asked for by these calls.", "bytes", format_bytes),
        _sums("Of the manager, in these calls.", "instructions", format_count),
    ]
    found = table("table-sites", "Where memory is managed differently", changed, fields)
    return replace(found, few=_FEW, rest=_rest(left)) if (left := changed[_FEW:]) else found


def difference_figures(program: str, changed: Sequence[SiteChange]) -> list[Figure]:
    """Icicles of the bytes that head asks for and base did not, and the reverse, where more than
    one call site has them."""
    drawn = []
    for identifier, word, sign in (("figure-more", "more", 1), ("figure-less", "less", -1)):
        stacks = [
            (tuple(reversed(stack_texts(site.frames))), [sign * site.more("bytes")])
            for site in changed
            if sign * site.more("bytes") > 0
        ]
        if len(stacks) > 1:
            tree = grown(program, "", "", [Weight("bytes", "B")], stacks)
            caption = (
                f"Bytes asked for: head minus base, where head asks for {word}. Each frame lies "
                "below its caller, as wide as its share of the difference."
            )
            drawn.append(icicle(identifier, f"Where {word} is asked for", caption, tree))
    return drawn


def _rest(left: Sequence[SiteChange]) -> str:
    sites = "1 more call site" if len(left) == 1 else f"{len(left)} more call sites"
    return f"{sites}, with smaller changes."


def _sums(help: str, name: str, written: Callable[[float], str]) -> Field[SiteChange]:
    def cell(row: SiteChange) -> Cell:
        before, after = row.base[name], row.head[name]
        words = written(before), written(after)
        if words[0] == words[1]:
            return Cell(words[1], after - before, "quiet")
        return Cell(" → ".join(words), after - before, "bad" if after > before else "good")

    return Field(name, help, cell)
