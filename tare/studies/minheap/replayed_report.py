"""The study behind `tare minheap`: the minimum heap in which each collector can replay a trace.

A run is the whole search for one manager, by ``tare.studykit.least_heap.replayed``; its record
holds every trial.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tare.base.units import format_bytes, format_count
from tare.campaign import planning
from tare.records import summary
from tare.records.metrics import METRICS, Obtained, Status
from tare.records.results import Results, read_records
from tare.records.runs import Number, Record
from tare.report.fields import (
    SERVED,
    Field,
    Kind,
    Row,
    counts,
    numbers,
    quotient,
    ratios,
    sizes,
    table,
    text,
    texts,
)
from tare.report.model import Cell, Section, Table
from tare.studykit.least_heap.replayed import PARTS
from tare.studykit.published import published
from tare.studykit.replays import ReplayRun

STUDY = "minheap"
OBSERVER = "minheap"
TITLE = "The minimum heap of each collector, replayed"
LOW, HIGH = "min_heap_low_bytes", "min_heap_high_bytes"
ORACLES = {
    "free": "the program's own frees",
    "unreachable": "each object freed once unreachable",
    "last-use": "each object freed after its last use",
}
PART_TITLES = ("live", "copy reserve", "metadata", "fragmentation", "garbage", "unused")
STATUSES = ("ok", "out-of-memory", "timeout", "failed")
"""Of trials, in the order of the columns that count them."""
REFERENCE = "marksweep(mimalloc, every=64KiB)"
"""What the published ratios refer to."""
PUBLISHED_COLLECTORS = ("marksweep(mimalloc, every=128KiB)", "semispace", "gencopy", "immix")


class MinheapRun(ReplayRun, frozen=True, kw_only=True):
    oracles: dict[str, Number]


next_round = partial(planning.next_round, study=STUDY, observer=OBSERVER)
summarise = partial(summary.summarise_range, first_metric=HIGH)


def published_heaps() -> dict[str, tuple[float | None, ...]]:
    """Minimum heaps in MB of Java's DaCapo programs, in Sareen (2021), table 3.1: under
    ``REFERENCE``, then ``PUBLISHED_COLLECTORS``."""
    managers = (REFERENCE, *PUBLISHED_COLLECTORS)
    return {
        row["program"]: tuple(row[manager] for manager in managers) for row in published("minheap")
    }


def published_ratios() -> dict[str, tuple[float, float, float]]:
    """By collector, the geometric mean, the least and the greatest of its minimum heaps by those of
    mark-sweep over mimalloc, where both were published."""
    means = {}
    for place, collector in enumerate(PUBLISHED_COLLECTORS, 1):
        pairs = [(row[0], row[place]) for row in published_heaps().values()]
        over = [heap / base for base, heap in pairs if base is not None and heap is not None]
        means[collector] = (math.exp(sum(map(math.log, over)) / len(over)), min(over), max(over))
    return means


def section(results: Results) -> Section:
    """Findings and tables of the searches in a results folder."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    run = results.run_as(MinheapRun)
    tables = [_table(run, good)]
    if split := [record for record in good if PARTS[0] in record.outcome.values]:
        tables.append(_parts_table(run, split))
    if limited := [record for record in good if _is_limited(record)]:
        tables.append(_trials_table(limited))
    findings = _findings(run, good)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings,
        tables=tables,
        figures=[],
        obtained=Obtained.REPLAYED,
    )


def _findings(run: MinheapRun, good: Sequence[Record]) -> list[str]:
    counted = run.schedule
    death = run.request.how.death
    sentences = [
        f"Replayed: {format_count(counted.objects)} objects, "
        f"{format_bytes(counted.allocated_bytes)}, at most "
        f"{format_bytes(counted.peak_bytes)} at one moment; an object has a root until it dies "
        f"({ORACLES[death]}), and lives on while another one points to it."
    ]
    limited = [record for record in good if _is_limited(record)]
    if limited:
        best = min(limited, key=lambda record: float(record.outcome.values[HIGH]))
        ratio = best.outcome.values[HIGH] / counted.peak_bytes
        sentences.append(
            f"The smallest minimum heap is that of {best.run.manager}: "
            f"{format_bytes(best.outcome.values[HIGH])}, {ratio:.2f} times the most bytes alive."
        )
    means = ", ".join(
        f"{collector} {mean:.2f} ({least:.2f} to {most:.2f})"
        for collector, (mean, least, most) in published_ratios().items()
    )
    sentences.append(
        "Published for Java's DaCapo programs (Sareen 2021, table 3.1), over mark-sweep on "
        f"mimalloc with a collection every 64 KB, geometric means: {means}."
    )
    return sentences


def _is_limited(record: Record) -> bool:
    return bool(record.outcome.details.get("trials"))


