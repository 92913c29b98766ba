"""Regions of real programs: reaps, plain regions and malloc in their place, and as they are."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import tare as api
from bench.row import Row
from tare.base.errors import TareError
from tare.memory_managers.manager import Manager, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits

SUITE = Path(__file__).parent.parent / "suites" / "regions.toml"
PROGRAMS = ("svn-dump", "svn-verify", "ldb-search", "dpkg-query")
TRIES = 21
MOST_RATIO = 1.03
ORIGINAL, REAP = "regions(glibc, as=original)", "regions(glibc, as=reap)"
"""What is held against the other has the shims too: loading them is no cost of a reap."""
MANAGERS = (ORIGINAL, REAP, "regions(glibc, as=region)", "regions(glibc, as=emulation)", "glibc")


def rows() -> list[Row]:
    """The processor's cycles of each program, all ways in turn; ratios of medians. Where there is
    no counter of cycles, processor time."""
    try:
        managers = {name: resolve(name) for name in MANAGERS}
        programs = api.suite_programs(
            str(SUITE), PROGRAMS, lambda text: print(text, file=sys.stderr)
        )
    except TareError as error:
        return [Row("regions", error.message)]
    return [row for program in programs for row in _rows(program, managers)]


def _rows(program: Program, managers: Mapping[str, Manager]) -> list[Row]:
    took: dict[str, list[float]] = {name: [] for name in managers}
    what = ""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TRIES):
            for name, manager in managers.items():
                outcome = run_once(program, manager, Limits(), Path(folder))
                if outcome.status is not Status.OK:
                    return [Row(f"regions of {program.name}, {name}", outcome.reason, met=False)]
                values = outcome.values
                cpu = values["user_seconds"] + values["system_seconds"]
                took[name].append(values.get("cpu_cycles", cpu))
                what = "cycles" if "cpu_cycles" in values else "processor time"
    medians = {name: statistics.median(each) for name, each in took.items()}
    return [
        Row(
            f"{program.name}: {name} over {ORIGINAL}, {what}",
            f"{(ratio := medians[name] / medians[ORIGINAL]):.3f}x",
            f"at most {MOST_RATIO}x" if name == REAP else "",
            name != REAP or ratio <= MOST_RATIO,
        )
        for name in MANAGERS[1:]
    ]
