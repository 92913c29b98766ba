"""What the collector over any allocator costs: its books alone, and its marking beside BDWGC's."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench import cycles, redis
from bench.programs import Times, commands, in_turns, round_means
from bench.row import Row, ratio_row, seconds_row
from tare.base.errors import MissingError, TareError
from tare.base.units import format_seconds
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import Manager, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits

MEMORY_TRIES = 2
MOST_OF_BDWGC = 0.8
MOST_OF_ONE = 1 / 1.7
MOST_CPU = 1.05
MOST_PAIR = 10e-9
MOST_MEMORY = 1.032
LONGEST_PAUSE = 0.005
MOST_TIME_CONCURRENT = 1 / 0.9
KEYS, REQUESTS = 200_000, 2_000_000
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


def _each(ratios: Mapping[str, Sequence[float]]) -> str:
    medians = (f"{name} {statistics.median(each):.2f}" for name, each in ratios.items())
    return f"the geometric mean of {', '.join(medians)}"


def _pair(folder: Path, books: Manager) -> list[Row]:
    program = _compile(folder, "pair", PAIR)

    def seconds(manager: Manager | None) -> float:
        return float(_run([program], manager).stdout) / 1e9

    took = in_turns({"bare": partial(seconds, None), "kept": partial(seconds, books)})
    bare = format_seconds(statistics.median(took.of["bare"]))
    return [
        seconds_row(
            "marksweep's books, a malloc and its free in a loop",
            took.more("kept", "bare"),
            MOST_PAIR,
            f"glibc {bare}",
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
        measures = {
            way: partial(_cost, command, manager, folder)
            for way, manager in (("bare", None), ("kept", books))
        }
        ratios[name] = in_turns(measures).quotients("kept", "bare")
    what = f"marksweep's books, {what} of programs"
    return [ratio_row(what, round_means(ratios), MOST_CPU, _each(ratios))]


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
        to_padded[name], to_bare[name] = [kept / padded], [kept / bare]
    mean = round_means(to_padded).median
    return [
        Row(
            "marksweep's books, peak memory beside glibc with one byte more an object",
            f"{mean:.3f}x, {_each(to_padded)}",
            f"at most {MOST_MEMORY}x",
            mean <= MOST_MEMORY,
            low=mean,
        ),
        Row(
            "the same beside glibc as it is",
            f"{round_means(to_bare).median:.3f}x, {_each(to_bare)}",
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
        took = in_turns(
            {
                **{name: partial(_marked, program, kind, each) for name, each in managers.items()},
                "both": partial(_marked_at_a_time, program, kind, managers["one"]),
            }
        )
        beside_bdwgc[kind] = took.quotients("one", "bdwgc")
        if kind != "list":  # one marker alone can follow that
            beside_one[kind] = took.quotients("two", "one")
            possible[kind] = took.quotients("both", "one")
    least = round_means(possible).median / 2
    return [
        ratio_row(
            "marksweep's marking, beside bdwgc's",
            round_means(beside_bdwgc),
            1.0,
            _each(beside_bdwgc),
        ),
        ratio_row(
            "marksweep's marking by two, beside one",
            round_means(beside_one),
            MOST_OF_ONE,
            f"{_each(beside_one)}; half of what two processes take at a time: {least:.2f}x",
        ),
    ]


def _marked(program: Path, kind: str, manager: Manager) -> float:
    return statistics.median(map(int, _run([program, kind], manager).stdout.split())) / 1e9


def _marked_at_a_time(program: Path, kind: str, manager: Manager) -> float:
    with ThreadPoolExecutor() as pool:
        return statistics.median(pool.map(_marked, [program] * 2, [kind] * 2, [manager] * 2))


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
    if redis.is_installed():
        tasks["redis"] = _served
    return [row for name, task in tasks.items() for row in _pauses_of(name, task, folder)]


def _pauses_of(name: str, task: Callable[[Manager, Path], float], folder: Path) -> Iterator[Row]:
    pauses: dict[str, list[float]] = {}

    def seconds(way: str, manager: Manager) -> float:
        """Of what is done in one."""
        _report(f"{name}, {way}")
        with tempfile.TemporaryDirectory(dir=folder) as counters:
            rate = task(manager, Path(counters))
            for file in Path(counters).iterdir():
                process = marksweep.read_process(file)
                assert process is not None
                pauses.setdefault(way, []).append(process.counts.longest_nanoseconds / 1e9)
        return 1 / rate

    took = in_turns(
        {
            way: partial(seconds, way, resolve(manager))
            for way, manager in (
                ("bare", "glibc"),
                ("stopped", "marksweep(glibc)"),
                ("concurrent", "marksweep(glibc, mark=concurrent)"),
            )
        }
    )
    longest = Times(pauses).each("concurrent", 1)
    stopped = format_seconds(statistics.median(pauses["stopped"]))
    yield seconds_row(
        f"marksweep's longest pause beside {name}",
        longest,
        LONGEST_PAUSE,
        f"with mark=stopped {stopped}",
    )
    yield ratio_row(
        f"the time of {name} meanwhile, beside mark=stopped",
        took.ratio("concurrent", "stopped"),
        MOST_TIME_CONCURRENT,
        f"{took.ratio('concurrent', 'bare').median:.2f}x of bare glibc's",
    )


def _served(manager: Manager, counters: Path) -> float:
    """Requests a second, half of them writes, of a redis that holds many keys."""
    variables = {
        **manager.environment,
        "LD_PRELOAD": " ".join(map(str, manager.preload)),
        marksweep.COUNTERS_VARIABLE: str(counters),
    }
    with tempfile.TemporaryDirectory() as folder, redis.served(Path(folder), variables) as served:
        _, socket = served
        ask = ["redis-benchmark", "-s", socket, "-r", KEYS, "-d", 100, "-P", 16, "--csv"]

        def asked(what: str, count: int) -> float:
            words = [*map(str, ask), "-t", what, "-n", str(count)]
            said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            rates = [float(row.split(",")[1].strip('"')) for row in said.splitlines()[1:]]
            return statistics.harmonic_mean(rates)

        asked("set", 5 * KEYS)
        return asked("set,get", REQUESTS)


def _collecting(folder: Path, bdwgc: Manager) -> list[Row]:
    """The pauses for each MiB that is marked in them: both collect about as often, but bdwgc mostly
    early, while its heap is small."""
    found = []
    for name, command in COLLECTED.items():
        _report(f"pauses of {name}")
        told = _told_by(bdwgc, command)
        allocated = sum(map(int, re.findall(r"after (\d+) allocated bytes", told)))
        every = allocated // len(_seconds(told))
        ours = resolve(f"marksweep(glibc, every={every}B)")
        took = in_turns(
            {
                "bdwgc": partial(_paused_by, bdwgc, command),
                "ours": partial(_paused, ours, command, folder),
            }
        )
        each = ", ".join(
            f"{way} {format_seconds(statistics.median(values))}" for way, values in took.of.items()
        )
        found.append(
            ratio_row(
                f"marksweep's pauses in {name} for each MiB marked, beside bdwgc's",
                took.ratio("ours", "bdwgc"),
                MOST_OF_BDWGC,
                each,
            )
        )
    return found


def _told_by(bdwgc: Manager, command: Sequence[str]) -> str:
    return _run(command, bdwgc, {"GC_PRINT_STATS": "1"}).stderr


def _seconds(told: str) -> list[float]:
    """Of each collection."""
    took = re.findall(r"Complete collection took (\d+) ms (\d+) ns", told)
    return [int(ms) * 1e-3 + int(ns) * 1e-9 for ms, ns in took]


def _paused_by(bdwgc: Manager, command: Sequence[str]) -> float:
    told = _told_by(bdwgc, command)
    used = re.findall(r"^GC #.*\nIn-use heap: \d+% \((\d+) KiB", told, re.MULTILINE)
    marked = sum(map(int, used)) / 1024
    return sum(_seconds(told)) / marked


def _paused(manager: Manager, command: Sequence[str], folder: Path) -> float:
    """Seconds of all pauses, for each MiB that is marked in them."""
    with tempfile.TemporaryDirectory(dir=folder) as counters:
        _run(command, manager, {marksweep.COUNTERS_VARIABLE: counters})
        (file,) = Path(counters).iterdir()
        process = marksweep.read_process(file)
        assert process is not None
        return process.counts.pause_nanoseconds / 1e9 / (process.counts.marked_bytes / 2**20)
