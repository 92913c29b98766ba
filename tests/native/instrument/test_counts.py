"""Counts of the instrument, exact where they are known."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.base.native import native_file
from tare.memory_managers.manager import default_managers, resolve
from tare.observers import instrument
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.count.details import Details
from tests.native.instrument.programs import OPTIONS, OWN_MALLOC, PRELUDE

Completed = subprocess.CompletedProcess[str]
Compile = Callable[..., Path]


def counted(tmp_path: Path, *argv: str | Path, manager: str = "glibc", **fields: Any) -> Outcome:
    one = Program("test", tuple(map(str, argv)), **fields)
    return instrument.run_once(one, resolve(manager), Limits(), tmp_path)


def tool(tmp_path: Path, *argv: str | Path, **environment: str) -> tuple[Completed, list[Any]]:
    """The bare tool, without Tare around it: what it left for each process."""
    folder = tmp_path / "counts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    done = subprocess.run(
        [native_file(instrument.LAUNCHER), "--tool=tareinst", "--command-line-only=yes", "--quiet",
         "--vgdb=no", "--trace-children=yes", f"--count-folder={folder}", *argv],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environment},
    )  # fmt: skip
    return done, instrument.read_counts(folder)


def only(counts: list[Any]) -> Any:
    assert len(counts) == 1
    return counts[0]


# ---- objects and bytes whose number is known ----


def test_objects_bytes_and_peaks(tmp_path: Path, program: Compile) -> None:
    path = program("""
      void *kept[1000];
      for (int i = 0; i < 1000; ++i) kept[i] = malloc(100);
      for (int i = 0; i < 1000; ++i) free(kept[i]);
      for (int i = 0; i < 500; ++i) free(keep(calloc(10, 30)));
      void *aligned;
      if (posix_memalign(&aligned, 64, 4000) != 0) return 1;
      free(aligned);
      free(aligned_alloc(64, 640));
      free(NULL);
      free(keep(malloc(0)));
      if (malloc((size_t)1 << 62) != NULL) return 1;""")
    outcome = counted(tmp_path, path)
    assert outcome.status is Status.OK, outcome.reason
    values, operations = outcome.values, outcome.details["operations"]
    assert values["objects"] == 1000 + 500 + 2 + 1
    assert values["allocated_bytes"] == 100_000 + 150_000 + 4000 + 640
    assert values["max_live_objects"] == 1000
    assert values["max_live_bytes"] == 100_000
    assert values["malloc_calls"] == 1000 + 500 + 2 + 1 + 1
    assert values["free_calls"] == 1000 + 500 + 2 + 1 + 1
    assert operations["malloc"]["no_object"] == 1
    assert operations["free"]["no_object"] == 1
    assert operations["calloc"]["calls"] == 500
    assert operations["aligned"]["calls"] == 2
    assert outcome.details["uncounted_processes"] == 0
    for operation in operations.values():
        assert sum(calls for _, calls in operation["histogram"]) == operation["calls"]
        assert operation["fewest"] <= operation["instructions"] / operation["calls"]
        assert operation["instructions"] / operation["calls"] <= operation["most"]


def test_a_resized_object_stays_one(tmp_path: Path, program: Compile) -> None:
    path = program("""
      char *p = NULL;
      for (size_t size = 1000; size <= 100000; size += 1000) p = realloc(p, size);
      p = realloc(p, 10);
      char *q = reallocarray(NULL, 7, 11);
      if (realloc(p, (size_t)1 << 62) != NULL) return 1;
      free(p); free(q);
      if (realloc(keep(malloc(5)), 0) != NULL) return 1;""")
    _, counts = tool(tmp_path, path)
    count = only(counts)
    assert count["objects"] == 3
    assert count["resized_objects"] == 100
    assert count["allocated_bytes"] == 100_000 + 77 + 5
    assert count["max_live_bytes"] == 100_000
    assert count["max_live_objects"] == 2
    assert count["live_objects"] == 0
    assert count["operations"]["realloc"]["calls"] == 104
    assert count["operations"]["realloc"]["no_object"] == 1


def test_new_and_delete_are_charged_once(tmp_path: Path) -> None:
    source = tmp_path / "new.cpp"
    source.write_text("""
      #include <cstdlib>
      #include <new>
      struct alignas(128) Wide { char c[128]; };
      template <class T> static T* keep(T* p) { asm volatile("" : "+r"(p) : : "memory"); return p; }
      int main() {
        for (int i = 0; i < 300; ++i) { delete keep(new long(i)); delete[] keep(new char[50]); }
        for (int i = 0; i < 20; ++i) delete keep(new Wide);
        ::operator delete(keep(::operator new(9, std::nothrow)), std::nothrow);
        try { keep(::operator new((std::size_t)1 << 62)); } catch (const std::bad_alloc&) { }
        std::free(keep(std::malloc(33)));
      }""")
    binary = tmp_path / "new"
    subprocess.run(["c++", "-O1", "-std=c++17", "-o", binary, source], check=True)
    _, counts = tool(tmp_path, binary)
    count = only(counts)
    new, delete = count["operations"]["new"], count["operations"]["delete"]
    assert new["calls"] == 600 + 20 + 1 + 1
    assert new["left"] == 1, "an exception is no return, and gives no object"
    assert delete["calls"] == 600 + 20 + 1
    assert new["bytes"] == 300 * 58 + 20 * 128 + 9
    # libstdc++'s pool for exceptions, the exception itself and the program's own.
    assert count["operations"]["malloc"]["calls"] <= 3
    assert count["live_objects"] <= 1


def test_the_heap_grows_by_brk_as_without_valgrind(tmp_path: Path, program: Compile) -> None:
    """Valgrind's core stops brk at 8 MB; glibc then goes another way."""
    path = program("""
      char *start = sbrk(0);
      for (int i = 0; i < 3000; ++i) {
        char *p = malloc(100000);
        if (p < start || p >= (char *)sbrk(0)) return 1;
      }
      printf("%d", (int)(((char *)sbrk(0) - start) >> 20));""")
    done, counts = tool(tmp_path, path)
    assert done.returncode == 0, "an object lies outside the heap of brk"
    assert int(done.stdout) >= 286
    assert only(counts)["operations"]["malloc"]["most"] < 200_000
    limited, _ = tool(tmp_path, path, TARE_PROGRAM_BREAK="valgrind")
    assert limited.returncode == 1, "Valgrind's own bound was expected; is it gone?"


