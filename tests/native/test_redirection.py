"""Allocators that programs bring along are led to the manager, or the run says why not."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.memory_managers.manager import OWN, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.coverage import Covered, OwnAllocator
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

# Every function of the allocators' headers, with what it must do as statements that use `p`, `q`
# and check(). Each is defined in the program, and ends it where it is not led elsewhere.
CHECKED = {
    "mi_": (
        "p = mi_malloc(100); fill(p, 100); p = mi_realloc(p, 5000); kept(p, 100);"
        "p = mi_realloc(p, 0L); check(p != NULL); mi_free(p); check(mi_strdup(NULL) == NULL);"
        "p = mi_malloc_small(24); check(mi_usable_size(p) >= 24); mi_free_size(p, 24);"
        "p = mi_zalloc(3000); zero(p, 3000); mi_free(p); p = mi_zalloc_small(16); zero(p, 16);"
        "p = mi_rezalloc(p, 9000); zero(p, 9000); mi_free(p); p = mi_calloc(7, 300);"
        "zero(p, 2100); p = mi_recalloc(p, 9, 900); zero(p, 8100); mi_free(p);"
        "p = mi_mallocn(4, 50); fill(p, 200); p = mi_reallocn(p, 40, 50); kept(p, 200);"
        "p = mi_reallocf(p, 100); kept(p, 100); check(mi_expand(p, 200) == NULL); mi_free(p);"
        "check(mi_mallocn(1L << 40, 1L << 40) == NULL);"
        "check(mi_reallocn(NULL, 1L << 40, 1L << 40) == NULL);"
        "p = mi_malloc_aligned(100, 256); even(p, 256); fill(p, 100);"
        "p = mi_realloc_aligned(p, 70000, 4096); even(p, 4096); kept(p, 100);"
        "mi_free_aligned(p, 4096);"
        # What was used before is zero up to the end, where an object of zeros may grow.
        "void *a[200]; for (int i = 0; i < 200; ++i) { a[i] = mi_malloc_aligned(560, 64);"
        "fill(a[i], mi_usable_size(a[i])); } for (int i = 0; i < 200; ++i) mi_free(a[i]);"
        "for (int i = 0; i < 200; ++i) { a[i] = i % 3 ? i % 3 == 1 ? mi_zalloc_aligned(497, 64)"
        ": mi_zalloc(497) : mi_calloc(7, 71); zero(a[i], mi_usable_size(a[i])); }"
        "for (int i = 0; i < 200; ++i) mi_free(a[i]);"
        "p = mi_zalloc_aligned(500, 64); even(p, 64); zero(p, 500);"
        "p = mi_rezalloc_aligned(p, 5000, 128); even(p, 128); zero(p, 5000);"
        "mi_free_size_aligned(p, 5000, 128); p = mi_calloc_aligned(10, 10, 512); even(p, 512);"
        "zero(p, 100); p = mi_recalloc_aligned(p, 100, 100, 512); even(p, 512); zero(p, 10000);"
        "mi_free(p); check(mi_posix_memalign(&p, 128, 100) == 0); even(p, 128); mi_free(p);"
        "p = mi_memalign(64, 100); even(p, 64); mi_cfree(p);"
        "p = mi_aligned_alloc(64, 128); even(p, 64); mi_free(p); p = mi_valloc(10);"
        "even(p, 4096); mi_free(p); p = mi_pvalloc(10); even(p, 4096); mi_free(p);"
        "p = mi_reallocarray(NULL, 3, 30); check(mi_malloc_usable_size(p) >= 90);"
        'check(mi_malloc_size(p) >= 90); mi_free(p); p = mi_strdup("words");'
        'check(strcmp(p, "words") == 0); q = mi_strndup(p, 3); check(strcmp(q, "wor") == 0);'
        "mi_free(p); mi_free(q); p = mi_new(100); mi_free(p); p = mi_new_nothrow(10); mi_free(p);"
        "p = mi_new_aligned(10, 128); even(p, 128); mi_free(p);"
        "p = mi_new_aligned_nothrow(10, 128); even(p, 128); mi_free(p); p = mi_new_n(3, 9);"
        "fill(p, 27); p = mi_new_realloc(p, 900); kept(p, 27); p = mi_new_reallocn(p, 9, 9);"
        "kept(p, 27); mi_free(p); char heap[1]; p = mi_heap_malloc(heap, 100); fill(p, 100);"
        "p = mi_heap_realloc(heap, p, 900); kept(p, 100); p = mi_heap_reallocn(heap, p, 9, 99);"
        "kept(p, 100); p = mi_heap_reallocf(heap, p, 99); kept(p, 99); mi_free(p);"
        "p = mi_heap_malloc_small(heap, 10); mi_free(p); p = mi_heap_calloc(heap, 3, 30);"
        "zero(p, 90); p = mi_heap_recalloc(heap, p, 30, 30); zero(p, 900); mi_free(p);"
        "p = mi_heap_zalloc(heap, 99); zero(p, 99); p = mi_heap_rezalloc(heap, p, 999);"
        "zero(p, 999); mi_free(p); p = mi_heap_mallocn(heap, 3, 30); mi_free(p);"
        "p = mi_heap_malloc_aligned(heap, 10, 64); even(p, 64);"
        "p = mi_heap_realloc_aligned(heap, p, 100, 128); even(p, 128); mi_free(p);"
        "p = mi_heap_zalloc_aligned(heap, 10, 64); even(p, 64); zero(p, 10); mi_free(p);"
        "p = mi_heap_calloc_aligned(heap, 2, 10, 64); even(p, 64); zero(p, 20); mi_free(p);"
        'p = mi_heap_strdup(heap, "words"); check(strcmp(p, "words") == 0); mi_free(p);'
        'p = mi_heap_strndup(heap, "words", 2); check(strcmp(p, "wo") == 0); mi_free(p);'
        "p = mi_heap_alloc_new(heap, 10); mi_free(p); p = mi_heap_alloc_new_n(heap, 2, 10);"
        "mi_free(p);"
    ),
    "any_prefix_": (
        "p = any_prefix_malloc(100); fill(p, 100); p = any_prefix_realloc(p, 9000); kept(p, 100);"
        "p = any_prefix_rallocx(p, 90000, 12); even(p, 4096); kept(p, 100);"
        "check(any_prefix_xallocx(p, 90000, 9, 0) >= 90000); any_prefix_dallocx(p, 12);"
        "p = any_prefix_mallocx(100, 64 | 7); even(p, 128); zero(p, 100);"
        "check(any_prefix_sallocx(p, 7) >= 100); any_prefix_sdallocx(p, 100, 7);"
        "p = any_prefix_mallocx(100, 64); zero(p, 100); p = any_prefix_rallocx(p, 9000, 64);"
        "zero(p, 9000); any_prefix_free(p); p = any_prefix_calloc(3, 30); zero(p, 90);"
        "any_prefix_free(p); check(any_prefix_nallocx(100, 6) == 128);"
        "p = any_prefix_aligned_alloc(64, 128); even(p, 64); any_prefix_free(p);"
        "check(any_prefix_posix_memalign(&p, 256, 9) == 0); even(p, 256); any_prefix_free(p);"
        "p = any_prefix_memalign(64, 9); even(p, 64); any_prefix_free(p);"
        "p = any_prefix_valloc(9); even(p, 4096); check(any_prefix_malloc_usable_size(p) >= 9);"
        "any_prefix_free(p);"
    ),
    "sn_": (
        "p = sn_rust_alloc(256, 100); even(p, 256); fill(p, 100);"
        "p = sn_rust_realloc(p, 256, 100, 9000); even(p, 256); kept(p, 100);"
        "sn_rust_dealloc(p, 256, 9000); p = sn_rust_alloc_zeroed(64, 900); even(p, 64);"
        "zero(p, 900); check(sn_rust_usable_size(p) >= 900); sn_rust_dealloc(p, 64, 900);"
    ),
    "rp": (
        "p = rpmalloc(100); fill(p, 100); p = rprealloc(p, 9000); kept(p, 100);"
        "p = rpaligned_realloc(p, 64, 90000, 9000, 0); even(p, 64); kept(p, 100); rpfree(p);"
        "p = rpcalloc(3, 30); zero(p, 90); rpfree(p); p = rpaligned_alloc(64, 128); even(p, 64);"
        "rpfree(p); p = rpaligned_zalloc(64, 99); even(p, 64); zero(p, 99); rpfree(p);"
        "p = rpaligned_calloc(64, 3, 33); even(p, 64); zero(p, 99); rpfree(p);"
        "p = rpmemalign(64, 9); even(p, 64); rpfree(p);"
        "check(rpposix_memalign(&p, 64, 9) == 0); even(p, 64);"
        "check(rpmalloc_usable_size(p) >= 9); rpfree(p);"
    ),
    "tc_": (
        "p = tc_malloc(100); fill(p, 100); p = tc_realloc(p, 9000); kept(p, 100);"
        "check(tc_malloc_size(p) >= 9000); tc_free(p); p = tc_calloc(3, 30); zero(p, 90);"
        "tc_cfree(p); p = tc_memalign(64, 9); even(p, 64); tc_free(p);"
        "check(tc_posix_memalign(&p, 64, 9) == 0); even(p, 64); tc_free(p); p = tc_valloc(9);"
        "even(p, 4096); tc_free(p); p = tc_pvalloc(9); even(p, 4096); tc_free(p);"
        "p = tc_malloc_skip_new_handler(9); tc_free(p); p = tc_new(9); tc_delete(p);"
        "p = tc_newarray(9); tc_deletearray(p);"
        "p = tc_new_nothrow(9, NULL); tc_delete_sized(p, 9); p = tc_newarray_nothrow(9, NULL);"
        "tc_deletearray_sized(p, 9); p = tc_new_aligned(9, 64); even(p, 64);"
        "tc_delete_aligned(p, 64); p = tc_newarray_aligned(9, 64); even(p, 64);"
        "tc_deletearray_aligned(p, 64); p = tc_new_aligned_nothrow(9, 64, NULL); even(p, 64);"
        "tc_free(p); p = tc_newarray_aligned_nothrow(9, 64, NULL); even(p, 64); tc_free(p);"
    ),
    "dl": (
        "p = dlmalloc(100); fill(p, 100); p = dlrealloc(p, 9000); kept(p, 100);"
        "check(dlrealloc_in_place(p, 90000) == NULL); check(dlmalloc_usable_size(p) >= 9000);"
        "dlfree(p); p = dlcalloc(3, 30); zero(p, 90); dlfree(p); p = dlmemalign(64, 9);"
        "even(p, 64); dlfree(p); check(dlposix_memalign(&p, 64, 9) == 0); dlfree(p);"
        "p = dlvalloc(9); even(p, 4096); dlfree(p); p = dlpvalloc(9); even(p, 4096); dlfree(p);"
    ),
}
PROLOGUE = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define check(truth) if (!(truth)) { puts(#truth); exit(3); }
static void fill(void *p, size_t n) { memset(p, 7, n); }
static void kept(char *p, size_t n) { for (size_t i = 0; i < n; ++i) check(p[i] == 7); }
static void zero(char *p, size_t n) { for (size_t i = 0; i < n; ++i) check(p[i] == 0); }
static void even(void *p, size_t alignment) { check((uintptr_t)p % alignment == 0); }
"""
INTEGERS = ("usable_size", "malloc_size", "xallocx", "sallocx", "nallocx", "posix_memalign")


