"""What every user pays each day: the processor time of commands that do next to nothing, with all
the processes that they start, beside Python's own start on the same machine."""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile

from bench.pace import PASS, PASS_SECONDS
from bench.programs import times
from bench.row import Row, ratio_row, seconds_row
from tare.base.units import format_seconds

BESIDE = "python -c pass"
"""The bars are ratios to it."""
_TARE = [sys.executable, "-m", "tare"]
_COMPARE = [*_TARE, "compare", "-m", "glibc", "-n", "1", "--quiet"]
_COUNT = [*_TARE, "count", "-m", "glibc", "--quiet"]
_COMMANDS = {
    "tare --help": ([*_TARE, "--help"], 0.12),
    "tare managers": ([*_TARE, "managers"], 0.15),
    "tare compare -n 1 of true": ([*_COMPARE, "--no-page", "--", "true"], 0.35),
    "tare count of true": ([*_COUNT, "--no-page", "--", "true"], 0.6),
    "tare trace of true": ([*_TARE, "trace", "--", "true"], 0.6),
}
_WITH_PAGE = [*_COMPARE, "--", "true"]
PAGE_SECONDS = 0.4


def rows() -> list[Row]:
    """Each command in turn."""
    commands = {name: command for name, (command, _) in _COMMANDS.items()}
    without = "tare compare -n 1 of true"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        took = times({BESIDE: PASS, **commands, "with page": _WITH_PAGE}, ())

    def median(name: str) -> float:
        return statistics.median(took.of[name])

    found = [Row(f"processor time of {BESIDE}", format_seconds(median(BESIDE)))]
    for name, (_, most) in _COMMANDS.items():
        found.append(
            ratio_row(
                f"processor time of {name}, beside {BESIDE}",
                took.ratio(name, BESIDE),
                round(most / PASS_SECONDS, 1),
                f"{format_seconds(median(name))}; bar {most} s where that takes {PASS_SECONDS} s",
            )
        )
    page = took.more("with page", without)
    return [*found, seconds_row("processor time of the page of a comparison", page, PAGE_SECONDS)]
