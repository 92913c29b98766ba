"""The study behind `tare minheap`: the least heap in which each collector can replay a trace.

A run is the whole search for one manager, by ``tare.studykit.least_heap.replayed``; its record
holds every trial.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tare.base.libraries import pl
from tare.base.units import format_bytes, format_count
from tare.campaign import planning
from tare.campaign.planning import Plan
from tare.records import summary
from tare.records.metrics import METRICS, Obtained, Status
from tare.records.results import Results, read_records, telling_damage
from tare.records.runs import Record, Run
from tare.report.comparison import failure_table
from tare.report.model import Cell, Column, Section, Table
from tare.studykit.least_heap.replayed import PARTS

STUDY = "minheap"
OBSERVER = "minheap"
TITLE = "The least heap of each collector, replayed"
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
PUBLISHED: Mapping[str, tuple[float | None, ...]] = {
    "avrora": (7, 7, 13, 14, 9),
    "batik": (280, 280, 487, 495, 331),
    "biojava": (None, 188, 377, 382, 191),
    "eclipse": (224, 224, 374, 380, 254),
    "fop": (21, 22, 41, 41, 29),
    "graphchi": (176, 177, 256, 256, 256),
    "jython": (57, 57, 105, 106, 84),
    "luindex": (27, 27, 53, None, 28),
    "lusearch": (25, 26, 36, 37, 24),
    "pmd": (173, 178, 313, None, 173),
    "sunflow": (19, 20, 29, 29, 20),
    "tomcat": (None, 59, 81, 98, 65),
    "xalan": (11, 13, 18, 19, 11),
    "zxing": (100, 102, 125, 124, 99),
}
"""Least heaps in MB of Java's DaCapo programs, in Sareen (2021), table 3.1: under
``REFERENCE``, then ``PUBLISHED_COLLECTORS``."""

__all__ = ["OBSERVER", "STUDY", "Plan", "next_round", "section", "summarise"]


def next_round(plan: Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next, given those that are done; empty when the study is complete."""
    return planning.next_round(plan, records, STUDY, OBSERVER)


def summarise(measurements: pl.DataFrame, baseline: str, seed: int) -> pl.DataFrame:
    """As ``tare.records.summary.summarise_range``."""
    return summary.summarise_range(measurements, baseline, seed, HIGH)


def published_ratios() -> dict[str, tuple[float, float, float]]:
    """By collector, the geometric mean, the least and the greatest of its least heaps by those of
    mark-sweep over mimalloc, where both were published."""
    found = {}
    for place, collector in enumerate(PUBLISHED_COLLECTORS, 1):
        pairs = [(row[0], row[place]) for row in PUBLISHED.values()]
        ratios = [heap / base for base, heap in pairs if base is not None and heap is not None]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        found[collector] = (mean, min(ratios), max(ratios))
    return found


