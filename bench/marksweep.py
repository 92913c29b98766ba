"""What the collector over any allocator costs: its books alone, and its marking beside BDWGC's."""

from __future__ import annotations

import itertools
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import cycles
from bench.programs import commands
from bench.row import Row
from tare.base.errors import MissingError, TareError
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import Manager, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits

TRIES, MEMORY_TRIES = 5, 2
MOST_OF_BDWGC = 0.8
LEAST_OF_TWO = 1.7
MOST_CPU = 1.05
MOST_PAIR = 10.0
MOST_MEMORY = 1.032
LONGEST_PAUSE = 0.005
LEAST_THROUGHPUT = 0.9
KEYS, REQUESTS = 200_000, 2_000_000
BESIDE_TRIES = 3
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
MUTATING = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef struct Node { struct Node* other; uint64_t values[11]; } Node;
enum { NODES = 9 << 20 };
static size_t below(size_t bound) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % bound;
}
static Node* make(size_t value) {
  Node* const node = malloc(sizeof *node);
  node->other = NULL;
  node->values[0] = value;
  return node;
}
int main(void) {
  struct timespec begin, end;
  uint64_t sum = 0;
  Node** const all = calloc(NODES, sizeof *all);
  for (size_t i = 0; i < NODES; i++) all[i] = make(i);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (size_t i = 0; i < 60000000; i++) {
    Node** const place = &all[below(NODES)];
    sum += (*place)->values[0];
    if (i % 4 == 0) {
      free(*place);
      *place = make(i);
    } else if (i % 4 == 1) {
      (*place)->values[1 + i % 10] = sum;
    }
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%f\n", 60e6 / (end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) * 1e-9));
  return sum == 1;
}
"""
GAWK = (
    'BEGIN{for(i=0;i<600000;i++){a[i%20000]=i "x" a[(i*7)%20000];'
    'if(length(a[i%20000])>200)a[i%20000]=""}print length(a)}'
)
PADDING = r"""
#include <errno.h>
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void*);
void* malloc(size_t n) { return __libc_malloc(n + 1); }
void* calloc(size_t n, size_t m) { return __libc_calloc(1, n * m + 1); }
void* realloc(void* p, size_t n) { return __libc_realloc(p, n + 1); }
void* memalign(size_t a, size_t n) { return __libc_memalign(a < 16 ? 16 : a, n + 1); }
void* aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) {
  *p = memalign(a, n);
  return *p == NULL ? ENOMEM : 0;
}
void free(void* p) { __libc_free(p); }
"""
HOLDING_MAP = r"""
#include <cstdint>
#include <map>
#include <string>
int main() {
  std::map<std::uint32_t, std::string> live;
  for (std::uint32_t i = 0; i < 400000; ++i)
    live[i * 2654435761u] = std::string(20 + (i & 31), 'x');
  return live.size() == 400000 ? 0 : 1;
}
"""
HOLDING = {
    "gawk": ("gawk", 'BEGIN{for(i=0;i<400000;i++)a[i]=i "x"; print length(a)}'),
    "perl": ("perl", "-e", 'my %h; $h{$_} = "x$_" for 1..400000; print scalar keys %h'),
    "lua": ("lua5.4", "-e", "local t={} for i=1,400000 do t[i]={tostring(i)} end print(#t)"),
    "sqlite3": (
        "sqlite3",
        ":memory:",
        "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where "
        "x<1000000) insert into t select x,hex(x) from c; select sum(length(b)) from t;",
    ),
}
"""All of what these allocate lives to the end, tens of MiB: no more hides what little is fixed."""
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
        found = [*_pair(folder, books), *_programs(folder, books), *_memory(folder, books)]
        found += _beside(folder)
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


def _compile(folder: Path, name: str, source: str, *flags: str) -> Path:
    compiler, suffix = ("c++", "cpp") if "std::" in source else ("cc", "c")
    code, path = folder / f"{name}.{suffix}", folder / name
    code.write_text(source)
    words = [compiler, "-O1", "-w", "-fno-builtin", *flags, "-o", str(path), str(code)]
    subprocess.run(words, check=True)
    return path


def _report(step: str) -> None:
    print(f"marksweep: {step}", file=sys.stderr)


def _geometric_mean(ratios: Mapping[str, float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios.values())))


def _each(ratios: Mapping[str, float], digits: int = 2) -> str:
    return "the geometric mean of " + ", ".join(
        f"{name} {ratio:.{digits}f}" for name, ratio in ratios.items()
    )


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


def _cost(command: Sequence[str | Path], manager: Manager | None, folder: Path) -> float:
    """Outside of the kernel: cycles, or seconds where cycles are not counted."""
    if cycles.are_counted():
        _run([*cycles.prefix(folder / "counts"), *command], manager)
        return cycles.read(folder / "counts").cycles
    before = os.times().children_user
    _run(command, manager)
    return os.times().children_user - before


def _programs(folder: Path, books: Manager) -> list[Row]:
    what = "processor cycles" if cycles.are_counted() else "processor time"
    ratios = {}
    for name, command in commands(folder).items():
        _report(f"books of {name}")
        costs: list[tuple[float, float]] = []
        for _ in range(TRIES):
            costs.append((_cost(command, None, folder), _cost(command, books, folder)))
        bare, kept = (statistics.median(column) for column in zip(*costs, strict=True))
        ratios[name] = kept / bare
    mean = _geometric_mean(ratios)
    return [
        Row(
            f"marksweep's books, {what} of programs",
            f"{mean:.2f}x, {_each(ratios)}",
            f"at most {MOST_CPU}x",
            mean <= MOST_CPU,
        )
    ]


def _memory(folder: Path, books: Manager) -> list[Row]:
    """The layer asks for one byte more an object; without that, what is left are the books."""
    padding = _compile(folder, "libpadding.so", PADDING, "-shared", "-fPIC")
    commands = {**HOLDING, "a C++ map": (str(_compile(folder, "holding", HOLDING_MAP)),)}
    managers = [resolve(name) for name in ("glibc", str(padding), books.name)]
    to_padded, to_bare = {}, {}
    for name, command in commands.items():
        _report(f"memory of {name}")
        bare, padded, kept = (
            statistics.median(_peak_bytes(command, manager, folder) for _ in range(MEMORY_TRIES))
            for manager in managers
        )
        to_padded[name], to_bare[name] = kept / padded, kept / bare
    mean = _geometric_mean(to_padded)
    return [
        Row(
            "marksweep's books, peak memory beside glibc with one byte more an object",
            f"{mean:.3f}x, {_each(to_padded, 3)}",
            f"at most {MOST_MEMORY}x",
            mean <= MOST_MEMORY,
        ),
        Row(
            "the same beside glibc as it is",
            f"{_geometric_mean(to_bare):.3f}x, {_each(to_bare, 3)}",
        ),
    ]


def _peak_bytes(command: Sequence[str], manager: Manager, folder: Path) -> float:
    outcome = run_once(Program(command[0], tuple(command)), manager, Limits(60.0), folder)
    if outcome.status is not Status.OK:
        raise TareError(f"{command[0]} under {manager.name}: {outcome.reason}")
    return outcome.values["peak_resident_bytes"]


def _marking(folder: Path, bdwgc: Manager) -> list[Row]:
    """By one marker beside BDWGC's one, and by two beside one: no more can come of that than of two
    processes with one each, at the same time."""
    program = _compile(folder, "marking", MARKING)
    managers = {
        "bdwgc": bdwgc,
        "one": resolve("marksweep(glibc, every=never)"),
        "two": resolve("marksweep(glibc, every=never, markers=2)"),
    }
    beside_bdwgc, beside_one, possible = {}, {}, {}
    for kind in ("tree", "list", "data"):
        _report(f"marking a {kind}")
        times: dict[str, list[int]] = {name: [] for name in managers}
        for _ in range(TRIES):
            for name, manager in managers.items():
                times[name] += _marked(program, kind, manager)
            with ThreadPoolExecutor() as pool:
                both = pool.map(_marked, [program] * 2, [kind] * 2, [managers["one"]] * 2)
                times.setdefault("both", []).extend(itertools.chain.from_iterable(both))
        medians = {name: statistics.median(each) for name, each in times.items()}
        beside_bdwgc[kind] = medians["bdwgc"] / medians["one"]
        if kind != "list":  # one marker alone can follow that
            beside_one[kind] = medians["one"] / medians["two"]
            possible[kind] = 2 * medians["one"] / medians["both"]
    mean = _geometric_mean(beside_bdwgc)
    return [
        Row(
            "marksweep's marking, as fast as bdwgc's",
            f"{mean:.2f}x, {_each(beside_bdwgc)}",
            "at least 1x",
            mean >= 1,
        ),
        Row(
            "marksweep's marking by two, as fast as by one",
            f"{_geometric_mean(beside_one):.2f}x, {_each(beside_one)}; two processes at a time: "
            f"{_geometric_mean(possible):.2f}x",
            f"at least {LEAST_OF_TWO}x",
            _geometric_mean(beside_one) >= LEAST_OF_TWO,
        ),
    ]


def _marked(program: Path, kind: str, manager: Manager) -> list[int]:
    return [*map(int, _run([program, kind], manager).stdout.split())]


def _beside(folder: Path) -> list[Row]:
    """Marking beside the program: the longest that a thread was stopped, and what is done in a
    second beside mark=stopped."""
    if not marksweep.writes_can_be_watched():
        return [Row("marksweep, mark=concurrent", "needs Linux 6.7 and userfaultfd")]
    heap = _compile(folder, "mutating", MUTATING)
    tasks: dict[str, Callable[[Manager, Path], float]] = {
        "a heap of 1 GiB": lambda manager, counters: float(
            _run([heap], manager, {marksweep.COUNTERS_VARIABLE: str(counters)}).stdout
        )
    }
    if shutil.which("redis-server") and shutil.which("redis-benchmark"):
        tasks["redis"] = _served
    return [row for name, task in tasks.items() for row in _pauses_of(name, task, folder)]


def _pauses_of(name: str, task: Callable[[Manager, Path], float], folder: Path) -> Iterator[Row]:
    managers = {
        "bare": resolve("glibc"),
        "stopped": resolve("marksweep(glibc)"),
        "concurrent": resolve("marksweep(glibc, mark=concurrent)"),
    }
    rates: dict[str, list[float]] = {mark: [] for mark in managers}
    pauses: dict[str, list[float]] = {mark: [] for mark in managers}
    for number in range(BESIDE_TRIES):
        for mark, manager in managers.items():
            _report(f"{name}, {mark}")
            counters = folder / f"{name} {mark} {number}"
            counters.mkdir()
            rates[mark].append(task(manager, counters))
            for file in counters.iterdir():
                process = marksweep.read_process(file)
                assert process is not None
                pauses[mark].append(process.counts.longest_nanoseconds / 1e9)
    rate = {mark: statistics.median(each) for mark, each in rates.items()}
    longest = max(pauses["concurrent"])
    ratio = rate["concurrent"] / rate["stopped"]
    yield Row(
        f"marksweep's longest pause beside {name}",
        f"{longest * 1e3:.1f} ms ({max(pauses['stopped']) * 1e3:.0f} ms with mark=stopped)",
        f"at most {LONGEST_PAUSE * 1e3:.0f} ms",
        longest <= LONGEST_PAUSE,
    )
    yield Row(
        f"the throughput of {name} meanwhile, beside mark=stopped",
        f"{ratio:.2f}x ({rate['concurrent'] / rate['bare']:.2f}x of bare glibc's)",
        f"at least {LEAST_THROUGHPUT}x",
        ratio >= LEAST_THROUGHPUT,
    )


def _served(manager: Manager, counters: Path) -> float:
    """Requests a second, half of them writes, of a redis that holds many keys."""
    preload = " ".join(map(str, manager.preload))
    environment = {**os.environ, **manager.environment, "LD_PRELOAD": preload}
    environment[marksweep.COUNTERS_VARIABLE] = str(counters)
    socket = counters.with_suffix(".socket")
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", socket, "--save", ""],
        env=environment, stdout=subprocess.DEVNULL, cwd=counters.parent,
    )  # fmt: skip
    ask = ["redis-benchmark", "-s", socket, "-r", KEYS, "-d", 100, "-P", 16, "--csv"]

    def asked(what: str, count: int) -> float:
        words = [*map(str, ask), "-t", what, "-n", str(count)]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        rates = [float(row.split(",")[1].strip('"')) for row in said.splitlines()[1:]]
        return statistics.harmonic_mean(rates)

    try:
        while not socket.exists() and server.poll() is None:
            time.sleep(0.01)
        asked("set", 5 * KEYS)
        return asked("set,get", REQUESTS)
    finally:
        server.terminate()
        server.wait()


def _collecting(folder: Path, bdwgc: Manager) -> list[Row]:
    """Both collect as often as bdwgc does by itself."""
    found = []
    for name, command in COLLECTED.items():
        _report(f"pauses of {name}")
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
