"""Reports of made-up measurements, with names that mean harm."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from tare.records.actions import Action, Certainty, Gain, Kind, Place
from tare.records.results import measurement_schema
from tare.records.summary import summarise
from tare.report.advice import with_actions
from tare.report.figures import comparison as figures
from tare.report.model import Cell, Column, Report, Section, Table, Tile

LONG_NAME = "delay(marksweep(tcmalloc, every=64KiB), size=64KiB)"
MANAGERS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", LONG_NAME)
PROGRAMS = ("gawk", "perl")
RUNS = 8
PAYLOADS = (
    "<script>window.__pwned = 1</script>",
    "<img src=x onerror='window.__pwned = 2'>",
    "javascript:window.__pwned=3",
    "\"'><svg onload=window.__pwned=4>",
    "</style></title><script>window.__pwned = 5</script>",
    "]]></text></svg><script>window.__pwned = 6</script>",
    "\u202egnirts\nnew line\x07\x00",
    "{{window.__pwned=7}}${window.__pwned=8}@SCRIPT@",
    "\\'); window.__pwned = 9; ('",
)


def sample(
    managers: tuple[str, ...] = MANAGERS, programs: tuple[str, ...] = PROGRAMS
) -> pl.DataFrame:
    generator = np.random.default_rng(1)
    rows: list[tuple[Any, ...]] = []
    for program in programs:
        for run in range(RUNS):
            for number, manager in enumerate(managers):
                for metric, unit, level in (
                    ("wall_seconds", "s", 1 - 0.06 * number),
                    ("peak_resident_bytes", "B", 5e7 * (1 + 0.2 * number)),
                ):
                    value = level * (1 + 0.01 * generator.normal())
                    rows.append(
                        (
                            *("compare", program, manager, run, len(rows)),
                            *(metric, value, unit, "ok", "executed"),
                        )
                    )
    return pl.DataFrame(rows, schema=measurement_schema(), orient="row")


def table_of(summary: pl.DataFrame, identifier: str = "times") -> Table:
    columns = (
        Column("Program", "The measured program.", numeric=False),
        Column("Manager", "What served its memory.", numeric=False),
        Column("Median", "The middle of all runs."),
        Column("Ratio", "Median relative to the baseline."),
        Column("Verdict", "What may be said.", numeric=False),
    )
    tones = {"lower": "good", "higher": "bad"}
    rows = [
        [
            Cell(row["program"], row["program"]),
            Cell(row["manager"], row["manager"]),
            Cell(f"{row['median']:.3f} s", row["median"]),
            Cell(f"{row['ratio']:.3f}", row["ratio"], tones.get(row["verdict"], "quiet")),
            Cell(row["verdict"], row["verdict"]),
        ]
        for row in summary.filter(pl.col("metric") == "wall_seconds").iter_rows(named=True)
    ]
    return Table(identifier, "Wall time", columns, rows, ["A note."])


def sorting_table() -> Table:
    values = [10.0, None, -2.5, 9.0, 1e9, None, 0.001]
    rows = [
        [
            Cell(f"row {number}", f"row {number}"),
            Cell("none" if value is None else f"{value:g}", value),
        ]
        for number, value in enumerate(values)
    ]
    return Table(
        "sorting", "Sorting", (Column("Name", "A name.", numeric=False), Column("Value")), rows
    )


@cache
def make_report(
    managers: tuple[str, ...] = MANAGERS, programs: tuple[str, ...] = PROGRAMS
) -> Report:
    measurements = sample(managers, programs)
    summary = summarise(measurements, "glibc", 1)
    return Report(
        title=f"Sample of {programs[-1]}",
        subtitle=f"under {managers[-1]}",
        facts=(("Machine", "two cores"), (programs[-1], managers[-1])),
        warnings=("turbo on: the clock depends on heat", f"{programs[-1]} is odd"),
        sections=(
            Section(
                "compare",
                "Time and memory",
                findings=(f"{managers[1]} is 6% faster.", "A second finding."),
                tables=(table_of(summary), sorting_table()),
                figures=figures.comparison_figures(measurements, summary, "glibc"),
                expected_seconds=20,
                took_seconds=75,
            ),
            Section(
                "model",
                f"A model of {programs[-1]}",
                findings=("Misses fall by half.",),
                figures=(
                    figures.distribution_figure(
                        measurements.filter(pl.col("program") == programs[0]), "wall_seconds"
                    ),
                ),
                obtained="simulated",
            ),
        ),
    )


@cache
def make_bill() -> Report:
    """As `tare weigh` makes it, with a section of each sort."""
    place = Place("load_orders", "/home/me/src/hold.cpp", 32, "hold")
    gain = Gain("peak_resident_bytes", 22 << 20, 20 << 20, 23 << 20, "B", 0.75)
    earlier = Action(
        kind=Kind.FREE_EARLIER,
        text="Free `orders` after its last use.",
        gain=gain,
        certainty=Certainty.PREDICTED,
        verify="tare drag -- ./hold orders.csv",
        place=place,
    )
    faster = Action(
        kind=Kind.ALLOCATOR,
        text="Run it under tcmalloc.",
        gain=Gain("wall_seconds", 0.1, 0.1, 0.1, "s", 0.9),
        certainty=Certainty.MEASURED,
        verify="tare compare -m tcmalloc -- ./hold orders.csv",
    )
    columns = [Column("no."), Column("call site", numeric=False), Column("bytes", "At the peak.")]
    site = "load (hold.cpp:32) ← read_all (read.cpp:14) ← main"
    sites = Table("sites", "Call sites", columns, [[Cell("1"), Cell(site), Cell("7 MiB", 7.0)]])
    small = [[Cell(str(number)), Cell(f"f{number} (f.c:{number})"), Cell("9 B", 9.0)]
             for number in range(2, 9)]  # fmt: skip
    names = ["load_orders (hold.cpp:32)", *[""] * len(small)]
    rest = "7 more call sites, each below 1%: 0.1% in all (63 B)."
    sites = replace(sites, rows=[*sites.rows, *small], few=1, rest=rest, places=names)
    folded = replace(sites, identifier="folded", title="More of them", essential=False)
    figures_ = figures.comparison_figures(sample(programs=("hold",)), summarise_hold(), "glibc")
    found = Section("a", "Its section", ["Found."], [sites, folded], figures_)
    return Report(
        title="tare weigh: ./hold orders.csv",
        subtitle="two cores",
        program="hold",
        command="./hold orders.csv",
        commands=[("Measure it again", "tare weigh -- ./hold orders.csv")],
        facts=[("seed", "1")],
        verdict=["tcmalloc needs 5.6% less memory.", "Time: `cannot tell`."],
        actions=[earlier, faster],
        tiles=[
            Tile("Peak memory", "88.0 MiB", "resident"),
            Tile("Wasted at the peak", "31%", "unused", "bad"),
        ],
        trust="3 runs under each manager: too few for intervals.",
        trusted=False,
        warnings=["Turbo on: the clock depends on heat."],
        sections=[
            with_actions(found, [earlier, faster]),
            Section("b", "Delays", ["It hurts."], [sites], research=True, obtained="replayed"),
            Section(
                "c",
                "Left behind",
                ["Left out: no time. `tare drag` has it."],
                commands=[("without a limit", "tare drag -- ./hold")],
            ),
        ],
    )


def summarise_hold() -> pl.DataFrame:
    return summarise(sample(programs=("hold",)), "glibc", 1)
