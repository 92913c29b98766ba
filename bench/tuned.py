"""What `tare tune` finds for each program of a suite: `python -m bench.tuned [SUITE]`.

Each program gets so much time as `RUNS` of its runs take, within bounds. The results folders stay
below build/tuned, so that an interrupted table goes on; the page is docs/tuned.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import polars as pl

from tare.base.errors import TareError
from tare.base.units import format_seconds
from tare.base.version import __version__
from tare.programs.program import Program
from tare.programs.runnable import suite_programs
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.results import Results, load
from tare.studies.compare.question import compare
from tare.studies.tune.plan import SEARCH
from tare.studies.tune.question import tune
from tare.studies.tune.settings import Setting, settings
from tare.studykit.progress import TerminalWatcher

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tuned.md"
INTRODUCTION = """\
# What tuning gains

What [`tare tune`](commands/tune.md) finds for the programs of the suite `papers`. Each got the \
time of 60 of its runs, 100 seconds at most, and the managers and options that are tried by \
default. Where a run takes longer than a fortieth of that, nothing is searched. The table has the \
settings that fresh runs confirmed; ratios are to glibc, with their 95% intervals, and below 1 is \
less.

`make tuned` repeats it; what is finished below `build/tuned` is kept.
"""
RUNS, LEAST_SECONDS, MOST_SECONDS = 60, 15.0, 100.0
"""So much time a program gets: that of so many runs, within these bounds."""
HEAD = "| program | a run takes | settings tried | confirmed, as ratios to glibc |"
RULE = "| --- | --- | --- | --- |"
LESS = 0.95
"""A ratio that counts as a gain here: 5%."""


def main(suite: str) -> None:
    programs = suite_programs(suite, [], print)
    folders = ROOT / "build" / "tuned" / suite
    folders.mkdir(parents=True, exist_ok=True)
    lines = [HEAD, RULE]
    others: dict[str, list[str]] = {}
    gained = 0
    for number, program in enumerate(programs, 1):
        print(f"{program.name}, {number} of {len(programs)}", file=sys.stderr, flush=True)
        try:
            results = tuned(program, folders / program.name)
        except TareError as error:
            others.setdefault(error.message, []).append(program.name)
        else:
            found = settings(results)
            gained += any(map(is_gain, found))
            if found:
                lines.append(row(program.name, results, found))
            else:
                others.setdefault(why_none(results), []).append(program.name)
        reasons = [f"- {why}: {', '.join(names)}" for why, names in others.items()]
        rest = "" if number == len(programs) else f" (of {len(programs)}, not finished)"
        total = f"At least 5% gained: {gained} of {number} programs{rest}. Not in the table:"
        write([*lines, "", total, "", *reasons])


def tuned(program: Program, folder: Path) -> Results:
    """Its results, of an earlier run where that is finished."""
    if (folder / "run.json").exists() and (kept := load(folder)).run.finished:
        return kept
    pilot = folder.with_name(f"{folder.name}-pilot")
    once = compare(program, ["glibc"], runs=1, warmup=1, folder=pilot).measurements
    wall = max(once.filter(metric="wall_seconds")["value"].drop_nulls(), default=0.0)
    seconds = min(max(LEAST_SECONDS, RUNS * wall), MOST_SECONDS)
    return tune(program, seconds=seconds, folder=folder, watcher=TerminalWatcher())


def is_gain(setting: Setting) -> bool:
    """Less time, beyond chance, or less memory at no more time that could be seen."""
    cheaper = setting.memory_ratio <= LESS and setting.time_low <= 1.0
    return cheaper or (setting.time_ratio <= LESS and setting.time_high < 1.0)


def row(name: str, results: Results, found: Sequence[Setting]) -> str:
    searched = results.measurements.filter(study=SEARCH, metric="wall_seconds")
    base = searched.filter(manager=results.run.baseline)["value"].median()
    takes = format_seconds(float(base)) if isinstance(base, float) else "–"
    cells = [f"`{each.manager}`: {change(each)}" for each in found]
    return f"| {name} | {takes} | {searched['manager'].n_unique() - 1} | {'<br>'.join(cells)} |"


def why_none(results: Results) -> str:
    """Why no setting was confirmed: a baseline without a figure, too little time, or no gain."""
    searched = results.measurements.filter(study=SEARCH, metric="wall_seconds")
    if searched["manager"].n_unique() > 1:
        return "nothing was confirmed"
    statuses = searched.filter(pl.col("status") != Status.OK)["status"].unique().to_list()
    return f"no figure ({', '.join(statuses)})" if statuses else "runs that take too long to search"


def change(setting: Setting) -> str:
    time, memory = (
        f"{ratio:.2f} ({low:.2f} to {high:.2f})"
        for ratio, low, high in (
            (setting.time_ratio, setting.time_low, setting.time_high),
            (setting.memory_ratio, setting.memory_low, setting.memory_high),
        )
    )
    return f"time {time}, memory {memory}"


def write(lines: Sequence[str]) -> None:
    """The page, with what it was measured on."""
    where = f"{describe_machine()['processor']}, {date.today().isoformat()}, Tare {__version__}."
    PAGE.write_text("\n".join([INTRODUCTION, where, "", *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "papers")
