"""What the quarantine itself costs: `delay(M, size=1B)`, which delays nothing, beside M.

The programs are those of the suites `kernels` and `papers` in which the manager executes 10% of the
instructions or more, rounded, as `tare count` says of them under glibc. By default some of them
run, a few times; with TARE_BENCH_DELAY=9 all of them run nine times.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import tare
from bench import cycles
from bench.programs import SEED, in_turns, round_means
from bench.row import Row, ratio_row, seconds_row
from tare.base.errors import TareError
from tare.base.statistics import median_interval
from tare.base.units import format_seconds
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
SOME_RUNS = 3
"""After as many that tell the peak of memory."""
MOST_TIME, MOST_MEMORY, MOST_WORST, MOST_SECONDS = 1.04, 1.01, 1.12, 2.5e-9
LEAST_PEAK = 8 << 20
"""Of a smaller one the kernel's count, kept in batches for each processor, is off by too much."""
PAIRS = 20_000
"""In a round: few, so that also on a busy machine some round is not interrupted."""
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
    """Of programs under M and under the layer over M, in turn: ratios, a value a round."""

    seconds: dict[str, list[float]]
    """Of processor time, by the program and for it."""
    cycles: dict[str, list[float]]
    """Outside of the kernel; empty where they are not counted."""
    peaks: dict[str, list[float]]
    """Of resident memory."""
    noise: dict[str, list[float]]
    """Of processor time under M to that under M in the same round."""


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
    costs = Costs({}, {}, {}, {})
    for program in programs:
        print(f"quarantine over {bare.name}: {program.name}", file=sys.stderr)
        _measure(program, (bare, layer), runs, folder, costs)
    what = f"quarantine over {bare.name}, {len(programs)} programs"
    noise = round_means(costs.noise)
    told = f"{bare.name} beside itself {noise.median:.2f}x, {noise.low:.2f} to {noise.high:.2f}"
    found = _worst_too(f"{what}: time", costs.seconds, told)
    if costs.cycles:
        found += _worst_too(f"{what}: processor cycles", costs.cycles, told)
    of = f"of {', '.join(costs.peaks)}"
    return [*found, ratio_row(f"{what}: peak memory", round_means(costs.peaks), MOST_MEMORY, of)]


def _worst_too(what: str, ratios: Mapping[str, Sequence[float]], noise: str) -> list[Row]:
    slowest = max(ratios, key=lambda program: statistics.median(ratios[program]))
    worst = median_interval(ratios[slowest], SEED)
    assert worst is not None
    return [
        ratio_row(what, round_means(ratios), MOST_TIME, noise),
        ratio_row(f"{what} of the worst", worst, MOST_WORST, f"{slowest}; {noise}"),
    ]


def _measure(
    program: Program, managers: tuple[Manager, Manager], runs: int, folder: Path, costs: Costs
) -> None:
    bare, layer = managers
    above, alone = (
        [_values(program, each, folder)["peak_resident_bytes"] for _ in range(runs)]
        for each in (layer, bare)
    )
    if statistics.median(alone) >= LEAST_PEAK:
        costs.peaks[program.name] = [one / two for one, two in zip(above, alone, strict=True)]
    for _ in range(runs):
        before, within, after = (_cost(program, each, folder) for each in (bare, layer, bare))
        for name, ratios in (("seconds", costs.seconds), ("cycles", costs.cycles)):
            if name in within:
                without = (before[name] + after[name]) / 2
                ratios.setdefault(program.name, []).append(within[name] / without)
        costs.noise.setdefault(program.name, []).append(after["seconds"] / before["seconds"])


def _cost(program: Program, manager: Manager, folder: Path) -> dict[str, float]:
    counts = folder / "counts"
    if cycles.are_counted():
        _values(replace(program, argv=(*cycles.prefix(counts), *program.argv)), manager, folder)
        counted = cycles.read(counts)
        return {"seconds": counted.seconds, "cycles": counted.cycles}
    values = _values(program, manager, folder)
    return {"seconds": values["user_seconds"] + values["system_seconds"]}


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
    """What a malloc and its free take longer, in a loop of nothing else."""

    def seconds(manager: Manager) -> float:
        preload = " ".join(str(path) for path in manager.preload)
        environment = {**os.environ, **manager.environment, "LD_PRELOAD": preload}
        done = subprocess.run([loop, str(PAIRS)], env=environment, capture_output=True, check=True)
        return float(done.stdout) / 1e9

    took = in_turns({each.name: partial(seconds, each) for each in (bare, layer)})
    return seconds_row(
        f"quarantine over {bare.name}: a malloc and its free in a loop",
        took.more(layer.name, bare.name),
        MOST_SECONDS,
        f"{bare.name} {format_seconds(statistics.median(took.of[bare.name]))}",
    )
