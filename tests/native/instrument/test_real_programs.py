"""Real programs, recorded by the instrument."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.heap_traces.invariants import violations
from tare.heap_traces.trace import Trace, open_trace
from tare.memory_managers.manager import resolve
from tare.observers import asked, tracing
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

OBJECTS = """
#include <stdlib.h>
#include <string.h>
static volatile char sink;
__attribute__((noinline)) static char *make(size_t size) { return malloc(size); }
int main(void) {
  char *used = make(1001);
  memset(used, 1, 1001);
  char *never = make(1002);
  char *kept = make(1003);
  kept[5] = 2;
  sink = used[1000];
  free(never);
  char *grown = malloc(1004);
  grown[0] = 3;
  grown = realloc(grown, 90005);
  char *zero = calloc(3, 402);
  sink = zero[7];
  void *aligned = aligned_alloc(4096, 8192);
  free(used);
  free(grown);
  free(aligned);
  return 0;
}
"""
POINTERS = """
#include <stdlib.h>
static char **holder;
__attribute__((noinline)) static void lose(void) {
  char *volatile lost = malloc(1003);
  lost[0] = 1;
  lost = 0;
}
__attribute__((noinline)) static void overwrite_stack(void) {
  volatile char room[4096];
  for (int each = 0; each < 4096; ++each) room[each] = 0;
}
int main(void) {
  holder = malloc(1001);
  holder[2] = malloc(1002);
  lose();
  overwrite_stack();
  holder[2] = 0;
  for (int each = 0; each < 64; ++each) free(malloc(1024));
  return 0;
}
"""
PROCESSES = """
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *count) {
  for (long each = 0; each < (long)count; ++each) {
    char *volatile object = malloc(24 + each % 8);
    object[0] = 1;
    if (each % 2) free(object);
  }
  return count;
}
int main(int count, char **words) {
  work((void *)1000);
  switch (words[1][0]) {
    case 't': {
      pthread_t threads[3];
      for (int each = 0; each < 3; ++each) pthread_create(&threads[each], 0, work, (void *)2000);
      for (int each = 0; each < 3; ++each) pthread_join(threads[each], 0);
      break;
    }
    case 'f':
      if (fork() == 0) {
        work((void *)500);
        _exit(0);
      }
      wait(0);
      break;
    case 'e': execl(words[0], words[0], "x", (char *)0);
    case 'a': abort();
    case 'l':
      for (;;) {
        work((void *)1000);
        usleep(10000);
      }
  }
  return 0;
}
"""


def record(
    folder: Path,
    *argv: str,
    manager: str = "glibc",
    limits: Limits | None = None,
    **what: Any,
) -> tuple[Outcome, Trace]:
    target = folder / "t.tare"
    outcome = tracing.run_once(
        Program("test", argv),
        resolve(manager),
        limits or Limits(),
        wanted=tracing.Wanted(target, asked.Asked(last_use=True, **what)),
    )
    trace = open_trace(target)
    assert violations(trace) == trace.meta["violations"] == {}
    assert sorted(path.name for path in folder.iterdir() if "tare" in path.name) == ["t.tare"]
    return outcome, trace


def by_size(trace: Trace) -> dict[int, dict[str, Any]]:
    large = trace.objects().filter(pl.col("size") > 1000).collect()
    return {row["size"]: row for row in large.to_dicts()}


def test_what_happens_to_each_object(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    outcome, trace = record(tmp_path, str(compile_c(OBJECTS, "-g", "-O0")))
    assert outcome.status is Status.OK
    assert trace.meta["complete"] is True
    rows = by_size(trace)
    used, never, kept, short, grown, zero, aligned = (
        rows[size] for size in (1001, 1002, 1003, 1004, 90005, 1206, 8192)
    )
    for earlier, later in itertools.pairwise((used, never, kept, short, grown, zero, aligned)):
        assert earlier["birth_instructions"] < later["birth_instructions"]
        assert earlier["birth_bytes"] + later["size"] >= later["birth_bytes"]
    moments = [used[f"{moment}_instructions"] for moment in ("birth", "first_use", "last_use")]
    assert moments == sorted(set(moments))
    assert used["last_use_instructions"] >= kept["first_use_instructions"]  # in the same block
    assert used["free_instructions"] > aligned["birth_instructions"]
    assert used["last_use_bytes"] == kept["birth_bytes"]
    assert never["first_use_instructions"] is never["last_use_instructions"] is None
    assert never["free_instructions"] is not None
    assert kept["free_instructions"] is zero["free_instructions"] is None
    assert kept["first_use_instructions"] == kept["last_use_instructions"]
    assert (grown["resized_from"], grown["operation"]) == (short["id"], "realloc")
    assert short["free_instructions"] == short["last_use_instructions"]
    assert short["free_instructions"] == grown["birth_instructions"]
    assert grown["birth_bytes"] == short["birth_bytes"] + 90005 - 1004
    assert (zero["operation"], used["operation"]) == ("calloc", "malloc")
    assert (aligned["operation"], aligned["alignment"]) == ("aligned", 4096)
    assert all(row["usable_size"] >= row["size"] for row in rows.values())


def test_the_stack_of_an_object(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    _, trace = record(tmp_path, str(compile_c(OBJECTS, "-g", "-O0")))
    rows = by_size(trace)
    stacks = trace.stacks([(0, rows[size]["site"]) for size in (1001, 1002, 1206)])
    names = [[frame["function"] for frame in stack] for stack in stacks]
    assert names[0][:2] == names[1][:2] == ["make", "main"]
    assert names[2][0] == "main"
    assert Path(stacks[0][0]["file"]).name == "program.c"
    assert stacks[1][1]["line"] - stacks[0][1]["line"] == 2
    assert Path(stacks[0][0]["object"]).name == "program"
    assert rows[1001]["site"] != rows[1002]["site"]  # by different calls of the same function


def test_pointers_and_when_nothing_leads_to_an_object(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    program = compile_c(POINTERS, "-O0")
    _, trace = record(tmp_path, str(program), pointers=True, reachability_bytes=1 << 12)
    assert {"pointers", "unreachable"} <= set(trace.meta["observed"])
    rows = by_size(trace)
    holder, held, lost = (rows[size] for size in (1001, 1002, 1003))
    stores = trace.pointers().collect()
    of_holder = stores.filter(pl.col("source") == holder["id"])
    assert of_holder.select("offset", "target").rows() == [(16, held["id"]), (16, None)]
    assert lost["unreachable_instructions"] > lost["last_use_instructions"]
    assert lost["free_instructions"] is None
    assert holder["unreachable_instructions"] is None
    marks = trace.events().filter(pl.col("kind") == "mark").collect()
    assert lost["unreachable_bytes"] in marks["bytes"].to_list()
    assert (marks["reachable_bytes"] <= marks["live_bytes"]).all()
    assert marks["bytes"][-1] > 15 << 12


def test_usable_sizes_under_another_manager(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    _, trace = record(tmp_path, str(compile_c(OBJECTS)), manager="mimalloc", sites=False)
    assert all(row["usable_size"] >= row["size"] for row in by_size(trace).values())
    assert trace.objects().collect()["site"].null_count() == trace.meta["objects"]


def test_a_trace_and_a_count_agree(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("".join(f"word {n * 7919 % 1000}\n" for n in range(3000)))
    outcome, trace = record(tmp_path, "gawk", "{ seen[$2] = seen[$2] $1 }", str(words))
    objects = trace.objects().collect()
    assert objects["resized_from"].null_count() == outcome.values["objects"]
    assert objects["birth_bytes"][-1] == outcome.values["allocated_bytes"]
    assert trace.processes[0]["allocated_bytes"] == outcome.values["allocated_bytes"]
    moments = pl.concat(
        [
            objects.select(at="birth_instructions", change=pl.col("size").cast(pl.Int64)),
            objects.select(at="free_instructions", change=-pl.col("size").cast(pl.Int64)),
        ]
    )
    # At one instant, a realloc's, the old object goes before the new one comes.
    live = moments.drop_nulls("at").sort("at", "change")["change"].cum_sum()
    assert live.max() == outcome.values["max_live_bytes"]


@pytest.mark.parametrize(
    ("word", "objects", "ends"),
    [
        ("t", [7000], ["exit"]),
        ("f", [1000, 500], ["exit"] * 2),
        ("e", [1000] * 2, ["exec", "exit"]),
    ],
)
def test_threads_forks_and_execs(
    tmp_path: Path, compile_c: Callable[..., Path], word: str, objects: list[int], ends: list[str]
) -> None:
    program = compile_c(PROCESSES, "-pthread")
    outcome, trace = record(tmp_path, str(program), word)
    assert [process["end"] for process in trace.processes] == ends
    mine = trace.objects().filter(pl.col("size").is_between(24, 31)).collect()
    counts = mine.group_by("process").len().sort("process")["len"]
    # The start of a program allocates a little, too; in main's own loop it does not.
    assert all(abs(found - made) <= 20 for found, made in zip(counts, objects, strict=True))
    if word != "e":
        assert outcome.status is Status.OK
        assert trace.meta["complete"] is True
    if word == "t":
        assert mine["thread"].n_unique() == 4


@pytest.mark.parametrize("word", ["a", "l"])
def test_what_a_program_did_before_it_was_ended(
    tmp_path: Path, compile_c: Callable[..., Path], word: str
) -> None:
    program = compile_c(PROCESSES, "-pthread")
    limits = Limits(timeout_seconds=10 if word == "l" else None)
    outcome, trace = record(tmp_path, str(program), word, limits=limits)
    assert outcome.status is (Status.TIMEOUT if word == "l" else Status.FAILED)
    assert trace.meta["complete"] is False
    if word == "a":
        assert outcome.signal == signal.SIGABRT
        assert trace.objects().collect().height >= 1000