def functions(code: str, prefix: str) -> list[str]:
    return sorted(set(re.findall(rf"\b({prefix}\w+)\(", code)))


def source(prefix: str, code: str) -> str:
    """A program that defines the functions, each of which ends it, and calls them by ``code``."""
    lines = [PROLOGUE]
    for name in functions(code, prefix):
        result = "int " if name.endswith(INTEGERS) else "void *"
        lines.append(f"__attribute__((noipa)) {result}{name}() {{ abort(); }}")
    lines.append(f"int main(void) {{ void *p, *q = NULL; {code}")
    lines.append('  puts("done"); return 0; }')
    return "\n".join(lines)


def run(folder: Path, *argv: str | Path, manager: str = "glibc") -> Outcome:
    program = Program("test", tuple(map(str, argv)))
    return run_once(program, resolve(manager), Limits(), folder)


def own(outcome: Outcome) -> tuple[OwnAllocator, ...]:
    return outcome.details_as(Covered).own_allocators


@pytest.mark.parametrize("manager", ["glibc", "mimalloc", "tcmalloc", "marksweep(glibc)"])
@pytest.mark.parametrize("prefix", CHECKED)
def test_each_function_of_an_allocator_means_the_same_under_a_manager(
    tmp_path: Path, compile_c: Callable[..., Path], prefix: str, manager: str
) -> None:
    code = CHECKED[prefix]
    program = compile_c(source(prefix, code), "-std=gnu11", "-w")
    outcome = run(tmp_path, program, manager=manager)
    assert outcome.status is Status.OK, (outcome.reason, outcome.error_tail)
    (found,) = own(outcome)
    assert (found.file, found.prefix, found.is_redirected) == (str(program), prefix, True)
    assert found.functions == len(functions(code, prefix))
    assert run(tmp_path, program, manager=OWN).status is Status.FAILED, "its own functions abort"


