"""What `tare tune` finds for each program of a suite: `python -m bench.tuned [SUITE]`.

Each program gets so much time as `RUNS` of its runs take. The results folders stay below
build/tuned, so that an interrupted table goes on; the table is written to docs/tuned.md between its
marks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tare
from tare.answers.exports.formats import to_json
from tare.answers.summaries import summary
from tare.base.errors import TareError
from tare.base.text import markdown_code
from tare.base.units import format_bytes, format_seconds
from tare.programs.program import Program
from tare.programs.suites import suite_programs
from tare.records.results import Results
from tare.studykit.progress import TerminalWatcher

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tuned.md"
BEGIN, END = "<!-- table begins -->", "<!-- table ends -->"
RUNS, LEAST_SECONDS = 80, 15.0
HEAD = "| program | takes | settings tried | least time | least memory at no cost | least memory |"
LESS = 0.95
"""A ratio that counts as a gain here: 5%."""


def main(suite: str) -> None:
    programs = suite_programs(suite, [], print)
    folders = ROOT / "build" / "tuned" / suite
    lines: list[str] = []
    gains: list[bool] = []
    for program in programs:
        try:
            results = tuned(program, folders / program.name)
        except TareError as error:
            lines.append(f"| {program.name} | {error.message} | | | | |")
            continue
        found = to_json(results, summary(results))["settings"]
        lines.append(line(program.name, results, found))
        gains.append(any(each["memory_ratio"] <= LESS for each in at_no_cost(found)) or
                     any(each["time_ratio"] <= LESS for each in found))
        write([*lines, "", f"5% less memory at no more time, or 5% less time: {sum(gains)} of "
               f"{len(gains)} programs."])


def tuned(program: Program, folder: Path) -> Results:
    """Its results, of an earlier run where that is finished."""
    if folder.exists() and (kept := tare.load(folder)).run.finished:
        return kept
    begun = time.monotonic()
    tare.compare(program, ["glibc"], runs=1, warmup=0, folder=folder.with_name(f"{folder.name}-1"))
    seconds = max(LEAST_SECONDS, RUNS * (time.monotonic() - begun) / 2)
    return tare.tune(program, seconds=seconds, folder=folder, watcher=TerminalWatcher(False))
