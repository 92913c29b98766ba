"""What a breakdown costs for each instruction of a program, with and without a memory system."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import polars as pl

import tare
from bench.programs import times
from bench.row import Row, seconds_row
from tare.base.errors import TareError

INSTRUCTIONS = 5.9e9
MOST_SECONDS = {"breakdown": 11.3, "breakdown --memory": 60.0}
"""Of processor time, for so many instructions."""
GENERATIONS = "1500"


def rows() -> list[Row]:
    """Of a program in OCaml, each way in turn, with the start of the command and of Valgrind."""
    if shutil.which("ocamlopt.opt") is None:
        return [Row("breakdown", "ocaml-nox is not installed")]
    try:
        (life,) = tare.suite_programs("storage", ["life"], report=lambda _text: None)
    except TareError as error:
        return [Row("breakdown", error.message)]
    program = [life.argv[0], GENERATIONS]
    ways = {
        what: [sys.executable, "-m", "tare", *what.split(), "--quiet", "--no-page", "--"]
        for what in MOST_SECONDS
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        took = times(ways, program)
        instructions = _instructions(Path(folder))
    return [
        seconds_row(
            f"processor time of {what} for {INSTRUCTIONS / 1e9} G instructions, by "
            f"{instructions / 1e9:.1f} G of life",
            took.each(what, instructions / INSTRUCTIONS),
            most,
        )
        for what, most in MOST_SECONDS.items()
    ]


def _instructions(folder: Path) -> float:
    """What the program executed, by the results of one of its runs."""
    (results, *_) = sorted((folder / "tare-results").iterdir())
    measured = tare.load(results).measurements.filter(pl.col("metric") == "instructions")
    return float(measured["value"].item())
