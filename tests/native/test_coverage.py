"""What of a program's memory its manager serves: programs that bring allocators along are told."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.memory_managers.manager import OWN, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.coverage import Coverage, Covered
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

MIB = 1 << 20
# As many MiB by malloc and by mmap as are asked for, in this order; and what is given back early.
MIXED = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char data[4 << 20];
static char *map(size_t bytes) {
  char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) exit(9);
  return memset(pages, 1, bytes);
}
int main(int argc, char **argv) {
  size_t heap = (size_t)atol(argv[1]) << 20, own = (size_t)atol(argv[2]) << 20;
  const char *how = argc > 3 ? argv[3] : "";
  char *last = NULL;
  for (size_t at = 0; at < heap; at += 1000) {
    char *next = memset(malloc(1000), 1, 1000);
    *(char **)next = last;
    last = next;
  }
  char *pages = own ? map(own) : NULL;
  if (strcmp(how, "static") == 0) memset(data, 1, sizeof data);
  if (strcmp(how, "unmap") == 0) munmap(pages, own);
  if (strcmp(how, "discard") == 0) madvise(pages, own, MADV_DONTNEED);
  if (strcmp(how, "fixed") == 0)
    mmap(pages, own, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (strcmp(how, "remap") == 0) pages = mremap(pages, own, own / 2, MREMAP_MAYMOVE);
  if (strcmp(how, "reserve") == 0)
    mmap(NULL, (size_t)1 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (strcmp(how, "sbrk") == 0) memset(sbrk(32 << 20), 1, 32 << 20);
  while (last != NULL && strcmp(how, "free") == 0) {
    char *next = *(char **)last;
    free(last);
    last = next;
  }
  if (strcmp(how, "_exit") == 0) _exit(0);
  return 0;
}
"""
# 32 MiB of an allocator that the program is linked with, by its own entries.
PRIVATE = """
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL || argc != 2) return 9;
  void *(*theirs)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
  for (int number = 0; number < 32768; ++number) memset(theirs(1000), 1, 1000);
  _Exit(0);
}
"""
FORKS = """
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  for (int child = 0; child < 3; ++child)
    if (fork() == 0) {
      memset(mmap(NULL, 8 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), argc, 8 << 20);
      if (argc > 1) execvp(argv[1], argv + 1);
      _exit(0);
    }
  while (wait(NULL) > 0) {}
  return 0;
}
"""
# Four threads that map and unmap, while forks are made.
STORM = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void *churn(void *unused) {
  for (int round = 0; round < 3000; ++round) {
    size_t bytes = (size_t)(1 + rand_r((unsigned *)&unused) % 64) << 12;
    char *pages = mmap(NULL, bytes, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 1, bytes);
    munmap(pages + bytes / 2 / 4096 * 4096, bytes - bytes / 2 / 4096 * 4096);
    if (bytes / 2 / 4096) munmap(pages, bytes / 2 / 4096 * 4096);
  }
  return NULL;
}
int main(void) {
  pthread_t threads[4];
  for (int number = 0; number < 4; ++number) pthread_create(&threads[number], NULL, churn, NULL);
  for (int child = 0; child < 50; ++child) {
    pid_t made = fork();
    if (made == 0) _exit(0);
    if (made < 0 || waitpid(made, NULL, 0) != made) return 9;
  }
  for (int number = 0; number < 4; ++number) pthread_join(threads[number], NULL);
  return 0;
}
"""


def run(
    folder: Path, *argv: str | Path, manager: str = "glibc", least: float | None = None
) -> Outcome:
    limits = Limits() if least is None else Limits(least_coverage=least)
    program = Program("test", tuple(map(str, argv)))
    return run_once(program, resolve(manager), limits, folder)


def coverage(outcome: Outcome) -> Coverage:
    found = outcome.details_as(Covered).coverage
    assert found is not None
    return found


@pytest.fixture
def mixed(compile_c: Callable[..., Path]) -> Path:
    return compile_c(MIXED)


@pytest.mark.parametrize("manager", ["glibc", "mimalloc", "jemalloc", "tcmalloc", "snmalloc"])
def test_memory_of_the_manager_and_of_the_program_are_told_apart(
    tmp_path: Path, mixed: Path, manager: str
) -> None:
    outcome = run(tmp_path, mixed, "20", "30", "static", manager=manager)
    assert outcome.status is Status.OK, outcome.reason
    found = coverage(outcome)
    assert [(each.file, each.bytes) for each in found.files] == [(str(mixed), 30 * MIB)]
    served = found.share * found.peak_bytes
    assert 20 * MIB < served < 27 * MIB, "headers and size classes are the manager's"
    assert 4 * MIB <= found.static_bytes < 7 * MIB, "tcmalloc has some of its own"
    assert 0 < found.stack_bytes < MIB


@pytest.mark.parametrize("manager", ["glibc", "mimalloc", "jemalloc", "tcmalloc", "snmalloc"])
def test_a_program_that_maps_all_it_needs_has_no_figure(
    tmp_path: Path, mixed: Path, manager: str
) -> None:
    outcome = run(tmp_path, mixed, "1", "60", manager=manager)
    assert outcome.status is Status.NOT_COVERED
    assert outcome.values == {}
    assert f"{mixed.name} mapped 60.0 MiB for itself" in outcome.reason
    assert "--least-coverage 0" in outcome.reason
    assert run(tmp_path, mixed, "1", "60", manager=manager, least=0).status is Status.OK


def test_a_program_as_it_is_has_its_figure(tmp_path: Path, mixed: Path) -> None:
    outcome = run(tmp_path, mixed, "0", "60", manager=OWN)
    assert outcome.status is Status.OK
    assert coverage(outcome).share < 0.05


@pytest.mark.parametrize("how", ["unmap", "discard", "fixed", "remap"])
def test_what_is_given_back_before_the_end_counts_too(
    tmp_path: Path, mixed: Path, how: str
) -> None:
    outcome = run(tmp_path, mixed, "1", "60", how)
    assert outcome.status is Status.NOT_COVERED, coverage(outcome)
    assert coverage(outcome).files[0].bytes == 60 * MIB


@pytest.mark.parametrize("how", ["free", "_exit", "reserve"])
def test_what_the_manager_served_counts_to_its_peak(tmp_path: Path, mixed: Path, how: str) -> None:
    outcome = run(tmp_path, mixed, "60", "8", how)
    assert outcome.status is Status.OK
    assert coverage(outcome).share == pytest.approx(60 / 68, abs=0.03)


def test_the_end_of_the_data_segment_is_the_programs_where_it_takes_it(
    tmp_path: Path, mixed: Path
) -> None:
    outcome = run(tmp_path, mixed, "0", "0", "sbrk")
    assert outcome.status is Status.NOT_COVERED
    assert coverage(outcome).files[0].bytes == 32 * MIB


@pytest.mark.parametrize(
    ("manager", "name"),
    [
        ("jemalloc", "jemalloc"),
        ("mimalloc", "mimalloc"),
        ("mimalloc2", "mimalloc"),
        ("tcmalloc", "tcmalloc"),
        ("snmalloc", "snmalloc"),
        ("rpmalloc", "rpmalloc"),
        ("scudo", "Scudo"),
        ("dlmalloc", "dlmalloc"),
    ],
)
def test_an_allocator_that_a_program_brings_along_is_named_and_led_to_the_manager(
    tmp_path: Path, compile_c: Callable[..., Path], manager: str, name: str
) -> None:
    library = resolve(manager).server
    assert library is not None
    program = compile_c(PRIVATE, f"-Wl,--no-as-needed,-rpath,{library.parent}", str(library))
    alone = run(tmp_path, program, library, manager=OWN)
    assert coverage(alone).files == (), "it serves malloc, so it is the manager"
    outcome = run(tmp_path, program, library)
    assert outcome.status is Status.OK, outcome
    assert coverage(outcome).share > 0.9
    assert {each.allocator for each in outcome.details_as(Covered).own_allocators} == {name}


def test_processes_are_taken_together(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    program = compile_c(FORKS)
    outcome = run(tmp_path, program)
    assert outcome.status is Status.NOT_COVERED
    assert coverage(outcome).files[0].bytes == 3 * 8 * MIB
    replaced = coverage(run(tmp_path, program, "true", least=0))
    assert replaced.files == (), "an image that was replaced tells nothing"


def test_threads_and_forks_in_a_storm_of_mappings(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    outcome = run(tmp_path, compile_c(STORM, "-pthread"), least=0)
    assert outcome.status is Status.OK, outcome


def test_a_heap_of_python_is_pymallocs(tmp_path: Path) -> None:
    code = "kept = [(number,) for number in range(400_000)]"
    outcome = run(tmp_path, sys.executable, "-c", code)
    found = coverage(outcome)
    assert found.share < 0.5
    assert found.files[0].allocator == "CPython's pymalloc"
    assert "cpython.malloc" in found.files[0].advice
    covered = run(tmp_path, "env", "PYTHONMALLOC=malloc", sys.executable, "-c", code)
    assert coverage(covered).share > 0.9


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_heap_of_node_is_v8s(tmp_path: Path) -> None:
    code = "const kept = []; for (let i = 0; i < 2e5; ++i) kept.push(new Array(100).fill(i + 0.5))"
    outcome = run(tmp_path, "node", "-e", code)
    assert outcome.status is Status.NOT_COVERED or coverage(outcome).share < 0.5
    assert coverage(outcome).files[0].allocator == "V8"


@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
def test_a_heap_of_java_is_hotspots(tmp_path: Path) -> None:
    outcome = run(tmp_path, "java", "-Xms256m", "-XX:+AlwaysPreTouch", "-version")
    assert outcome.status is Status.NOT_COVERED
    assert "HotSpot" in outcome.reason
    assert "jvm.g1" in outcome.reason


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_is_refused_with_the_reason(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        *("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"),
        *("--dump-dom", "data:text/html,hello"),
    )
    assert outcome.status in (Status.NOT_COVERED, Status.NOT_LOADED), outcome
    assert outcome.reason


@pytest.mark.parametrize("argv", [("sort", "/etc/services"), ("perl", "-e", "@a=(1..300000)")])
def test_programs_of_every_day_are_covered(tmp_path: Path, argv: tuple[str, ...]) -> None:
    outcome = run(tmp_path, *argv)
    assert outcome.status is Status.OK, outcome.reason
    assert coverage(outcome).share > 0.9


def test_the_share_that_is_asked_for_is_an_option(
    tmp_path: Path, mixed: Path, tare: Callable[..., object]
) -> None:
    shown = tare("compare", "-n", "1", "-m", "glibc", "--no-page", "--", mixed, "20", "20")
    assert "glibc served 50% of the program's" in shown.stdout  # type: ignore[attr-defined]
    strict = tare(
        *("compare", "-n", "1", "-m", "glibc", "--no-page", "--least-coverage", "0.8"),
        *("--", mixed, "20", "20"),
    )
    assert "not-covered" in strict.stdout  # type: ignore[attr-defined]
    wrong = tare("compare", "--least-coverage", "80", "--", mixed, "20", "20")
    assert wrong.returncode == 2  # type: ignore[attr-defined]
    assert "0<=x<=1" in wrong.stderr  # type: ignore[attr-defined]