def trials_row(record: Record) -> Row:
    """The values of a search, with the number of trials by how they ended."""
    ended = Counter(status for _, status, _ in record.outcome.details.get("trials", ()))
    numbers = {status: ended[status] for status in STATUSES}
    return {**record.outcome.values, **numbers, "manager": record.run.manager}


def _collecting(row: Row) -> float:
    return (
        quotient(row["collector_seconds"], row["mutator_seconds"] + row["collector_seconds"]) or 0.0
    )


def _table(run: MinheapRun, good: Sequence[Record]) -> Table:
    """A line per manager, the smallest heap first, and the oracles as limits."""
    live = run.schedule.peak_bytes
    reference = next((r.outcome.values[HIGH] for r in good if r.run.manager == REFERENCE), None)
    means = {collector: mean for collector, (mean, _, _) in published_ratios().items()}

    def over(base: float | None) -> Callable[[Row], float | None]:
        return lambda row: row[HIGH] / base if base else None

    peak = "From this heap on the replay always fitted; of a manager without a limit, its peak."
    between = "The minimum heap lies between these: the replay never fitted up to the first."
    alive = "The minimum heap divided by the most bytes, as asked for, alive at one moment."
    dacapo = "Sareen 2021, table 3.1: the same ratio for DaCapo, geometric mean."
    fields: list[Field[Row]] = [
        Field(
            "manager",
            "What served the objects; without a manager, when they are freed.",
            lambda row: row["manager"],
            numeric=False,
        ),
        sizes("minimum heap", peak, HIGH),
        texts("interval", between, "interval"),
        ratios("over live", alive, over(live)),
        ratios(
            "over mark-sweep",
            f"The minimum heap divided by the peak of {REFERENCE}.",
            over(reference),
        ),
        ratios("published", dacapo, "published"),
        counts("trials", "The replays of the search.", "trials", essential=False),
    ]
    rows: list[Row] = [
        {
            **record.outcome.values,
            "manager": text(record.run.manager),
            "interval": _between(record.outcome.values) if _is_limited(record) else "a peak",
            "published": means.get(record.run.manager),
        }
        for record in sorted(good, key=lambda record: float(record.outcome.values[HIGH]))
    ]
    rows += [
        {
            "manager": Cell(f"no manager: {ORACLES[death]}", ORACLES[death]),
            HIGH: peak,
            "interval": "a limit",
        }
        for death, peak in run.oracles.items()
    ]
    notes = [
        "a collector's heap has 8 bytes of header for each object; a limit is only the bytes asked "
        "for. The heap of marksweep(M, …) is the pages that hold an object, as Sareen counts them; "
        "that of malloc is all memory that it took."
    ]
    return table("table-minheap", "Minimum heaps", rows, fields, notes)


def _between(values: Mapping[str, float]) -> str:
    return f"{format_bytes(values[LOW])} – {format_bytes(values[HIGH])}"


def _parts_table(run: MinheapRun, split: Sequence[Record]) -> Table:
    """A line per manager: its minimum heap as the sum of its parts, in the most bytes alive."""
    live = run.schedule.peak_bytes

    def part(title: str, help: str, name: str) -> Field[Record]:
        def value(record: Record) -> float | None:
            size = record.outcome.values.get(name)
            return None if size is None else quotient(size, live)

        return ratios(title, help, value)

    fields: list[Field[Record]] = [
        texts("manager", SERVED, lambda record: record.run.manager),
        *(
            part(title, METRICS[name].explanation, name)
            for title, name in zip(PART_TITLES, PARTS, strict=True)
        ),
        part("minimum heap", "The sum.", HIGH),
    ]
    rows = sorted(split, key=lambda record: float(record.outcome.values[HIGH]))
    notes = [
        "in multiples of the most bytes alive, at the full collection after which most was live. "
        "For marksweep(M, …): at the peak of its pages, without M's own tables."
    ]
    return table("table-minheap-parts", "What the minimum heaps go to", rows, fields, notes)


def _trials_table(limited: Sequence[Record]) -> Table:
    """How the trials ended, and what the minimum heap is like."""
    crashed = "Trials in which the collector failed."
    reserve = "Of the minimum heap, what was kept free to copy objects to."
    share = "Share of the replay in collections, in the minimum heap."
    fields: list[Field[Row]] = [
        texts("manager", SERVED, "manager"),
        numbers("fitted", "Trials that succeeded.", "ok"),
        numbers(
            "out of memory",
            "Trials in which the live objects did not fit into the heap.",
            "out-of-memory",
        ),
        numbers(
            "too slow", "Trials that were ended because they did little but collect.", "timeout"
        ),
        numbers("crashed", crashed, "failed"),
        sizes("copy reserve", reserve, "copy_reserve_bytes"),
        counts("collections", "In the minimum heap.", "collections"),
        Kind("{:.0%}".format)("collector time", share, _collecting),
    ]
    return table("table-minheap-trials", "The trials", map(trials_row, limited), fields)