def section(results: Results) -> Section:
    """Findings and tables of the searches in a results folder. UsageError where the folder holds
    something else."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    with telling_damage(results):
        tables = [_table(results.run, good)]
        if split := [record for record in good if PARTS[0] in record.outcome.values]:
            tables.append(_parts_table(results.run, split))
        if limited := [record for record in good if _is_limited(record)]:
            tables.append(_trials_table(limited))
        findings = _findings(results.run, good)
    if (failures := failure_table(results)) is not None:
        tables.insert(0, failures)
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=findings,
        tables=tables,
        figures=[],
        obtained=Obtained.REPLAYED,
        took_seconds=results.run.get("took_seconds"),
    )


def _findings(run: Any, good: Sequence[Record]) -> list[str]:
    counted = run["schedule"]
    death = run["request"]["how"]["death"]
    sentences = [
        f"Replayed: {format_count(counted['objects'])} objects, "
        f"{format_bytes(counted['allocated_bytes'])}, at most "
        f"{format_bytes(counted['peak_bytes'])} at one moment; an object has a root until it dies "
        f"({ORACLES[death]}), and lives on while another one points to it."
    ]
    limited = [record for record in good if _is_limited(record)]
    if limited:
        best = min(limited, key=lambda record: float(record.outcome.values[HIGH]))
        ratio = best.outcome.values[HIGH] / counted["peak_bytes"]
        sentences.append(
            f"The collector that gets by with least is {best.run.manager}: "
            f"{format_bytes(best.outcome.values[HIGH])}, {ratio:.2f} times the most that lives."
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


def _table(run: Any, good: Sequence[Record]) -> Table:
    """A line per manager, the smallest heap first, and the oracles as limits."""
    live = run["schedule"]["peak_bytes"]
    reference = next((r.outcome.values[HIGH] for r in good if r.run.manager == REFERENCE), None)
    published = published_ratios()
    columns = [
        Column(
            "manager",
            "What served the objects; or when they are freed, without a manager.",
            numeric=False,
        ),
        Column(
            "least heap",
            "From this heap on the replay always fitted; of a manager without a limit, its peak.",
        ),
        Column(
            "interval",
            "The least heap lies between these: none that was tried up to the first fitted.",
            numeric=False,
        ),
        Column(
            "over live",
            "The least heap divided by the most bytes, as asked for, alive at one moment.",
        ),
        Column("over mark-sweep", f"The least heap divided by the peak of {REFERENCE}."),
        Column(
            "published",
            "Sareen 2021, table 3.1: the same ratio for DaCapo, geometric mean.",
            numeric=True,
        ),
        Column("trials", "The replays that it was found with.", essential=False),
    ]
    lines = []
    for record in sorted(good, key=lambda record: float(record.outcome.values[HIGH])):
        values, name = record.outcome.values, record.run.manager
        low, high = values[LOW], values[HIGH]
        between = f"{format_bytes(low)} – {format_bytes(high)}" if _is_limited(record) else "a peak"
        mean = published.get(name)
        lines.append(
            [
                Cell(name, name),
                Cell(format_bytes(high), high),
                Cell(between, between),
                _ratio(high, live),
                _ratio(high, reference),
                _ratio(mean[0], 1.0) if mean else Cell("–"),
                Cell(format_count(values["trials"]), values["trials"]),
            ]
        )
    for death, peak in run["oracles"].items():
        words = ORACLES[death]
        lines.append(
            [
                Cell(f"no manager: {words}", words),
                Cell(format_bytes(peak), peak),
                Cell("a limit", "a limit"),
                _ratio(peak, live),
                _ratio(peak, reference),
                Cell("–"),
                Cell("–"),
            ]
        )
    notes = [
        "a collector's heap has 8 bytes of header for each object; a limit has the bytes asked for "
        "and nothing else. That of marksweep(M, …) is the pages that hold an object, as Sareen "
        "counts them; that of a malloc is all memory that it took."
    ]
    return Table("table-minheap", "Least heaps", columns, lines, notes)


def _ratio(value: float, base: float | None) -> Cell:
    return Cell(f"{value / base:.2f}", value / base) if base else Cell("–")


def _parts_table(run: Any, split: Sequence[Record]) -> Table:
    """A line per manager: its least heap as the sum of its parts, in the most bytes alive."""
    live = run["schedule"]["peak_bytes"]
    columns = [
        Column("manager", "What served the objects.", numeric=False),
        *(
            Column(title, METRICS[part].explanation)
            for title, part in zip(PART_TITLES, PARTS, strict=True)
        ),
        Column("least heap", "The sum."),
    ]
    lines = []
    for record in sorted(split, key=lambda record: float(record.outcome.values[HIGH])):
        values, name = record.outcome.values, record.run.manager
        parts = (values.get(part) for part in PARTS)
        lines.append(
            [
                Cell(name, name),
                *(Cell("–") if part is None else _ratio(part, live) for part in parts),
                _ratio(values[HIGH], live),
            ]
        )
    notes = [
        "in multiples of the most bytes alive, at the collection of the whole heap after which the "
        "most lived. For marksweep(M, …): at the peak of its pages, and what M itself takes for "
        "its tables is in none of them."
    ]
    return Table("table-minheap-parts", "What the least heaps go to", columns, lines, notes)


def _trials_table(limited: Sequence[Record]) -> Table:
    """How the trials ended, and what the least heap is like."""
    columns = [
        Column("manager", "What served the objects.", numeric=False),
        Column("fitted", "Trials that ended well."),
        Column("out of memory", "Trials in which what lives did not fit into the heap."),
        Column("too slow", "Trials that were ended because they did little but collect."),
        Column("crashed", "Trials in which the collector ended by an error of its own."),
        Column("copy reserve", "Of the least heap, what was kept free to copy objects to."),
        Column("collections", "At the least heap."),
        Column("collector time", "Of the replay at the least heap, the share in collections."),
    ]
    lines = []
    for record in limited:
        values = record.outcome.values
        counts = Counter(status for _, status, _ in record.outcome.details["trials"])
        whole = values["mutator_seconds"] + values["collector_seconds"]
        share = values["collector_seconds"] / whole if whole else 0.0
        lines.append(
            [
                Cell(record.run.manager, record.run.manager),
                *(Cell(str(counts[status]), counts[status]) for status in STATUSES),
                Cell(format_bytes(values["copy_reserve_bytes"]), values["copy_reserve_bytes"]),
                Cell(format_count(values["collections"]), values["collections"]),
                Cell(f"{share:.0%}", share),
            ]
        )
    return Table("table-minheap-trials", "The trials", columns, lines)
