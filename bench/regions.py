"""Regions of real programs: reaps, plain regions and malloc in their place, and as they are."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import tare as api
from bench.programs import in_turns
from bench.row import Row, ratio_row
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
LIMITS = Limits(least_coverage=0.0)
"""A program's own pools map memory by themselves, and malloc serves little of it."""
MANAGERS = (ORIGINAL, REAP, "regions(glibc, as=region)", "regions(glibc, as=emulation)", "glibc")


def rows() -> list[Row]:
    """The processor's cycles of each program, all ways in turn. Where there is no counter of
    cycles, processor time."""
    try:
        managers = {name: resolve(name) for name in MANAGERS}
        programs = api.suite_programs(
            str(SUITE), PROGRAMS, lambda text: print(text, file=sys.stderr)
        )
    except TareError as error:
        return [Row("regions", error.message)]
    return [row for program in programs for row in _rows(program, managers)]


def _rows(program: Program, managers: Mapping[str, Manager]) -> list[Row]:
    what = "processor time"
    with tempfile.TemporaryDirectory() as folder:

        def cost(name: str) -> float:
            nonlocal what
            outcome = run_once(program, managers[name], LIMITS, Path(folder))
            if outcome.status is not Status.OK:
                raise TareError(f"{program.name} under {name}: {outcome.reason}")
            values = outcome.values
            if "cpu_cycles" in values:
                what = "cycles"
            return values.get("cpu_cycles", values["user_seconds"] + values["system_seconds"])

        try:
            took = in_turns({name: partial(cost, name) for name in managers}, TRIES)
        except TareError as error:
            return [Row(f"regions of {program.name}", error.message, met=False)]
    found = []
    for name in MANAGERS[1:]:
        ratio = took.ratio(name, ORIGINAL)
        row = ratio_row(f"{program.name}: {name} over {ORIGINAL}", ratio, MOST_RATIO, what)
        found.append(row if name == REAP else replace(row, bar="", met=True))
    return found