# ---- threads, processes, signals, jumps ----


def test_threads(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      pthread_t threads[4];
      for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, NULL);
      for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);""",
        """static void *work(void *unused) {
          void *p[100];
          for (int round = 0; round < 200; ++round) {
            for (int i = 0; i < 100; ++i) p[i] = malloc(48);
            for (int i = 0; i < 100; ++i) free(p[i]);
          }
          return unused; }""",
    )
    for manager in ("glibc", *default_managers()[1:2]):
        outcome = counted(tmp_path, path, manager=manager)
        assert outcome.status is Status.OK, outcome.reason
        assert outcome.details["threads"] == 5
        operations = outcome.details["operations"]
        read = outcome.details_as(Details).operations
        # The C library's own for threads, and what a manager asks itself for by public names.
        assert 0 <= operations["malloc"]["calls"] - 80_000 <= 100
        assert 0 <= operations["free"]["calls"] - 80_000 <= 100
        # What another thread does meanwhile is not charged to a call.
        assert read["malloc"].quantile(0.95) < 1000
        assert read["free"].quantile(0.95) < 1000
        assert operations["malloc"]["left"] == 0


def test_the_child_of_a_fork_starts_afresh(tmp_path: Path, program: Compile) -> None:
    path = program("""
      void *before[50];
      for (int i = 0; i < 50; ++i) before[i] = malloc(100);
      pid_t child = fork();
      if (child == 0) {
        for (int i = 0; i < 7; ++i) keep(malloc(1000));
        for (int i = 0; i < 50; ++i) free(before[i]);
        _exit(0);
      }
      int status;
      waitpid(child, &status, 0);
      for (int i = 0; i < 3; ++i) keep(malloc(10));
      for (int i = 0; i < 50; ++i) free(before[i]);""")
    _, counts = tool(tmp_path, path)
    assert len(counts) == 2
    child, parent = sorted(counts, key=lambda count: int(count["objects"]))
    assert child["parent"] == parent["pid"]
    assert (child["objects"], child["allocated_bytes"], child["max_live_objects"]) == (7, 7000, 7)
    assert (child["inherited_frees"], child["freed_objects"]) == (50, 0)
    assert (parent["objects"], parent["freed_objects"]) == (53, 50)
    assert child["instructions"] < parent["instructions"] / 2
    outcome = counted(tmp_path, path)
    assert outcome.values["objects"] == 60
    assert outcome.values["processes"] == 2


def test_a_program_that_execs_is_counted_before_and_after(tmp_path: Path, program: Compile) -> None:
    last = program("for (int i = 0; i < 20; ++i) keep(malloc(8));", name="last")
    first = program(f"""
      for (int i = 0; i < 30; ++i) keep(malloc(8));
      execl("/nonexistent", "x", NULL);
      keep(malloc(8));
      execl("{last}", "last", NULL);""")
    _, counts = tool(tmp_path, first)
    assert [count["objects"] for count in counts] == [31, 20]
    assert [count["end"] for count in counts] == ["exec", "exit"]
    assert counts[0]["pid"] == counts[1]["pid"]
    outcome = counted(tmp_path, "sh", "-c", f"{last}; {last} & wait; exit 0")
    assert outcome.status is Status.OK, outcome.reason
    assert outcome.details["programs"] == 5, "sh, its two children, and what these executed"
    assert outcome.values["processes"] == 3


HANDLER = """
static volatile unsigned long spun;
static volatile int handled;
static void spin(int number) {
  for (int i = 0; i < 100000; ++i) spun += number;
  ++handled;
  AND_MORE
}
"""


@pytest.mark.parametrize("handler_allocates", [False, True])
def test_a_signal_handler_is_not_charged_to_what_it_interrupts(
    tmp_path: Path, program: Compile, handler_allocates: bool
) -> None:
    more = "for (int i = 0; i < 5; ++i) free(keep(malloc(9)));" if handler_allocates else ""
    handler = HANDLER.replace("AND_MORE", more)
    path = program(
        """
      struct sigaction action = {.sa_handler = spin, .sa_flags = SA_RESTART};
      sigaction(SIGPROF, &action, NULL);
      struct itimerval often = {{0, 20000}, {0, 20000}};
      setitimer(ITIMER_PROF, &often, NULL);
      int rounds = 0;
      for (; handled < 25; ++rounds)
        for (int i = 0; i < 500; ++i) free(keep(malloc(64)));
      setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
      fprintf(stderr, "%d %d", rounds, handled);""",
        (OWN_MALLOC if handler_allocates else "") + handler,
    )
    done, counts = tool(tmp_path, path)
    rounds, handled = map(int, done.stderr.split())
    count = only(counts)
    assert count["signals"] == handled >= 25
    inside = 5 * handled if handler_allocates else 0
    for name in ("malloc", "free"):
        operation = count["operations"][name]
        assert operation["calls"] == rounds * 500 + inside
        assert operation["most"] < 100_000, f"a handler was charged to {name}"
        assert operation["left"] == 0


INTERPOSED = """
#include <dlfcn.h>
static int leave_now;
static jmp_buf out;
static sigjmp_buf far_out;
static char pool[1 << 20];
static size_t used;
static void *take(size_t size) { void *p = pool + used; used += (size + 15) & ~15ul; return p; }
__attribute__((noipa)) void *malloc(size_t size) {
  if (leave_now == 1) longjmp(out, 1);
  if (leave_now == 2) raise(SIGUSR1);
  return take(size);
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return take(n * size); }
void *realloc(void *p, size_t size) { void *q = take(size); if (p) memcpy(q, p, size); return q; }
static void escape(int number) { (void)number; siglongjmp(far_out, 1); }
"""


@pytest.mark.parametrize("flags", ["0", "SA_ONSTACK"])
def test_jumps_out_of_the_manager(tmp_path: Path, program: Compile, flags: str) -> None:
    path = program(
        f"""
      static char other[1 << 16];
      stack_t stack = {{.ss_sp = other, .ss_size = sizeof other}};
      sigaltstack(&stack, NULL);
      struct sigaction action = {{.sa_handler = escape, .sa_flags = {flags}}};
      sigaction(SIGUSR1, &action, NULL);
      volatile int i;
      leave_now = 1;
      for (i = 0; i < 40; ++i) if (setjmp(out) == 0) keep(malloc(10));
      leave_now = 2;
      for (i = 0; i < 30; ++i) if (sigsetjmp(far_out, 1) == 0) keep(malloc(10));
      leave_now = 0;
      for (i = 0; i < 25; ++i) keep(malloc(10));
      volatile unsigned long x = 0;
      for (unsigned long k = 0; k < 1000000; ++k) x += k;""",
        INTERPOSED,
    )
    done, counts = tool(tmp_path, path)
    assert done.returncode == 0
    malloc = only(counts)["operations"]["malloc"]
    assert malloc["calls"] - only(counts)["objects"] == 70
    assert malloc["left"] == 70
    assert 25 <= only(counts)["objects"] <= 27
    assert malloc["most"] < 50_000, "what followed a jump was charged to the manager"
    assert only(counts)["signals"] == 30


@pytest.mark.parametrize(
    ("end", "number"),
    [("abort();", signal.SIGABRT), ("*(volatile int *)0 = 1;", signal.SIGSEGV),
     ("raise(SIGTERM);", signal.SIGTERM)],
)  # fmt: skip
def test_a_crash_leaves_a_readable_file(
    tmp_path: Path, program: Compile, end: str, number: int
) -> None:
    path = program(f"for (int i = 0; i < 60; ++i) keep(malloc(100)); {end}")
    done, counts = tool(tmp_path, path)
    assert done.returncode == -number
    assert only(counts)["objects"] == 60
    outcome = counted(tmp_path, path)
    assert (outcome.status, outcome.signal) == (Status.FAILED, number)
    assert outcome.values == {}


def test_a_killed_process_is_missed_and_told_of(tmp_path: Path, program: Compile) -> None:
    path = program("kill(getpid(), SIGKILL);")
    assert counted(tmp_path, path).status is Status.FAILED
    killing = "sleep 9 & sleep 1; kill -9 $!; wait; exit 0"
    outcome = counted(tmp_path, "sh", "-c", killing)
    assert outcome.status is Status.OK, outcome.reason
    assert outcome.details["uncounted_processes"] == 1
    assert list((tmp_path).glob("run-*")) == []


PLACES = r"""
#include <stdlib.h>
#include <sys/mman.h>
enum { kPages = 2048, kPage = 4096 };
static char taken[kPages], *base;
static char* map(long pages, int protection) {
  return mmap(NULL, pages * kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static long first_fit(long pages) {
  for (long at = 0, free = 0; at < kPages; at++)
    if ((free = taken[at] ? 0 : free + 1) == pages) return at - pages + 1;
  return -1;
}
int main(int words, char** word) {
  base = map(kPages, PROT_NONE);
  munmap(base, kPages * kPage);
  while (map(1, PROT_READ) < base) continue; /* what is below is full */
  taken[0] = 1;
  srand(1);
  for (int i = 0; i < 4000; i++) {
    const long at = rand() % kPages, pages = 1 + rand() % (i % 3 ? 4 : 40);
    if (taken[at]) {
      long end = at;
      while (end < kPages && end < at + pages && taken[end]) taken[end++] = 0;
      munmap(base + at * kPage, (end - at) * kPage);
    } else {
      const long want = first_fit(pages);
      if (want < 0) continue;
      if (map(pages, i % 2 ? PROT_READ : PROT_NONE) != base + want * kPage) return 1;
      for (long page = want; page < want + pages; page++) taken[page] = 1;
      mprotect(base + want * kPage, (1 + rand() % pages) * kPage, PROT_READ | PROT_WRITE);
    }
  }
  for (int i = atoi(word[1]); i > 0; i--)
    if (map(1, i % 2 ? PROT_READ : PROT_NONE) == MAP_FAILED) return 2;
  return 0;
}
"""


def test_mappings_are_placed_as_valgrind_places_them_and_many_can_be_made(
    tmp_path: Path, compile_c: Compile
) -> None:
    """At the lowest address where there is room; 30,000 are the most of Valgrind's own core."""
    allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
    outcome = counted(tmp_path, compile_c(PLACES), str(min(50_000, allowed - 10_000)))
    assert outcome.status is Status.OK, outcome.reason


AUXILIARY = """
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
int main(void) {
  static unsigned long asked[256], read[256], first[4];
  const int get = 0x41555856;  // PR_GET_AUXV
  long size = prctl(get, asked, sizeof asked, 0, 0);
  if (size == -1 && errno == EINVAL) return 77;  // before Linux 6.4
  FILE *file = fopen("/proc/self/auxv", "r");
  long bytes = file ? (long)fread(read, 1, sizeof read, file) : 0;
  if (bytes <= 0 || bytes > size || size > (long)sizeof asked) return 1;
  if (memcmp(asked, read, size) != 0) return 2;
  for (int i = 0; asked[i] != AT_NULL; i += 2)
    if (asked[i] == AT_EXECFN) puts((char *)asked[i + 1]);
  if (prctl(get, first, 2 * sizeof *first, 0, 0) != size) return 3;
  if (first[0] != asked[0] || first[1] != asked[1] || first[2] != 0) return 4;
  return prctl(get, (void *)8, sizeof asked, 0, 0) == -1 && errno == EFAULT ? 0 : 5;
}
"""


def test_a_program_that_asks_the_kernel_for_its_name_is_told_its_own(
    tmp_path: Path, compile_c: Compile
) -> None:
    """So coreutils in Rust, one program for many commands, find which of them was called."""
    path = compile_c(AUXILIARY)
    if subprocess.run([path], check=False).returncode == 77:
        pytest.skip("this kernel does not answer prctl(PR_GET_AUXV)")
    done, _ = tool(tmp_path, path)
    assert (done.returncode, done.stdout) == (0, f"{path}\n")


def test_the_program_s_errors_are_its_own(tmp_path: Path) -> None:
    done, _ = tool(tmp_path, "sh", "-c", "echo out; echo error >&2")
    assert (done.stdout, done.stderr) == ("out\n", "error\n")


def test_objects_of_a_library_that_comes_and_goes(tmp_path: Path, compile_c: Compile) -> None:
    library = """
      #include <stddef.h>
      static char pool[1 << 16]; static size_t used;
      void *malloc(size_t n) { void *p = pool + used; used += (n + 15) & ~15ul; return p; }
      void *own(size_t n) { return malloc(n); }
    """
    compile_c(library, "-shared", "-fPIC", "-fno-builtin", "-Wl,-Bsymbolic", name="own.so")
    compile_c("int own_malloc_is_not_here(void) { return 1; }", "-shared", "-fPIC", name="none.so")
    source = f"""{PRELUDE}
      #include <dlfcn.h>
      int main(void) {{
        for (int i = 0; i < 5; ++i) {{
          void *library = dlopen("{tmp_path}/own.so", RTLD_NOW | RTLD_LOCAL);
          void *(*own)(size_t) = dlsym(library, "own");
          for (int j = 0; j < 10; ++j) keep(own(24));
          dlclose(library);
          dlclose(dlopen("{tmp_path}/none.so", RTLD_NOW));
        }}
        return 0; }}"""
    path = compile_c(source, *OPTIONS)
    _, counts = tool(tmp_path, path)
    bare = compile_c(source.replace("j < 10", "j < 0"), *OPTIONS, name="bare")
    _, without = tool(tmp_path, bare)
    assert only(counts)["objects"] - only(without)["objects"] == 50


# ---- under Tare ----


def test_the_count_repeats_to_the_instruction(tmp_path: Path, program: Compile) -> None:
    path = program("for (int i = 0; i < 2000; ++i) free(keep(malloc(i * 7 % 5000)));")
    first, second = (counted(tmp_path, path) for _ in range(2))
    assert first.values == second.values
    assert first.details["operations"] == second.details["operations"]


def test_the_probe_is_left_out(tmp_path: Path, program: Compile) -> None:
    path = program("return 0;")
    with_probe = counted(tmp_path, path)
    assert with_probe.details["proof_instructions"] > 1000
    _, counts = tool(tmp_path, path)
    added = with_probe.values["instructions"] - only(counts)["instructions"]
    assert 0 < added < 60_000, "loading and linking the probe and the manager"
    assert with_probe.values["objects"] == only(counts)["objects"]


@pytest.mark.parametrize("manager", default_managers())
def test_every_default_manager_is_proved_and_counted(
    tmp_path: Path, program: Compile, manager: str
) -> None:
    path = program("for (int i = 0; i < 20000; ++i) free(keep(malloc(i % 700)));")
    outcome = counted(tmp_path, path, manager=manager)
    assert outcome.status is Status.OK, outcome.reason + outcome.error_tail
    assert resolve(manager).serves(outcome.server)
    assert 0 <= outcome.values["objects"] - 20_000 <= 20
    malloc = outcome.details_as(Details).operations["malloc"]
    assert 5 < malloc.quantile(0.5) < 1000
    assert outcome.values["malloc_instructions"] < outcome.values["manager_instructions"]


def test_a_manager_that_does_not_serve_gives_no_count(tmp_path: Path, compile_c: Compile) -> None:
    bystander = compile_c("int unused;", "-shared", "-fPIC", name="bystander.so")
    outcome = counted(tmp_path, "true", manager=str(bystander))
    assert outcome.status is Status.NOT_LOADED
    assert outcome.values == {}


def test_the_command(tmp_path: Path, tare: Callable[..., Completed], program: Compile) -> None:
    path = program("for (int i = 0; i < 3000; ++i) free(keep(malloc(50)));")
    done = tare("count", "-o", "r", "--json", "out.json", "-m", "glibc", "--", path)
    assert done.returncode == 0, done.stderr
    assert "the same to the instruction" in done.stdout
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["study"] == "count"
    values = {(m["invocation"], m["metric"]): m["value"] for m in document["measurements"]}
    assert values[0, "objects"] == values[1, "objects"] == 3000
    assert values[0, "allocated_bytes"] == 150_000
    (total,) = (row for row in document["summary"] if row["metric"] == "instructions")
    assert total["median"] == total["low"] == values[0, "instructions"]
    page = (tmp_path / "r" / "report.html").read_text()
    assert "malloc: calls by their instructions" in page
    assert "cannot be drawn" not in page


def test_the_command_refuses_what_no_manager_reaches(
    tare: Callable[..., Completed], compile_c: Compile
) -> None:
    static = compile_c("int main(void) { return 0; }", "-static")
    done = tare("count", "--", static)
    assert done.returncode == 3
    assert "statically linked" in done.stderr
