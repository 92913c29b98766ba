"""The memory-system simulator in the instrument: against cachegrind on real programs, and the
command around it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.base.native import native_file
from tare.heap_traces.recording import TableReader
from tare.observers import memory_system
from tare.observers.memory_model import load_model
from tare.records.metrics import METRICS, Obtained
from tare.studies.memsys import report as study
from tests.native.instrument.simulated import (
    CODE,
    DATA,
    a_model,
    counts_of,
    lines_of,
    misses_of,
    tool,
)
from tests.support.valgrind import loads_elsewhere, real_program

Completed = subprocess.CompletedProcess[str]
Compile = Callable[..., Path]


BUSY = """
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static void *keep(void *p) { __asm__ volatile("" : "+r"(p) : : "memory"); return p; }
static void *work(void *unused) {
  void *p[100];
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 100; ++i) p[i] = memset(malloc(48), 1, 48);
    for (int i = 0; i < 100; ++i) free(p[i]);
  }
  return unused; }
static void handler(int number) { (void)number; free(keep(malloc(99))); }
int main(int argc, char **argv) {
  (void)argv;
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  if (argc > 1) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 50; ++i) { raise(SIGUSR1); work(NULL); }
  }
  if (fork() == 0) { for (int i = 0; i < 1000; ++i) free(keep(calloc(3, 40))); _exit(0); }
  wait(NULL);
  for (int i = 0; i < 1000; ++i) keep(realloc(NULL, 100));
  if (argc > 2) execlp("true", "true", NULL);
  return 0; }
