"""What a bill says first: the verdict, the figures to remember, and what they rest on."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from tare.base.libraries import pl
from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.base.text import sentence
from tare.base.units import format_bytes, format_percent
from tare.campaign import canary, drift
from tare.records import steal
from tare.records.header import Header
from tare.records.machine import noise_warnings
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.report.comparison import MEMORY, TIME
from tare.report.model import Section, Tile

OF_SURENESS = "How sure"
HEADLINES = ("space", "instructions", "drag")
"""Sections whose first sentence belongs to a verdict."""
MOST_OF_FIRST = 3


def verdict(sections: Sequence[Section]) -> list[str]:
    """What the first section decides, then what the others found first."""
    if not sections:
        return []
    first, *others = sections
    found = [text for text in first.findings if not text.startswith(OF_SURENESS)][:MOST_OF_FIRST]
    found += [
        section.findings[0]
        for section in others
        if section.identifier in HEADLINES and section.findings and not section.is_left_out
    ]
    return found or ["Nothing could be measured."]


def tiles(results: Results) -> list[Tile]:
    """Each from the section that measured it, under the baseline; absent where none did."""
    known = _Known(results)
    return [tile for tile in (_peak(known), _wasted(known), _work(known), _left(known)) if tile]


class _Known:
    """The median of a metric under the baseline; None where it was not measured."""

    def __init__(self, results: Results) -> None:
        rows = results.measurements
        self._mine = rows.filter(
            (pl.col("manager") == results.run.baseline) & (pl.col("status") == str(Status.OK))
        )

    def __call__(self, study: str, metric: str) -> float | None:
        found = self._mine.filter((pl.col("study") == study) & (pl.col("metric") == metric))
        values = found["value"].drop_nulls().to_list()
        return statistics.median(values) if values else None


def _peak(known: _Known) -> Tile | None:
    peak = known("compare", MEMORY) or known("space", "resident_bytes")
    return Tile("Peak memory", format_bytes(peak), "resident") if peak else None


def _wasted(known: _Known) -> Tile | None:
    resident, requested = known("space", "resident_bytes"), known("space", "requested_bytes")
    held, needed = known("drag", "peak_free_bytes"), known("drag", "peak_needed_bytes")
    if needed is None:
        needed = known("drag", "peak_last_use_bytes")
    peak = resident or known("compare", MEMORY)
    parts = []
    if resident and requested is not None:
        other = known("space", "other_bytes") or 0.0
        beyond = max(0.0, resident - other - requested)
        parts.append((beyond / resident, "the allocator's overhead"))
    if held and needed is not None and peak:
        parts.append((max(0.0, held - needed) / peak, "unused"))
    if not parts:
        return None
    total = sum(share for share, _ in parts)
    words = ", ".join(f"{format_percent(share)} {what}" for share, what in parts)
    return Tile("Wasted at the peak", format_percent(total), words, "bad" if total > 0.25 else "")


def _work(known: _Known) -> Tile | None:
    whole, mine = known("count", "instructions"), known("count", "manager_instructions")
    if not whole or mine is None:
        return None
    return Tile("Memory management", format_percent(mine / whole), "of the instructions")


def _left(known: _Known) -> Tile | None:
    never = known("drag", "never_freed_bytes")
    if never is None:
        return None
    most = known("drag", "peak_free_bytes")
    detail = f"{format_percent(never / most)} of the peak of live bytes" if most else ""
    return Tile("Never freed", format_bytes(never), detail)


def trust(results: Results, sections: Sequence[Section]) -> tuple[str, bool]:
    """What the figures rest on in one line, and whether all of them can be used; then which of the
    sections that a verdict is made of are missing."""
    parts, doubts = [], []
    runs = _fewest_runs(results)
    if runs is not None:
        parts.append(f"{runs} run{'s' if runs != 1 else ''} under each manager")
        if runs < FEWEST_FOR_INTERVAL:
            doubts.append("too few for 95% intervals")
    parts += _of_machines(results.run)
    records = read_records(results.folder)
    loaded = any(each.setting.startswith("load average") for each in _noise(results.run))
    if loaded or steal.much(records):
        doubts.append("wall times are noisy")
    if canary.warnings(records):
        doubts.append("the speed of the machine changed")
    failed = results.measurements.filter(pl.col("status") != str(Status.OK)).height
    if failed:
        doubts.append(f"{failed} run{'s' if failed > 1 else ''} without a figure")
    text = f"{', '.join(parts)}: {'; '.join(doubts)}" if doubts else ", ".join(parts)
    if any("noisy" in doubt or "speed" in doubt for doubt in doubts):
        text += "; counts and memory are not affected"
    told = [f"{sentence(text)}."] if text else []
    missing = [
        section.title
        for section in sections
        if section.is_left_out and section.identifier in HEADLINES
    ]
    if missing:
        told.append(f"Left out: {'; '.join(missing)} (the full report says why).")
    return " ".join(told), not doubts


def _fewest_runs(results: Results) -> int | None:
    timed = results.measurements.filter(
        (pl.col("study") == "compare") & (pl.col("metric") == TIME) & pl.col("value").is_not_null()
    )
    runs = timed.group_by("manager").len()["len"]
    return int(min(runs)) if len(runs) else None


def _noise(run: Header) -> list[Any]:
    return [each for machine, _ in drift.kinds(run) for each in noise_warnings(machine)]


def _of_machines(run: Header) -> Iterator[str]:
    for machine, number in drift.kinds(run):
        if not number:
            yield f"load {machine.load_average:.1f} on {machine.cores} cores"
