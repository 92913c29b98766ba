"""What the quarantine itself costs: `delay(M, size=1B)`, which delays nothing, beside M.

The programs are those of the suites `kernels` and `papers` in which the manager executes 10% of the
instructions or more, rounded, as `tare count` says of them under glibc. By default some of them
run, a few times; with TARE_BENCH_DELAY=9 all of them run nine times.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tare
from bench import cycles
from bench.row import Row
from tare.base.errors import TareError
from tare.memory_managers.manager import Manager, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits

INNERS = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "snmalloc")
HEAVY = {
    "kernels": ("list-tree", "size-mix", "realloc-growth", "fragmentation", "locality", "server",
                "producer-consumer", "thread-churn"),
    "papers": ("gold-link", "perl-dictionary", "make-dry-run", "gawk-dictionary", "bc-cfrac",
               "cppcheck-analyse", "sdcc-compile", "lua-compile", "redis-commands",
               "sqlite-objects"),
}  # fmt: skip
SOME = {"kernels": ("list-tree", "size-mix"), "papers": ("make-dry-run", "bc-cfrac")}
SOME_RUNS = 2
"""After a first one, which also tells the peak of memory: that hardly differs between runs."""
MOST_TIME, MOST_MEMORY, MOST_WORST, MOST_NANOSECONDS = 1.04, 1.01, 1.12, 2.5
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
class Costs:
    """Of a program under M and under the layer over M, one of each in turn."""

    seconds: tuple[list[float], list[float]]
    """Of processor time, by the program and for it."""
    cycles: tuple[list[float], list[float]]
    """Outside of the kernel; empty where they are not counted."""
    peaks: tuple[list[float], list[float]]
    """Of resident memory, in bytes."""


def rows() -> list[Row]:
    """What the layer adds to programs and to a loop, over each allocator."""
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
    costs = {}
    for program in programs:
        print(f"quarantine over {bare.name}: {program.name}", file=sys.stderr)
        costs[program.name] = _costs(program, (bare, layer), runs, folder)
    what = f"quarantine over {bare.name}, {len(costs)} programs"
    found = _times(f"{what}: time", bare.name, {p: cost.seconds for p, cost in costs.items()})
    if cycles.are_counted():
        by_cycles = {program: cost.cycles for program, cost in costs.items()}
        found += _times(f"{what}: processor cycles", bare.name, by_cycles)
    memory = _geometric_mean(_ratio(cost.peaks) for cost in costs.values())
    most = f"at most {MOST_MEMORY}x"
    return [*found, Row(f"{what}: peak memory", f"{memory:.3f}x", most, memory <= MOST_MEMORY)]


def _times(what: str, bare: str, times: Mapping[str, tuple[list[float], list[float]]]) -> list[Row]:
    """Beside each ratio is that of the bare allocator's even runs to its odd ones: the noise."""
    ratios = {program: _ratio(each) for program, each in times.items()}
    noise = {program: _ratio((each[0][::2], each[0][1::2])) for program, each in times.items()}
    mean, slowest = _geometric_mean(ratios.values()), max(ratios, key=ratios.__getitem__)
    return [
        Row(
            what,
            f"{mean:.3f}x ({bare} beside itself {_geometric_mean(noise.values()):.3f}x)",
            f"at most {MOST_TIME}x",
            mean <= MOST_TIME,
        ),
        Row(
            f"{what} of the worst",
            f"{ratios[slowest]:.2f}x ({slowest}; {bare} beside itself {noise[slowest]:.2f}x)",
            f"at most {MOST_WORST}x",
            ratios[slowest] <= MOST_WORST,
        ),
    ]


def _ratio(pair: tuple[Sequence[float], Sequence[float]]) -> float:
    return statistics.median(pair[1]) / statistics.median(pair[0])


def _geometric_mean(ratios: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _costs(program: Program, managers: tuple[Manager, Manager], runs: int, folder: Path) -> Costs:
    costs = Costs(([], []), ([], []), ([], []))
    for which, manager in enumerate(managers):
        costs.peaks[which].append(_values(program, manager, folder)["peak_resident_bytes"])
    counts = folder / "counts"
    counted = replace(program, argv=(*cycles.prefix(counts), *program.argv))
    for _ in range(runs):
        for which, manager in enumerate(managers):
            if cycles.are_counted():
                _values(counted, manager, folder)
                costs.cycles[which].append(cycles.read(counts).cycles)
                costs.seconds[which].append(cycles.read(counts).seconds)
            else:
                values = _values(program, manager, folder)
                costs.seconds[which].append(values["user_seconds"] + values["system_seconds"])
    return costs


def _values(program: Program, manager: Manager, folder: Path) -> Mapping[str, float]:
    outcome = run_once(program, manager, Limits(600.0), folder)
    if outcome.status is not Status.OK:
        raise TareError(f"{program.name} under {manager.name}: {outcome.reason}")
    return outcome.values


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
        f"at most {MOST_NANOSECONDS} ns",
        within - without <= MOST_NANOSECONDS,
    )
