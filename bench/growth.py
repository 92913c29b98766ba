"""How the cost of each engine grows with its work, over three orders of magnitude."""

from __future__ import annotations

import math
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bench.row import Row
from tare.base.units import format_seconds

TRIES = 3
LEAST_SECONDS = 1e-3
"""That cost is taken to grow by."""
PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void* window[1000];
static void pairs(long count) {
  for (long i = 0; i < count; i++) {
    void** const place = &window[i % 1000];
    free(*place);
    *place = malloc(16 + i % 100);
    memset(*place, 1, 16);
  }
}
static void live(long count) {
  void** last = NULL;
  for (long i = 0; i < count; i++) {
    void** const made = malloc(32);
    *made = last;
    last = made;
  }
  while (last != NULL) {
    void** const before = *last;
    free(last);
    last = before;
  }
}
static void* in_thread(void* kept) {
  for (int i = 0; i < 100000; i++) {
    void* const object = malloc(16 + i % 100);
    memset(object, 1, 16);
    free(object);
  }
  return kept;
}
static void threads(long count) {
  pthread_t made[64];
  for (long i = 0; i < count; i++) pthread_create(&made[i], NULL, in_thread, NULL);
  for (long i = 0; i < count; i++) pthread_join(made[i], NULL);
}
static void processes(long count) {
  for (long i = 0; i < count; i++) {
    if (fork() == 0) {
      pairs(1000);
      _exit(0);
    }
    wait(NULL);
  }
}
static void mappings(long count) {  /* the kernel joins none, for every other one is for reading */
  for (long i = 0; i < count; i++) {
    mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(malloc(40));
  }
}
static int deep(long depth) {
  if (depth > 1) return deep(depth - 1) + 1;
  for (int i = 0; i < 20000; i++) free(malloc(16 + i % 100));
  return 1;
}
static void heap(long bytes) {
  for (long left = bytes; left > 0; left -= 1 << 20) memset(malloc(1 << 20), 1, 1 << 20);
}
int main(int words, char** word) {
  const long count = atol(word[2]);
  if (strcmp(word[1], "pairs") == 0) pairs(count);
  if (strcmp(word[1], "live") == 0) live(count);
  if (strcmp(word[1], "threads") == 0) threads(count);
  if (strcmp(word[1], "processes") == 0) processes(count);
  if (strcmp(word[1], "mappings") == 0) mappings(count);
  if (strcmp(word[1], "deep") == 0) return deep(count) != count;
  if (strcmp(word[1], "heap") == 0) heap(count);
  return 0;
}
"""  # noqa: E501
KEPT = ("--no-page", "-o", "{results}")
ENGINES: Mapping[str, Sequence[str]] = {
    "trace": ("trace", "-o", "{trace}", "--"),
    "trace --last-use": ("trace", "--last-use", "-o", "{trace}", "--"),
    "count": ("count", "-m", "glibc", "--once", *KEPT, "--"),
    "count --sites": ("count", "-m", "glibc", "--once", "--sites", *KEPT, "--"),
    "space": ("space", "-m", "glibc", *KEPT, "--"),
    "memsys": ("memsys", "-m", "glibc", *KEPT, "--"),
    "drag of a trace": ("drag", *KEPT, "{last-use}"),
    "replay": ("replay", "-m", "glibc", "-n", "1", *KEPT, "{recorded}"),
    "marksweep": ("compare", "-m", "marksweep(glibc)", "-n", "1", *KEPT, "--"),
}  # fmt: skip
"""Commands of Tare by what they are called here; the program's words follow a ``--``."""
MILLION = 1_000_000
CASES: Sequence[tuple[str, str, Sequence[int]]] = (
    *((engine, "pairs", (MILLION // 1000, MILLION, 10 * MILLION)) for engine in ENGINES),
    ("drag of a trace", "live", (MILLION // 1000, MILLION // 2, 5 * MILLION)),
    ("space", "live", (MILLION // 1000, MILLION, 4 * MILLION)),
    ("marksweep", "live", (MILLION // 1000, MILLION, 10 * MILLION)),
    *(
        (engine, work, sizes)
        for work, sizes in (
            ("threads", (1, 8, 32)),
            ("processes", (1, 50, 200)),
            ("mappings", (60, 6000, 60_000)),
        )
        for engine in ("trace", "count", "space", "marksweep")
    ),
    *((engine, "deep", (5, 50, 500)) for engine in ("trace", "count --sites", "space")),
    *((engine, "heap", (1 << 23, 1 << 30, 1 << 33)) for engine in ("space", "marksweep")),
)  # fmt: skip
"""Engine, work, and how much of it: least, more, and most."""
MOSTLY_ITS_OWN = ("heap",)
"""Work that takes the program longer than n log n by itself: the kernel hands out memory, a page in
more time the more of it there is. An engine answers for what its exponent has beyond that."""


Exponents: TypeAlias = "tuple[float, float, float]"
"""Least, median and most."""


@dataclass(frozen=True)
class Growth:
    """Seconds of processor time for each size, a value a try. The first size is the fixed cost."""

    sizes: Sequence[int]
    seconds: Sequence[Sequence[float]]

    def exponents(self) -> Exponents:
        """What cost grows with, from the second size to the last."""
        fixed, more, most = self.seconds
        work = math.log((self.sizes[2] - self.sizes[0]) / (self.sizes[1] - self.sizes[0]))

        def exponent(last: float, middle: float, last_fixed: float, middle_fixed: float) -> float:
            grown = max(last - last_fixed, LEAST_SECONDS) / max(
                middle - middle_fixed, LEAST_SECONDS
            )
            return math.log(grown) / work

        usual = statistics.median(fixed)
        return (
            exponent(min(most), max(more), max(fixed), min(fixed)),
            exponent(statistics.median(most), statistics.median(more), usual, usual),
            exponent(max(most), min(more), min(fixed), max(fixed)),
        )

    def bar(self) -> float:
        """The exponent of n log n between the two sizes."""
        _, more, most = self.sizes
        return 1 + math.log(math.log(most) / math.log(more)) / math.log(most / more)


def rows() -> list[Row]:
    """One for each engine and kind of work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "growing.c").write_text(PROGRAM)
        program = folder / "growing"
        subprocess.run(["cc", "-O1", "-g", "-w", "-fno-builtin", "-o", program,
                        folder / "growing.c", "-lpthread"], check=True)  # fmt: skip
        return [_row(folder, *case) for case in CASES]


def _row(folder: Path, engine: str, work: str, sizes: Sequence[int]) -> Row:
    print(f"growth: {engine}, {work}", file=sys.stderr)
    seconds: list[list[float]] = []
    alone: list[list[float]] = []
    for size in sizes:
        both = [
            (_seconds(folder, engine, work, size), _alone(folder, work, size)) for _ in range(TRIES)
        ]
        seconds.append([one for one, _ in both])
        alone.append([other for _, other in both])
    growth = Growth(sizes, seconds)
    least, median, most = growth.exponents()
    bar = growth.bar()
    took = format_seconds(statistics.median(seconds[-1]))
    bar_told = f"at most {bar:.2f}"
    told = f"exponent {median:.2f} ({least:.2f} to {most:.2f}; {took} for the most"
    if work in MOSTLY_ITS_OWN:
        own = Growth(sizes, alone).exponents()
        told += f"; the program alone {own[1]:.2f}, {own[0]:.2f} to {own[2]:.2f}"
        bar_told += f", or {bar - 1:.2f} beyond the program's"
        least, most = beyond((least, median, most), own)
    met = None if least <= bar < most else most <= bar
    return Row(
        f"{engine}: {work} from {sizes[1]:,} to {sizes[2]:,}",
        f"{told})",
        bar_told,
        met,
        least,
    )


def beyond(exponents: Exponents, own: Exponents) -> tuple[float, float]:
    """Least and most: 1 where an engine's cost grows as the program's own, or as the work where
    that grows faster."""
    least, _, most = (max(exponent, 1) for exponent in own)
    return exponents[0] - most + 1, exponents[2] - least + 1


def _seconds(folder: Path, engine: str, work: str, size: int) -> float:
    """Of processor time, the program's own among it."""
    program = [str(folder / "growing"), work, str(size)]
    with tempfile.TemporaryDirectory(dir=folder) as here:
        paths = {
            f"{{{name}}}": f"{here}/{name}" for name in ("trace", "results", "last-use", "recorded")
        }
        words = ENGINES[engine]
        for name, options in (("{last-use}", ["--last-use"]), ("{recorded}", [])):
            if name in words:
                _tare(["trace", *options, "-o", paths[name], "--", *program])
        command = [
            *(paths.get(word, word) for word in words),
            *(program if words[-1] == "--" else []),
        ]
        return _processor_seconds(lambda: _tare(command))


def _alone(folder: Path, work: str, size: int) -> float:
    if work not in MOSTLY_ITS_OWN:
        return 0.0
    command = [str(folder / "growing"), work, str(size)]
    return _processor_seconds(lambda: subprocess.run(command, check=True))


def _processor_seconds(run: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _tare(words: Sequence[str]) -> None:
    command = [sys.executable, "-m", "tare", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-2000:] or done.stdout[-2000:]}")