"""


@pytest.mark.parametrize("arguments", [[], ["signals"], ["signals", "exec"]])
def test_every_instruction_is_charged_to_whom_it_is_counted_for(
    arguments: list[str], tmp_path: Path, compile_c: Compile
) -> None:
    """Threads, handlers, forks and execs: the stream of accesses has them all, in the right
    place."""
    program = compile_c(BUSY, "-fno-builtin", "-pthread")
    found = tool(tmp_path, [str(program), *arguments], lines_of([load_model("two-level")]))
    assert len(found) == (3 if "exec" in arguments else 2)
    for process in found:
        charged: dict[str, list[int]] = {}
        for context in process["contexts"]:
            sums = charged.setdefault(context["operation"], [0, 0])
            sums[0] += context["calls"]
            sums[1] += context["instructions"]
        count = process["count"]
        for name, operation in count["operations"].items():
            assert charged[name] == [operation["calls"], operation["instructions"]]
        whole = count["instructions"] + count["proof_instructions"]
        assert sum(instructions for _, instructions in charged.values()) == whole


def test_callers_have_names(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(
        """#include <stdlib.h>
        void *first_one(void) { return malloc(10); }
        void *second_one(void) { return malloc(20); }
        int main(void) { for (int i = 0; i < 30; ++i) { free(first_one()); second_one(); } }""",
        "-O0", "-fno-builtin",
    )  # fmt: skip
    (process,) = tool(tmp_path, [str(program)], lines_of([load_model("two-level")]))
    calls = {
        (c["operation"], c["caller"]["function"]): c["calls"]
        for c in process["contexts"]
        if "caller" in c
    }
    assert calls["malloc", "first_one"] == calls["malloc", "second_one"] == 30
    assert calls["free", "main"] == 30


def test_phases_are_those_of_the_events(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(
        """#include <stdlib.h>
        static volatile char heap[1 << 20];
        __attribute__((noinline)) void collect(void) {
          for (int i = 0; i < 1 << 20; i += 64) heap[i] = 1;
        }
        int main(void) {
          for (int round = 0; round < 5; ++round) {
            for (int i = 0; i < 100000; ++i) heap[i % 4096] = 2;
            collect();
          }
          for (int i = 0; i < 100000; ++i) heap[i % 4096] = 2;
          return 0; }""",
        "-fno-builtin", "-fno-inline",
    )  # fmt: skip
    (tmp_path / "events").write_text("during collecting collect\n")
    (process,) = tool(
        tmp_path, [str(program)], lines_of([load_model("two-level")]),
        f"--events={tmp_path / 'events'}",
    )  # fmt: skip
    phases: dict[str, int] = {}
    for context in process["contexts"]:
        phases[context["phase"]] = phases.get(context["phase"], 0) + context["instructions"]
    assert phases.keys() == {"", "collecting"}
    assert phases["collecting"] == process["count"]["phases"]["collecting"]["instructions"]
    assert process["collections"] == 5
    details = memory_system.model_details(
        load_model("two-level"), 0, process["contexts"], [process]
    )
    before, after = details["before"], details["after"]
    assert before["misses"]["write"][0] * 5 < after["misses"]["write"][0], "64 lines are gone"
    assert before["instructions"] > 0


def executed_by(process: dict[str, Any]) -> int:
    return sum(context["instructions"] for context in process["contexts"])


def test_charging_instructions_changes_no_count(tmp_path: Path, compile_c: Compile) -> None:
    """What each instruction was charged with, and what each operation was, is what a simulation
    without that finds in all."""
    program = compile_c(
        """#include <signal.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static char *kept[3000];
        void work(void) {
          for (int i = 0; i < 3000; ++i) kept[i * 7 % 3000] = memset(malloc(40 + i % 50), i, 40);
          for (int i = 0; i < 3000; ++i) free(kept[i]);
        }
        static void handler(int number) { (void)number; work(); }
        int main(void) {
          signal(SIGUSR1, handler);
          for (int i = 0; i < 5; ++i) { raise(SIGUSR1); work(); }
          if (fork() == 0) { work(); _exit(0); }
          wait(NULL); }""",
        "-fno-builtin",
    )
    models = [load_model("decstation-5000-200"), load_model("two-level")]
    plain = tool(tmp_path, [str(program)], lines_of(models))
    (tmp_path / "code").mkdir()
    (tmp_path / "events").write_text("during worker work\n")
    charged = tool(
        tmp_path, [str(program)], lines_of(models, "by-instruction", "collecting -"),
        f"--code-folder={tmp_path / 'code'}", f"--events={tmp_path / 'events'}",
    )  # fmt: skip
    assert len(charged) == len(plain) == 2
    # A child may have a lower number than its parent.
    for one, other in zip(
        *(sorted(each, key=executed_by) for each in (charged, plain)), strict=True
    ):
        for number in range(len(models)):
            assert counts_of(one, number) == counts_of(other, number)
        assert [] in [context["phase"] for context in one["contexts"]]
        assert ["worker"] in [context["phase"] for context in one["contexts"]]
        by_context = Counter[tuple[int, int, int]]()
        path = tmp_path / "memsys" / f"{one['pid']}.0.stalls"
        columns = ("context", "model", "address", "length", "event", "count")
        for batch in TableReader(path, "stalls", columns):
            for row in zip(*(batch[name].tolist() for name in columns), strict=True):
                by_context[row[0], row[1], row[4]] += row[5]
        expected = Counter[tuple[int, int, int]]()
        for place, context in enumerate(one["contexts"]):
            for number, counts in enumerate(context["models"]):
                for event, count in enumerate(counts):
                    if context["operation"] == "program" and count > 0:
                        expected[place, number, event] = count
        assert by_context == expected
        executed = json.loads((tmp_path / "code" / f"{one['pid']}.0.json").read_text())
        phases = {tuple(each["phases"]) for each in executed["contexts"]}
        assert {tuple(each["phase"]) for each in one["contexts"]} <= phases


CACHEGRIND = Path("/usr/libexec/valgrind/cachegrind-amd64-linux")
REAL = {
    "bc": ["bc", "-q", "{folder}/sum.bc"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 700} .= $_ for 1..20000; print scalar keys %h"],
    "sqlite3": ["sqlite3", ":memory:", "create table t(a,b); with recursive c(x) as (select 1 union"
                " all select x+1 from c where x<900) insert into t select x,hex(x) from c;"
                " select sum(length(b)) from t;"],
    "sort": ["sort", "-S", "4M", "{folder}/lines"],  # without -S it looks at how much is free
}  # fmt: skip


@pytest.fixture(scope="module")
def both_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our tool and cachegrind in one folder, so that what is preloaded has one path."""
    if not CACHEGRIND.exists():
        pytest.skip("Debian's package valgrind is missing")
    folder = tmp_path_factory.mktemp("valgrind")
    for name in ("tare-valgrind", "tareinst-amd64-linux", "vgpreload_core-amd64-linux.so"):
        shutil.copy(native_file(f"valgrind/{name}"), folder)
    shutil.copy(CACHEGRIND, folder)
    shutil.copy(CACHEGRIND.parent / "default.supp", folder)
    (folder / "sum.bc").write_text("for (i = 0; i < 60; i++) a[i] = i ^ 20\na[59]\nquit\n")
    (folder / "lines").write_text("".join(f"{i * 7919 % 3000}\n" for i in range(3000)))
    return folder


GEOMETRIES = [
    (("32768,8,64", "49152,12,64", "1048576,16,64"), ("32KiB", 8, "48KiB", 12, "1MiB", 16, "64B")),
    (("8192,2,32", "4096,1,32", "65536,4,32"), ("8KiB", 2, "4KiB", 1, "64KiB", 4, "32B")),
]


