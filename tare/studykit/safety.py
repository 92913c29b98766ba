"""What temporal safety costs: the memory of a freed object comes back late, as under `delay`, or
only once no pointer to it is left, as under `marksweep(M, free=quarantine)`.

The terms are those of MarkUs (Ainsworth and Jones, S&P 2020) and MineSweeper (Erdős, Ainsworth and
Jones, ASPLOS 2022): time and memory over the allocator alone, how fast memory is searched for
pointers, and how long a freed address stays out of use.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec import Struct

from tare.base.libraries import pl
from tare.base.units import format_bytes, parse_size
from tare.memory_managers.layers import delay, marksweep
from tare.records.header import Amount
from tare.records.results import Results
from tare.records.runs import Outcome, Record
from tare.records.summary import Row, geometric_means
from tare.report.comparison import MEMORY, TIME
from tare.report.fields import (
    Field,
    Kind,
    entry,
    exact_ratios,
    numbers,
    quotient,
    seconds,
    table,
    text,
    texts,
)
from tare.report.model import Cell, Table
from tare.studykit.published import published
from tare.studykit.sweep_tables import good_runs
from tare.studykit.sweeps import Variant, layered, size_text, variant

IDENTIFIER = "table-safety"
_UNTIL_NO_POINTER = "no pointer is left"
_RATES = Kind(lambda rate: f"{format_bytes(rate)}/s")
_SOURCE = (
    "Published: geometric means over SPEC CPU2006 on the authors' machines. MarkUs: Ainsworth and "
    "Jones, S&P 2020. MineSweeper: Erdős, Ainsworth and Jones, ASPLOS 2022."
)


class _Delayed(Struct, frozen=True, kw_only=True):
    mean_held_seconds: Amount = 0


class _Swept(Struct, frozen=True, kw_only=True):
    held_bytes: Amount = 0
    ignored_objects: Amount = 0
    allocated_bytes: Amount = 0
    searched_bytes: Amount = 0
    mark_nanoseconds: Amount = 0


class _Details(Struct, frozen=True, kw_only=True):
    """Of a run under any manager."""

    delay: _Delayed = _Delayed()
    marksweep: _Swept = _Swept()


def quarantined(allocator: str) -> Variant:
    """An allocator that gets a freed object once no pointer to it is left."""
    return layered(allocator, marksweep.NAME, {"free": "quarantine"})


def is_quarantine(each: Variant) -> bool:
    return each.layer == marksweep.NAME and each.option("free") == "quarantine"


def safety_tables(results: Results, study: str, records: Sequence[Record]) -> list[Table]:
    """A line for each manager of the study that holds freed objects back, over all its programs,
    and what was published; no table where there is no such manager. Delays alone are measured for
    other reasons, mostly: then it is for the page."""
    mine = results.measurements.filter(pl.col("study") == study)
    measured = set(mine["manager"])
    managers = [m for m in results.run.managers if m in measured and _comes_back(variant(m))]
    if not managers:
        return []
    programs = mine["program"].unique(maintain_order=True).to_list()
    lines = [
        _line(
            manager,
            mine,
            results.run.seed,
            [run for p in programs for run in good_runs(records, study, p, manager)],
        )
        for manager in managers
    ]
    fields: list[Field[Row]] = [
        texts("manager", "What served the program's memory.", "title"),
        numbers(
            "programs",
            "Programs that ran without errors under both it and the allocator alone.",
            "programs",
            essential=False,
        ),
        texts(
            "comes back when",
            "When the memory of a freed object can be used again.",
            "comes_back",
        ),
        exact_ratios("time", "Wall time, divided by that under the allocator alone.", "time"),
        _interval("time"),
        exact_ratios("memory", "Peak memory, divided by that under the allocator alone.", "memory"),
        _interval("memory"),
        seconds(
            "after",
            "Time from the free of an object until its memory can be used again: the mean of all "
            "objects; of several programs, the median. Under marksweep it is estimated from the "
            "bytes allocated meanwhile.",
            "after",
        ),
        _RATES(
            "searched",
            "Bytes searched for pointers, divided by the time of marking.",
            "rate",
            shown=any(line["rate"] for line in lines),
        ),
    ]
    title = "Temporal safety, against the allocator alone"
    notes = [
        *(["Geometric means over the programs."] if len(programs) > 1 else []),
        "A delay only makes it less likely that memory is used again under a dangling pointer; a "
        "quarantine prevents it, for pointers that it can see.",
        _SOURCE,
    ]
    lines += published("delay", "safety")
    asked = any(is_quarantine(variant(manager)) for manager in managers)
    return [table(IDENTIFIER, title, lines, fields, notes, essential=asked)]


def _comes_back(each: Variant) -> str:
    """When freed memory comes back, or "" if at once."""
    if is_quarantine(each):
        return _UNTIL_NO_POINTER
    if each.layer != delay.NAME:
        return ""
    size = parse_size(each.option("size") or _default_size())
    return f"{size_text(size)} are freed" if size > 1 else ""


def _default_size() -> str:
    (size,) = (option.default for option in delay.RECIPE.options if option.name == "size")
    return size or ""


def _line(manager: str, measurements: pl.DataFrame, seed: int, runs: Sequence[Outcome]) -> Row:
    each = variant(manager)
    pair = measurements.filter(pl.col("manager").is_in([manager, each.allocator]))
    means = {
        row["metric"]: row
        for row in geometric_means(pair, (TIME, MEMORY), each.allocator, seed).iter_rows(named=True)
        if row["manager"] == manager
    }
    swept = [run.details_as(_Details).marksweep for run in runs]
    marking = sum(each.mark_nanoseconds for each in swept) / 1e9
    waits = [wait for run in runs if (wait := _wait(run)) is not None]
    line: dict[str, object] = {
        "title": manager,
        "programs": means.get(TIME, {}).get("programs"),
        "comes_back": _comes_back(each),
        "after": statistics.median(waits) if waits else None,
        "rate": quotient(sum(each.searched_bytes for each in swept), marking),
    }
    for name, metric in (("time", TIME), ("memory", MEMORY)):
        if mean := means.get(metric):
            line |= {name: mean["ratio"], f"{name}_low": mean["ratio_low"]}
            line |= {f"{name}_high": mean["ratio_high"]}
    return line


def _wait(run: Outcome) -> float | None:
    """Seconds from the free of an object until its release, the mean of all."""
    found = run.details_as(_Details)
    swept = found.marksweep
    if swept.ignored_objects and swept.allocated_bytes and TIME in run.values:
        meanwhile = swept.held_bytes / swept.ignored_objects
        return float(meanwhile / swept.allocated_bytes * run.values[TIME])
    return float(found.delay.mean_held_seconds) or None


def _interval(name: str) -> Field[Row]:
    def cell(row: Row) -> Cell:
        low, high = entry(row, f"{name}_low"), entry(row, f"{name}_high")
        return text("–") if low is None else text(f"{low:.3f} – {high:.3f}")

    return Field("95% interval", f"Of the ratio of {name}.", cell, False, name == "time")