def test_what_no_malloc_can_serve_is_told(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    code = "p = mi_malloc(9); mi_free(p); mi_heap_destroy(q);"
    program = compile_c(source("mi_", code), "-std=gnu11", "-w")
    outcome = run(tmp_path, program)
    assert outcome.status is Status.NOT_COVERED, outcome
    assert "it calls mi_heap_destroy of its own allocator" in outcome.reason


def test_half_an_allocator_is_left_alone(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    program = compile_c(source("mi_", "if (q) mi_malloc(9);"), "-std=gnu11", "-w")
    outcome = run(tmp_path, program)
    assert outcome.status is Status.OK, outcome.reason
    assert own(outcome) == ()


@pytest.mark.parametrize("flags", [(), ("-s",), ("-no-pie",), ("-static-pie",)])
def test_a_function_of_one_source_file_may_be_called_free(
    tmp_path: Path, compile_c: Callable[..., Path], flags: tuple[str, ...]
) -> None:
    program = compile_c(
        "#include <stddef.h>\n"
        "__attribute__((noinline)) static int malloc(int n) { return n + 1; }\n"
        "__attribute__((noinline)) static int free(int n) { return n - 1; }\n"
        "int main(int argc, char **argv) { return malloc(argc) + free(argc) - 2 * argc; }\n",
        *("-fno-builtin", "-w", *flags),
    )
    outcome = run(tmp_path, program)
    if flags == ("-static-pie",):
        assert outcome.status is Status.NOT_LOADED, "nothing is preloaded into it"
    else:
        assert outcome.status is Status.OK, outcome.reason
    assert own(outcome) == ()


LINKED = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char *last = NULL;
  for (int number = 0; number < 32768; ++number) {
    char *next = memset(malloc(1000), 1, 1000);
    *(char **)next = last;
    last = next;
    if (number % 3 == 0) last = realloc(last, 1500);
  }
  pid_t child = fork();
  if (child == 0 && argc > 1) execv(argv[0], argv + 1);
  while (last != NULL) {
    char *next = *(char **)last;
    free(last);
    last = next;
  }
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  puts("done");
  return status;
}
"""


@pytest.mark.parametrize("manager", ["glibc", "snmalloc"])
@pytest.mark.parametrize(
    "linked", ["jemalloc", "mimalloc", "tcmalloc", "rpmalloc", "scudo", "dlmalloc", "hoard"]
)
def test_a_program_that_is_linked_with_an_allocator_runs_under_others(
    tmp_path: Path, compile_c: Callable[..., Path], linked: str, manager: str
) -> None:
    library = resolve(linked).server
    assert library is not None
    program = compile_c(LINKED, f"-Wl,--no-as-needed,-rpath,{library.parent}", str(library))
    outcome = run(tmp_path, program, "again", manager=manager)
    assert outcome.status is Status.OK, (outcome.reason, outcome.error_tail)
    assert outcome.values["processes"] == 3
    found = outcome.details_as(Covered)
    assert found.coverage is not None
    assert found.coverage.share > 0.9
    assert {Path(each.file).name for each in found.own_allocators} == {library.name}
    alone = run(tmp_path, program, "again", manager=OWN)
    assert alone.server == str(library)
    assert not any(each.is_redirected for each in own(alone))


def test_a_sanitizer_is_left_in_peace(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    program = compile_c(LINKED, "-fsanitize=address", "-static-libasan")
    outcome = run(tmp_path, program)
    assert outcome.status is Status.NOT_LOADED, outcome
    assert own(outcome) == ()


CXX = """
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>
static void work(long seed) {
  std::vector<std::string> words;
  for (long i = 0; i < 20000; i++) words.push_back(std::string(40 + (i + seed) % 50, 'x'));
  std::map<long, std::string> by_number;
  for (long i = 0; i < 2000; i++) by_number[i * 7919 % 2000] = words[i];
  std::printf("%zu\\n", by_number.size());
}
int main() {
  std::thread first(work, 1), second(work, 2);
  first.join();
  second.join();
}
"""
# malloc and operator new of the program itself, over a region that is never given back.
BRINGS = """
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <sys/mman.h>
namespace {
char *at, *end;
bool is_held;
void *take(std::size_t n) {
  while (__atomic_test_and_set(&is_held, __ATOMIC_ACQUIRE)) {}
  n = (n + 31) / 16 * 16;
  if (static_cast<std::size_t>(end - at) < n) {
    at = static_cast<char *>(mmap(nullptr, 1 << 26, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    end = at + (1 << 26);
  }
  char *const p = at;
  at += n;
  __atomic_clear(&is_held, __ATOMIC_RELEASE);
  *reinterpret_cast<std::size_t *>(p) = n - 16;
  return p + 16;
}
}
extern "C" {
void *malloc(std::size_t n) { return take(n); }
void *calloc(std::size_t m, std::size_t n) { return memset(take(m * n), 0, m * n); }
void free(void *) {}
std::size_t malloc_usable_size(void *p) { return p ? static_cast<std::size_t *>(p)[-2] : 0; }
void *realloc(void *p, std::size_t n) {
  void *const q = take(n);
  const std::size_t had = malloc_usable_size(p);
  return p ? memcpy(q, p, had < n ? had : n) : q;
}
}
void *operator new(std::size_t n) { return take(n); }
void *operator new[](std::size_t n) { return take(n); }
void operator delete(void *) noexcept {}
void operator delete[](void *) noexcept {}
void operator delete(void *, std::size_t) noexcept {}
void operator delete[](void *, std::size_t) noexcept {}
"""


def built(folder: Path, name: str, *sources: str) -> Path:
    program = folder / name
    command: list[str | Path] = ["g++", "-g", "-O2", "-pthread", "-o", program, *sources]
    subprocess.run(command, cwd=folder, check=True)
    return program


@pytest.fixture(scope="module")
def cxx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with an allocator of its own; beside it ``plain`` is the same without."""
    folder = tmp_path_factory.mktemp("cxx")
    (folder / "work.cpp").write_text(CXX)
    (folder / "brings.cpp").write_text(BRINGS)
    built(folder, "plain", "work.cpp")
    return built(folder, "brings", "brings.cpp", "work.cpp")


@pytest.mark.parametrize(
    ("command", "metrics"),
    [
        ("count", ["objects", "allocated_bytes"]),
        ("drag", ["objects", "allocated_bytes"]),
        ("space", []),
    ],
)
def test_observers_see_the_objects_of_a_redirected_allocator(
    tare: Callable[..., subprocess.CompletedProcess[str]],
    cxx: Path,
    command: str,
    metrics: list[str],
) -> None:
    seen = []
    for program in (cxx, cxx.with_name("plain")):
        shown = tare(command, "--no-page", "-q", "--json", "-", "-m", "glibc", "--", program)
        assert shown.returncode == 0, shown.stdout + shown.stderr
        rows = json.loads(shown.stdout)["measurements"]
        seen.append({row["metric"]: row["value"] for row in rows})
    redirected, plain = seen
    assert [redirected[name] for name in metrics] == [plain[name] for name in metrics]
    if command == "space":
        # How much the two threads have at the same time is up to chance.
        assert redirected["requested_bytes"] > 1e6


def test_a_comparison_says_what_was_redirected(
    tare: Callable[..., subprocess.CompletedProcess[str]], cxx: Path
) -> None:
    shown = tare(
        *("compare", "-n", "1", "-m", "own", "-m", "glibc", "-m", "mimalloc", "--no-page"),
        *("--ignore-output", "--", cxx),
    )
    assert shown.returncode == 0, shown.stderr
    words = " ".join(shown.stdout.split())
    assert (
        "The program's own allocator in brings was redirected, so that the manager serves it"
        in words
    ), words


def test_a_program_as_it_is_keeps_its_own_allocator(tmp_path: Path, cxx: Path) -> None:
    outcome = run(tmp_path, cxx, manager=OWN)
    assert outcome.status is Status.OK
    assert outcome.server == str(cxx)
    assert [each.is_redirected for each in own(outcome)] == [False]