@pytest.mark.parametrize("name", REAL)
def test_the_counts_are_cachegrind_s(name: str, both_tools: Path) -> None:
    """To the miss. Both must see the same: one environment, no code translated across branches
    (cachegrind counts some of it that is not executed), an access to two lines as one, and the
    heap's bound that Valgrind has. cachegrind counts fewer writes: what reads and writes one place
    is a read to it."""
    words = [word.replace("{folder}", str(both_tools)) for word in REAL[name]]
    found = real_program(words[0])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    words[0] = found
    for theirs, (i1, i1_ways, d1, d1_ways, l2, l2_ways, line) in GEOMETRIES:
        model = a_model(
            {**CODE, "size": i1, "ways": i1_ways, "line": line},
            {**DATA, "size": d1, "ways": d1_ways, "line": line},
            {"level": 2, "size": l2, "ways": l2_ways, "line": line}, straddling="access",
        )  # fmt: skip
        environment = {
            "PERL_HASH_SEED": "0", "TARE_PROGRAM_BREAK": "valgrind",
            "VALGRIND_LIB": str(both_tools), "VALGRIND_LAUNCHER": str(both_tools / "tare-valgrind"),
        }  # fmt: skip
        (ours,) = tool(both_tools, words, lines_of([model]), **environment)
        events = cachegrind(both_tools, words, theirs, environment)
        missed = misses_of(ours)
        assert events["Ir"] == sum(c["instructions"] for c in ours["contexts"])
        assert events["Dr"] == sum(c["reads"] for c in ours["contexts"])
        for kind, letters in (
            ("fetch", "I1mr ILmr"),
            ("read", "D1mr DLmr"),
            ("write", "D1mw DLmw"),
        ):
            expected = [events[letter] for letter in letters.split()]
            near = 0.1 if loads_elsewhere() else 0
            assert missed[kind][0] == pytest.approx(expected[0], rel=near / 100, abs=0), kind
            assert missed[kind][1] == pytest.approx(expected[1], rel=near, abs=0), kind


def cachegrind(
    folder: Path, words: Sequence[str], geometry: Sequence[str], environment: dict[str, str]
) -> dict[str, int]:
    caches = [f"--{name}={size}" for name, size in zip(("I1", "D1", "LL"), geometry, strict=True)]
    subprocess.run(
        [folder / CACHEGRIND.name, "--tool=cachegrind", "--command-line-only=yes", "--quiet",
         "--cache-sim=yes",
         "--vgdb=no", "--vex-guest-chase=no", *caches,
         f"--cachegrind-out-file={folder / 'cachegrind'}", *words],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    lines = (folder / "cachegrind").read_text().splitlines()
    names = next(line for line in lines if line.startswith("events:")).split()[1:]
    values = next(line for line in lines if line.startswith("summary:")).split()[1:]
    return dict(zip(names, map(int, values), strict=True))


# ---- the command ----


def test_the_command(tare: Callable[..., Completed], tmp_path: Path) -> None:
    models = ["--model", "two-level", "--model", "decstation-5000-200", "--curves"]
    arguments = ["-m", "glibc", "-m", "mimalloc", *models, "-o", "results", "--json", "out.json"]
    program = ["perl", "-e", "my %h; $h{$_ % 99} .= $_ for 1..3000; print scalar keys %h"]
    done = tare("memsys", *arguments, "--", *program)
    assert done.returncode == 0, done.stderr
    assert "The memory system, simulated" in done.stdout
    assert "write buffer" in done.stdout
    results = api.load(tmp_path / "results")
    of = {
        row["metric"]: row for row in results.measurements.to_dicts() if row["manager"] == "glibc"
    }
    assert of["instructions"]["obtained"] == Obtained.EXECUTED
    for metric in ("simulated_cycles", "stall_cycles", "read_misses", "manager_memory_misses"):
        assert of[metric]["obtained"] == Obtained.SIMULATED == METRICS[metric].obtained
        assert of[metric]["value"] > 0
    cycles, stalls = of["simulated_cycles"]["value"], of["stall_cycles"]["value"]
    assert cycles - stalls == pytest.approx(of["instructions"]["value"], rel=1e-4)
    assert 0 < of["manager_stall_cycles"]["value"] < stalls
    section = study.section(results)
    assert section.obtained == Obtained.SIMULATED
    assert {figure.identifier for figure in section.figures} >= {
        "figure-stalls-1-1", "figure-stalls-1-2", "figure-curve-data", "figure-ways-instructions",
    }  # fmt: skip
    page = (tmp_path / "results" / "report.html").read_text()
    assert "Misses of a fully associative cache" in page
    exported = json.loads((tmp_path / "out.json").read_text())
    assert exported["study"] == "memsys"
    assert {row["manager"] for row in exported["summary"]} == {"glibc", "mimalloc"}


def test_wrong_requests(tare: Callable[..., Completed]) -> None:
    wrong = tare("memsys", "--model", "vax", "--", "true")
    assert wrong.returncode == 2
    assert "two-level" in wrong.stderr
    failed = tare("memsys", "-m", "glibc", "--model", "two-level", "--", "false")
    assert failed.returncode == 1
