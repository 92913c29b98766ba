"""The process in which the memory-system simulator runs beside the program: what is simulated is
the same without it, the program does not see it, and it is gone when the program is."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.memory_managers.manager import resolve
from tare.observers import memory_system
from tare.observers.memory_model import load_model
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tests.native.instrument.simulated import launcher, lines_of, tool
from tests.support.processes import processes_with

Compile = Callable[..., Path]
PATIENCE = 60
MODELS = lines_of([load_model("two-level"), load_model("three-level-tlb")])

WORK = """
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *keep(void *p) { __asm__ volatile("" : "+r"(p) : : "memory"); return p; }
static void work(void) {
  void *p[100];
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 100; ++i) p[i] = memset(malloc(48), 1, 48);
    for (int i = 0; i < 100; ++i) free(keep(p[i]));
  } }
"""
SAME = WORK + "int main(void) { for (int i = 0; i < 5; ++i) work(); return 0; }"
STORM = (
    WORK
    + """
int main(void) {
  for (int i = 0; i < 8; ++i) {
    work();
    if (fork() == 0) { work(); if (i % 2) fork(); work(); while (wait(NULL) > 0) {} _exit(0); }
    execl("/nowhere", "nowhere", NULL);
  }
  while (wait(NULL) > 0) {}
  return 0; }
"""
)
LOOKS = (
    WORK
    + """
int main(void) {
  work();
  int threads = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *each; (each = readdir(folder)) != NULL;) threads += each->d_name[0] != '.';
  closedir(folder);
  const int child = wait(NULL);
  printf("%d %d %s\\n", threads, child, errno == ECHILD ? "no child" : "?");
  fflush(stdout);
  char word[8];
  if (read(0, word, sizeof word) > 1) execlp("sleep", "sleep", "1000", NULL);
  return 0; }
"""
)


def test_one_processor_gives_the_same(tmp_path: Path, compile_c: Compile) -> None:
    processors = os.sched_getaffinity(0)
    if len(processors) == 1:
        pytest.skip("there is one processor: nothing runs beside a program")
    program = [str(compile_c(SAME, "-fno-builtin"))]
    (beside,) = tool(tmp_path, program, MODELS)
    os.sched_setaffinity(0, {min(processors)})
    try:
        (alone,) = tool(tmp_path, program, MODELS)
    finally:
        os.sched_setaffinity(0, processors)
    assert beside["contexts"] == alone["contexts"]
    assert sum(context["calls"] for context in alone["contexts"]) == 300_000


def test_forks_and_execs_that_fail(tmp_path: Path, compile_c: Compile) -> None:
    """Each process has its own; none is lost, and no access."""
    found = tool(tmp_path, [str(compile_c(STORM, "-fno-builtin"))], MODELS)
    assert len(found) == 1 + 8 + 4
    for process in found:
        count = process["count"]
        whole = count["instructions"] + count["proof_instructions"]
        assert sum(context["instructions"] for context in process["contexts"]) == whole


def test_it_is_no_process_of_the_program(tmp_path: Path, compile_c: Compile) -> None:
    """Else it would be one that does not show its malloc, and its memory would count twice."""
    longer = compile_c(SAME.replace("i < 5", "i < 50"), "-fno-builtin")
    program = Program("longer", (str(longer),))
    simulated = memory_system.how(["two-level"], False)
    outcome = memory_system.run_once(program, resolve("glibc"), Limits(), tmp_path, what=simulated)
    assert outcome.status is Status.OK, outcome.reason
    assert outcome.silent_processes == 0


def await_processes(word: str, count: int) -> None:
    end = time.monotonic() + PATIENCE
    while len(found := processes_with(word)) != count:
        assert time.monotonic() < end, (found, count)
        time.sleep(0.05)  # it is no child of this process: nothing tells of its end


@pytest.mark.parametrize("end", ["exit", "exec", "kill"])
def test_the_program_does_not_see_it(end: str, tmp_path: Path, compile_c: Compile) -> None:
    """It shares the command line of the program's process, by which it is found here."""
    program = compile_c(LOOKS, "-fno-builtin")
    (tmp_path / "models").write_text(MODELS)
    option = f"--memsys-folder={tmp_path}"
    is_beside = len(os.sched_getaffinity(0)) > 1
    with subprocess.Popen(
        [launcher(tmp_path), "--tool=tareinst", "--command-line-only=yes", "--quiet", "--vgdb=no",
         f"--memsys={tmp_path / 'models'}", option, program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stdin is not None
        assert run.stdout is not None
        try:
            assert run.stdout.readline() == "1 -1 no child\n"
            await_processes(option, 2 if is_beside else 1)
            if end == "kill":
                run.kill()
            else:
                run.stdin.write("exec\n" if end == "exec" else "\n")
                run.stdin.flush()
            await_processes(option, 0)
        finally:
            run.kill()
    assert len(list(tmp_path.glob("*.json"))) == (0 if end == "kill" else 1)
