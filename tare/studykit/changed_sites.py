"""Which call sites a change touched: what they cost before and after, by what a study keeps of
them. Lines move when a program is changed, so places are the same by their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from tare.base.text import listed
from tare.base.units import format_bytes, format_count, format_value
from tare.heap_traces.frames import (
    SHOWN_FRAMES,
    Frame,
    frame_text,
    own_frames,
    site_text,
    stack_texts,
)
from tare.records.runs import Record
from tare.report.call_trees import Weight, grown
from tare.report.fields import Field, table, texts
from tare.report.figures.icicle import icicle
from tare.report.model import Cell, Figure, Table

LEAST_SHARE = 0.001
"""Of all of any quantity: what changed by less is left out."""
_MOST_SITES = 100
_FEW = 10
_MOST_IN_A_SENTENCE = 2
_UNRANKED = ("calls",)
"""What has a column, and of which a change is none by itself."""


class Quantity(NamedTuple):
    """What is summed over the calls, or the objects, of a call site."""

    title: str
    help: str
    unit: str
    more: str
    less: str


QUANTITIES = {
    "calls": Quantity("calls", "How often it did.", "", "more calls", "fewer calls"),
    "objects": Quantity("objects", "Allocated there.", "", "more objects", "fewer objects"),
    "bytes": Quantity("bytes", "Asked for there.", "B", "more asked for", "less asked for"),
    "instructions": Quantity(
        "instructions",
        "Of the manager, in these calls.",
        "",
        "more instructions",
        "fewer instructions",
    ),
    "stall_cycles": Quantity(
        "stall cycles",
        "Of the manager, in these calls, simulated.",
        "",
        "more stall cycles",
        "fewer stall cycles",
    ),
    "peak_bytes": Quantity(
        "at the peak",
        "Bytes of its objects alive at the peak.",
        "B",
        "more at the peak",
        "less at the peak",
    ),
    "never_freed_bytes": Quantity(
        "never freed", "Of its objects.", "B", "more never freed", "less never freed"
    ),
    "drag_bytes": Quantity(
        "drag",
        "Bytes at the peak that are not needed again, except by code that frees them.",
        "B",
        "more of it not needed again",
        "less of it not needed again",
    ),
}
_DRAWN = {
    "bytes": ("Where {} is asked for", "Bytes asked for: {}, where they are {}."),
    "peak_bytes": ("Where {} is held at the peak", "Bytes at the peak: {}, where they are {}."),
}
"""The title and the caption of a figure, by its quantity."""


@dataclass(frozen=True)
class SiteSums:
    """Of a call site, innermost frame first, and the operation that it called, empty where a study
    does not tell; by names in ``QUANTITIES``."""

    operation: str
    frames: Sequence[Frame]
    sums: Mapping[str, float]


class KeepsSites(Protocol):
    """The module ``site_sums`` of a study. ``KEPT_BY`` are the studies in whose records it finds
    call sites, the best first; ``NOTE`` is what to know of them."""

    KEPT_BY: Sequence[str]
    TITLE: str
    NOTE: str

    def site_sums(self, record: Record) -> list[SiteSums]: ...


@dataclass
class SiteChange:
    """Sums before and after. One that ``has_lines``, several of one function, is named by none."""

    operation: str
    frames: Sequence[Frame]
    base: dict[str, float] = field(default_factory=dict)
    head: dict[str, float] = field(default_factory=dict)
    has_lines: bool = False

    def more(self, name: str) -> float:
        """After the change; 0 of what the study does not keep."""
        return self.head.get(name, 0) - self.base.get(name, 0)


def site_changes(base: Sequence[SiteSums], head: Sequence[SiteSums]) -> list[SiteChange]:
    """The call sites that changed, the largest change first."""
    found: dict[tuple[str, str], SiteChange] = {}
    for is_head, sites in ((False, base), (True, head)):
        lines: dict[tuple[str, str], int | None] = {}
        for each in sites:
            own = _own(each.frames)
            key = each.operation, " ← ".join(map(_function, own))
            site = found.setdefault(key, SiteChange(each.operation, each.frames))
            if is_head:
                site.frames = each.frames
            if own and lines.setdefault(key, own[0]["line"]) != own[0]["line"]:
                site.has_lines = True
            sums = site.head if is_head else site.base
            for name, value in each.sums.items():
                sums[name] = sums.get(name, 0) + value
    names = dict.fromkeys(name for each in (*base, *head) for name in each.sums)
    for site in found.values():
        if site.has_lines:
            first = _own(site.frames)[0]
            site.frames = [
                {**frame, "line": None} if frame is first else frame for frame in site.frames
            ]
        site.base, site.head = (
            {**dict.fromkeys(names, 0), **side} for side in (site.base, site.head)
        )
    wholes = {
        name: max(1.0, *_totals(found.values(), name)) for name in names if name not in _UNRANKED
    }

    def share(site: SiteChange) -> float:
        return max(abs(site.more(name)) / whole for name, whole in wholes.items())

    changed = [site for site in found.values() if share(site) >= LEAST_SHARE]
    return sorted(changed, key=share, reverse=True)[:_MOST_SITES]


def _own(frames: Sequence[Frame]) -> Sequence[Frame]:
    return own_frames(frames)[:SHOWN_FRAMES] or frames[:1]


def _function(frame: Frame) -> str:
    """Of Python with its file: each has a `<module>`."""
    name = frame_text(frame, with_place=False)
    return name if frame["object"] else f"{name} {(frame['file'] or '').rpartition('/')[2]}"


def _totals(found: Iterable[SiteChange], name: str) -> tuple[float, float]:
    sites = list(found)
    return sum(site.base[name] for site in sites), sum(site.head[name] for site in sites)


def change_sentence(site: SiteChange) -> str:
    """Where the largest change is, and what it is."""
    amounts = {name: amount for name in QUANTITIES if (amount := site.more(name))}
    rather = {name: amounts[name] for name in amounts if name != "instructions"} or amounts
    parts = []
    for name, amount in list(rather.items())[:_MOST_IN_A_SENTENCE]:
        quantity = QUANTITIES[name]
        words = quantity.less if amount < 0 else quantity.more
        parts.append(f"{format_value(abs(amount), quantity.unit)} {words}")
    place = ", ".join(filter(None, (site_text(site.frames), site.operation)))
    return f"The call site that changed most: {place}: {listed(parts)}."


def sites_table(
    changed: Sequence[SiteChange],
    identifier: str = "table-sites",
    title: str = "Where memory is managed differently",
    notes: Sequence[str] = (),
    sides: str = "in base and in head",
) -> Table:
    """With a column for each quantity that any of them has."""
    present = {name for site in changed for name in site.head}
    operations = any(site.operation for site in changed)
    fields: list[Field[SiteChange]] = [
        texts(
            "call site",
            "The call of the operation, and what called it. ← reads: called by.",
            lambda row: site_text(row.frames),
        ),
        *([texts("operation", "What it called.", _operation)] if operations else []),
        *(_sums(name, sides) for name in QUANTITIES if name in present),
    ]
    unnamed = any(site.frames and not site.frames[0]["function"] for site in changed)
    if unnamed:
        notes = [
            *notes,
            "call sites in code without symbols are known by their addresses, which a new build "
            "moves.",
        ]
    found = table(identifier, title, changed, fields, notes)
    return replace(found, few=_FEW, rest=_rest(left)) if (left := changed[_FEW:]) else found


def _operation(site: SiteChange) -> str:
    return site.operation


def difference_figures(
    program: str,
    changed: Sequence[SiteChange],
    sides: tuple[str, str] = ("base", "head"),
    identifier: str = "figure",
) -> list[Figure]:
    """Icicles of the bytes that the second of ``sides`` asks for, or holds at its peak, and the
    first did not, and the reverse, where more than one call site has them."""
    drawn = []
    for name, (title, caption) in _DRAWN.items():
        for word, sign in (("more", 1), ("less", -1)):
            stacks = [
                (tuple(reversed(stack_texts(site.frames))), [sign * site.more(name)])
                for site in changed
                if sign * site.more(name) > 0
            ]
            if len(stacks) > 1:
                tree = grown(program, "", "", [Weight(name, "B")], stacks)
                told = caption.format(
                    f"{sides[1]} minus {sides[0]}", {"less": "fewer"}.get(word, word)
                )
                told += " Each frame lies below its caller, as wide as its share of the difference."
                place = f"{identifier}-{word}" + ("" if name == "bytes" else "-peak")
                drawn.append(icicle(place, title.format(word), told, tree))
    return drawn


def _rest(left: Sequence[SiteChange]) -> str:
    sites = "1 more call site" if len(left) == 1 else f"{len(left)} more call sites"
    return f"{sites}, with smaller changes."


def _sums(name: str, sides: str) -> Field[SiteChange]:
    quantity = QUANTITIES[name]
    written: Callable[[float], str] = format_bytes if quantity.unit else format_count
    help = f"{quantity.help[:-1]}, {sides}."

    def cell(row: SiteChange) -> Cell:
        before, after = row.base.get(name, 0), row.head.get(name, 0)
        words = written(before), written(after)
        if words[0] == words[1]:
            return Cell(words[1], after - before, "quiet")
        return Cell(" → ".join(words), after - before, "bad" if after > before else "good")

    return Field(quantity.title, help, cell)
