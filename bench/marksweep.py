"""What the collector over any allocator costs: its books alone, and its marking beside BDWGC's."""

from __future__ import annotations

import math
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.programs import commands
from bench.row import Row
from tare.errors import MissingError, TareError
from tare.layers import marksweep
from tare.manager import Manager, resolve

TRIES = 5
MOST_OF_BDWGC = 1.2
MOST_CPU = 1.1
MOST_PAIR = 15.0
BOOKS = "marksweep(glibc, every=never, free=honour)"

MARKING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
typedef struct Node { struct Node *left, *right; long value[2]; } Node;
static void* volatile root;
static size_t below(size_t bound) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % bound;
}
static void link(size_t count, int tree) {
  Node** all = malloc(count * sizeof *all);
  for (size_t i = 0; i < count; i++) all[i] = calloc(1, sizeof(Node));
  for (size_t i = count - 1; tree && i > 0; i--) {
    const size_t j = below(i + 1);
    Node* const other = all[i];
    all[i] = all[j], all[j] = other;
  }
  for (size_t i = 0; i < count; i++) {
    const size_t left = tree ? 2 * i + 1 : i + 1, right = tree ? 2 * i + 2 : count;
    if (left < count) all[i]->left = all[left];
    if (right < count) all[i]->right = all[right];
  }
  root = all[0];
  memset(all, 0, count * sizeof *all);
  free(all);
}
static void flat(size_t count) {
  uint32_t** all = malloc(count * sizeof *all);
  root = all;
  for (size_t i = 0; i < count; i++) {
    all[i] = malloc(4000);
    for (int k = 0; k < 1000; k++) all[i][k] = below(1u << 31);
  }
}
int main(int count, char** arguments) {
  if (strcmp(arguments[1], "data") == 0) flat(8000);
  else link(1000000, strcmp(arguments[1], "tree") == 0);
  void (*collect)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "tare_marksweep_collect");
  if (collect == NULL) collect = (void (*)(void))dlsym(RTLD_DEFAULT, "GC_gcollect");
  if (collect == NULL) return 2;
  for (int i = 0; i < 4; i++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    collect();
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (i > 0) printf("%ld\n", (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
  }
  return 0;
}
"""  # noqa: E501
PAIR = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void* volatile sink;
int main(void) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < 10000000; i++) {
    sink = malloc(40);
    free(sink);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%f\n", ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / 1e7);
  return 0;
}
"""
GAWK = (
    'BEGIN{for(i=0;i<600000;i++){a[i%20000]=i "x" a[(i*7)%20000];'
    'if(length(a[i%20000])>200)a[i%20000]=""}print length(a)}'
)
COLLECTED = {
    "gawk": ("gawk", GAWK),
    "perl": ("perl", "-e", 'my %h; for (1..1000000) {$h{$_ % 9999} = [$_, "x$_"]} print %h + 0'),
    "lua": ("lua5.4", "-e", "local t={} for i=1,2500000 do t[i%5000]={tostring(i)} end print(#t)"),
}


def rows() -> list[Row]:
    """All of it; without BDWGC, only what the books cost."""
    try:
        books = resolve(BOOKS)
    except TareError as error:
        return [Row("marksweep", error.message)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = [*_pair(folder, books), *_programs(folder, books)]
        try:
            bdwgc = resolve("bdwgc")
        except MissingError as error:
            return [*found, Row("marksweep beside bdwgc", error.message)]
        return [*found, *_marking(folder, bdwgc), *_collecting(folder, bdwgc)]


def _run(
    command: Sequence[str | Path], manager: Manager | None, extra: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **extra}
    if manager is not None:
        preload = " ".join(map(str, manager.preload))
        environment |= {**manager.environment, "LD_PRELOAD": preload, **extra}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _compile(folder: Path, name: str, source: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    path = folder / name
    subprocess.run(
        ["cc", "-O1", "-w", "-fno-builtin", "-o", path, folder / f"{name}.c"], check=True
    )
    return path


def _pair(folder: Path, books: Manager) -> list[Row]:
    program = _compile(folder, "pair", PAIR)
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(TRIES):
        for with_books, each in times.items():
            each.append(float(_run([program], books if with_books else None).stdout))
    bare, kept = (statistics.median(each) for each in times.values())
    added = kept - bare
    return [
        Row(
            "marksweep's books, a malloc and free pair",
            f"{added:.1f} ns more ({bare:.1f} ns bare)",
            f"at most {MOST_PAIR:.0f} ns",
            added <= MOST_PAIR,
        )
    ]


def _user_seconds(command: Sequence[str | Path], manager: Manager | None) -> float:
    before = os.times().children_user
    _run(command, manager)
    return os.times().children_user - before


def _programs(folder: Path, books: Manager) -> list[Row]:
    ratios = {}
    for name, command in commands(folder).items():
        times: list[tuple[float, float]] = []
        for _ in range(TRIES):
            times.append((_user_seconds(command, None), _user_seconds(command, books)))
        bare, kept = (statistics.median(column) for column in zip(*times, strict=True))
        ratios[name] = kept / bare
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return [
        Row(
            "marksweep's books, CPU time of programs",
            f"{mean:.2f}x, the geometric mean of {each}",
            f"at most {MOST_CPU}x",
            mean <= MOST_CPU,
        )
    ]


def _marking(folder: Path, bdwgc: Manager) -> list[Row]:
    program = _compile(folder, "marking", MARKING)
    ours = resolve("marksweep(glibc, every=never)")
    speeds = {}
    for kind in ("tree", "list", "data"):
        times: dict[str, list[int]] = {"ours": [], "bdwgc": []}
        for _ in range(TRIES):
            times["bdwgc"] += map(int, _run([program, kind], bdwgc).stdout.split())
            times["ours"] += map(int, _run([program, kind], ours).stdout.split())
        speeds[kind] = statistics.median(times["bdwgc"]) / statistics.median(times["ours"])
    mean = math.exp(statistics.fmean(map(math.log, speeds.values())))
    each = ", ".join(f"{kind} {speed:.2f}" for kind, speed in speeds.items())
    return [
        Row(
            "marksweep's marking, as fast as bdwgc's",
            f"{mean:.2f}x, the geometric mean of {each}",
            "at least 1x",
            mean >= 1,
        )
    ]


def _collecting(folder: Path, bdwgc: Manager) -> list[Row]:
    """Both collect as often as bdwgc does by itself."""
    found = []
    for name, command in COLLECTED.items():
        times: list[tuple[float, float]] = []
        for number in range(TRIES):
            told = _run(command, bdwgc, {"GC_PRINT_STATS": "1"}).stderr
            theirs = [
                int(milliseconds) * 1e-3 + int(nanoseconds) * 1e-9
                for milliseconds, nanoseconds in re.findall(
                    r"Complete collection took (\d+) ms (\d+) ns", told
                )
            ]
            allocated = sum(map(int, re.findall(r"after (\d+) allocated bytes", told)))
            counters = folder / f"{name}{number}"
            counters.mkdir()
            ours = resolve(f"marksweep(glibc, every={allocated // len(theirs)}B)")
            _run(command, ours, {marksweep.COUNTERS_VARIABLE: str(counters)})
            (file,) = counters.iterdir()
            process = marksweep.read_process(file)
            assert process is not None
            pauses = process.counts.pause_nanoseconds / 1e9
            times.append((sum(theirs), pauses))
        theirs_median, ours_median = (
            statistics.median(column) for column in zip(*times, strict=True)
        )
        ratio = ours_median / theirs_median
        found.append(
            Row(
                f"marksweep's pauses in {name}, beside bdwgc's",
                f"{ratio:.2f}x ({ours_median * 1e3:.0f} ms, {theirs_median * 1e3:.0f} ms)",
                f"at most {MOST_OF_BDWGC}x",
                ratio <= MOST_OF_BDWGC,
            )
        )
    return found
