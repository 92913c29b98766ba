"""How long a page of a million measurements takes, which are synthetic; and that of a bill."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from bench.programs import times
from bench.row import Row, seconds_row
from tare.records.metrics import METRICS
from tare.records.results import Results, measurement_schema
from tare.records.summary import summarise
from tare.report.comparison import comparison_section
from tare.report.model import Report
from tare.report.page import write_page
from tests.support.campaigns import described

ROWS = 1_000_000
PAGE_LIMIT_BYTES = 3_000_000
BILL_SECONDS = 1.5
BILLED = ("gawk", "-v", "widest=50", "-f", "workloads/gawk/format.awk",
          "/usr/share/dict/american-english")  # fmt: skip
"""As in the Makefile, from whose folder the bench runs."""
PROGRAMS, MANAGERS = 10, 10
MEASURED = ("wall_seconds", "user_seconds", "system_seconds", "peak_resident_bytes")
LEVELS = {"s": 1.0, "B": 5e7}
SEED = 1

Result = TypeVar("Result")


def synthetic(rows: int) -> pl.DataFrame:
    """Interleaved runs with one percent of noise; the n-th manager is n percent faster."""
    generator = np.random.default_rng(SEED)
    index = pl.select(row=pl.int_range(rows)).lazy()
    run = pl.col("row") // len(MEASURED)
    manager = run % MANAGERS
    program = run * PROGRAMS // (rows // len(MEASURED) + 1)
    units = [METRICS[name].unit for name in MEASURED]
    metrics = pl.DataFrame(
        {"metric": MEASURED, "unit": units, "level": [LEVELS[unit] for unit in units]}
    )
    frame = index.select(
        pl.lit("compare").alias("study"),
        pl.format("program-{}", program).alias("program"),
        pl.when(manager == 0)
        .then(pl.lit("glibc"))
        .otherwise(pl.format("manager-{}", manager))
        .alias("manager"),
        (run // MANAGERS).alias("invocation"),
        run.alias("order"),
        (pl.col("row") % len(MEASURED)).alias("which"),
        (1 - 0.01 * manager).alias("factor"),
        pl.lit("ok").alias("status"),
        pl.lit("executed").alias("obtained"),
    ).collect()
    noise = pl.Series("noise", generator.normal(1, 0.01, rows))
    return (
        frame.with_columns(noise)
        .join(metrics.with_row_index("which").cast({"which": pl.Int64}), on="which")
        .with_columns((pl.col("level") * pl.col("factor") * pl.col("noise")).alias("value"))
        .select(pl.col(name).cast(kind) for name, kind in measurement_schema().items())
    )


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def rows(count: int = ROWS) -> list[Row]:
    """Seconds from a frame of ``count`` measurements to the page, by step, and the page's size."""
    frame = synthetic(count)
    names = frame["program"].unique(maintain_order=True)
    managers = frame["manager"].unique(maintain_order=True).to_list()
    document = {
        **described("compare", names.to_list(), managers),
        "baseline": "glibc",
        "seed": SEED,
    }
    with tempfile.TemporaryDirectory() as folder:
        results = Results(Path(folder), document, frame)
        path = Path(folder) / "report.html"
        summarising, summary = timed(lambda: summarise(frame, "glibc", SEED))
        building, section = timed(lambda: comparison_section(results, summary))
        report = Report("Synthetic measurements", sections=(section,))
        writing, _ = timed(lambda: write_page(report, path))
        size = path.stat().st_size
    what = f"page of {count:,} synthetic rows: "
    return [
        Row(f"{what}summarise", f"{summarising:.2f} s"),
        Row(f"{what}tables and figures", f"{building:.2f} s"),
        Row(f"{what}draw and write", f"{writing:.2f} s"),
        Row(f"{what}size", f"{size / 1e6:.2f} MB", "under 3 MB", size < PAGE_LIMIT_BYTES),
        *_bill(),
    ]


def _bill() -> list[Row]:
    """What the page of the bill that `make demo` writes adds to its tables."""
    if shutil.which(BILLED[0]) is None:
        return [Row("page of a bill", f"{BILLED[0]} is not installed")]
    tare = [sys.executable, "-m", "tare"]
    with tempfile.TemporaryDirectory() as folder:
        bill = f"{folder}/bill"
        subprocess.run(
            [*tare, "weigh", "--quiet", "--no-page", "-o", bill, "--", *BILLED],
            check=True,
            capture_output=True,
        )
        report = [*tare, "report"]
        took = times({"tables": [*report, "--no-page"], "page": report}, [bill])
    return [
        seconds_row(
            "processor time of the page of a bill", took.more("page", "tables"), BILL_SECONDS
        )
    ]
