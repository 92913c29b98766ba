"""What the quarantine itself costs: `delay(M, size=1B)`, which delays nothing, beside M.

The programs are those of the suites `kernels` and `papers` in which the manager executes 10% of the
instructions or more, rounded, as `tare count` says of them under glibc. By default some of them
run, once warm and three times; with TARE_BENCH_DELAY=9 all of them run nine times.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tare
from bench.row import Row
from tare.errors import TareError
from tare.manager import Manager, resolve
from tare.measurement import Status
from tare.program import Program
from tare.runner import Limits, run_once

INNERS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "snmalloc")
HEAVY = {
    "kernels": ("list-tree", "size-mix", "realloc-growth", "fragmentation", "locality", "server",
                "producer-consumer", "thread-churn"),
    "papers": ("gold-link", "perl-dictionary", "make-dry-run", "gawk-dictionary", "bc-cfrac",
               "cppcheck-analyse", "sdcc-compile", "lua-compile", "redis-commands",
               "sqlite-objects"),
}  # fmt: skip
SOME = {"kernels": ("list-tree", "server"), "papers": ("make-dry-run", "sqlite-objects")}
SOME_RUNS = 3
MOST_TIME, MOST_MEMORY, MOST_WORST, MOST_NANOSECONDS = 1.04, 1.01, 1.12, 6.0
PAIRS = 20_000
"""In a round: few, so that also on a busy machine some round is not interrupted."""
PAIR_RUNS = 7
LOOP = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
int main(int count, char** arguments) {
  const long pairs = atol(arguments[1]);
  double least = 1e18;
  for (int round = 0; round < 300; ++round) {
    const double begin = now();
    for (long i = 0; i < pairs; ++i) {
      void* volatile object = malloc(40);
      free(object);
    }
    const double took = now() - begin;
    if (took < least) least = took;
  }
  printf("%f", least / pairs);
  return count != 2;
}
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    """Of processor time, by the program and for it."""
    bytes: float
    """The peak of resident memory."""


def rows() -> list[Row]:
    """Each program under M, the layer over M, and M again, in turn; the ratios of medians."""
    runs = int(os.environ.get("TARE_BENCH_DELAY", "0"))
    chosen = _programs(HEAVY if runs else SOME)
    found = []
    with tempfile.TemporaryDirectory() as name:
        loop = _compiled_loop(Path(name))
        for inner in INNERS:
            try:
                bare, layer = resolve(inner), resolve(f"delay({inner}, size=1B)")
                found += _over(bare, layer, chosen, runs or SOME_RUNS, Path(name))
                found.append(_pair(bare, layer, loop))
            except TareError as error:
                found.append(Row(f"quarantine over {inner}", error.message, met=False))
    return found


def _programs(names: Mapping[str, Sequence[str]]) -> list[Program]:
    return [
        program
        for suite, only in names.items()
        for program in tare.suite_programs(suite, only, report=lambda _: None)
    ]


def _over(
    bare: Manager, layer: Manager, programs: Sequence[Program], runs: int, folder: Path
) -> list[Row]:
    ratios: dict[str, tuple[float, float, float]] = {}
    for program in programs:
        first, delayed, second = _costs(program, (bare, layer, bare), runs, folder)
        ratios[program.name] = (
            delayed.seconds / first.seconds,
            delayed.bytes / first.bytes,
            second.seconds / first.seconds,
        )
    time, memory, noise = (
        math.exp(statistics.mean(math.log(each[which]) for each in ratios.values()))
        for which in range(3)
    )
    slowest = max(ratios, key=lambda program: ratios[program][0])
    worst = ratios[slowest][0]
    what = f"quarantine over {bare.name}, {len(ratios)} programs"
    return [
        Row(
            f"{what}: time",
            f"{time:.3f}x ({bare.name} beside itself {noise:.3f}x)",
            f"at most {MOST_TIME}x",
            time <= MOST_TIME,
        ),
        Row(
            f"{what}: worst time",
            f"{worst:.2f}x ({slowest}; {bare.name} beside itself {ratios[slowest][2]:.2f}x)",
            f"at most {MOST_WORST}x",
            worst <= MOST_WORST,
        ),
        Row(
            f"{what}: peak memory",
            f"{memory:.3f}x",
            f"at most {MOST_MEMORY}x",
            memory <= MOST_MEMORY,
        ),
    ]


def _costs(program: Program, managers: Sequence[Manager], runs: int, folder: Path) -> list[Cost]:
    """The median under each manager; the first run of each only warms the machine up."""
    costs: list[list[Cost]] = [[] for _ in managers]
    for _ in range(1 + runs):
        for manager, mine in zip(managers, costs, strict=True):
            outcome = run_once(program, manager, Limits(600.0), folder)
            if outcome.status is not Status.OK:
                raise TareError(f"{program.name} under {manager.name}: {outcome.reason}")
            seconds = outcome.values["user_seconds"] + outcome.values["system_seconds"]
            mine.append(Cost(seconds, outcome.values["peak_resident_bytes"]))
    return [
        Cost(
            statistics.median(cost.seconds for cost in mine[1:]),
            statistics.median(cost.bytes for cost in mine[1:]),
        )
        for mine in costs
    ]


def _compiled_loop(folder: Path) -> Path:
    source, loop = folder / "loop.c", folder / "loop"
    source.write_text(LOOP)
    subprocess.run(["cc", "-O2", "-fno-builtin", "-o", loop, source], check=True)
    return loop


def _pair(bare: Manager, layer: Manager, loop: Path) -> Row:
    """Nanoseconds that a malloc and its free take longer, in a loop of nothing else."""
    times: dict[str, list[float]] = {bare.name: [], layer.name: []}
    for _ in range(PAIR_RUNS):
        for manager in (bare, layer):
            preload = " ".join(str(path) for path in manager.preload)
            environment = {**os.environ, **manager.environment, "LD_PRELOAD": preload}
            done = subprocess.run(
                [loop, str(PAIRS)], env=environment, capture_output=True, check=True
            )
            times[manager.name].append(float(done.stdout))
    without, within = (statistics.median(each) for each in times.values())
    return Row(
        f"quarantine over {bare.name}: a malloc and its free in a loop",
        f"+{within - without:.1f} ns (to {without:.1f} ns)",
        f"at most {MOST_NANOSECONDS:.0f} ns",
        within - without <= MOST_NANOSECONDS,
    )
