"""The quarantine, `delay(M, …)`: names, exact counters, and programs that are hard on it."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st

from tare import layers
from tare.errors import TareError, UsageError
from tare.layers import delay
from tare.manager import Manager, machine_libc, resolve
from tare.measurement import METRICS, Status
from tare.native import native_file
from tare.program import Program
from tare.recipes import load_recipes, object_path
from tare.runner import Limits, Outcome, run_once
from tests.conftest import Completed

HERE = Path(__file__).parent
SOURCES = HERE.parent / "managers"
Compile = Callable[..., Path]
INNERS = [
    recipe.name
    for recipe in load_recipes().values()
    if recipe.kind != "collector" and (recipe.kind == "system" or object_path(recipe) is not None)
]
PRELUDE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static __thread void* volatile sink;
static void* opaque(void* p) { sink = p; return sink; }
/* Without stdio, which allocates. */
static void put(const char* text) { if (write(1, text, strlen(text)) < 0) _exit(9); }
static void* objects[100000];
static void make(int count, size_t bytes) {
  for (int i = 0; i < count; i++) objects[i] = opaque(malloc(bytes));
}
static void drop(int count) {
  for (int i = 0; i < count; i++) free(objects[i]);
}
"""
FLAGS = ("-O1", "-fno-builtin", "-pthread", "-Wno-use-after-free", "-Wno-unused-result")


@pytest.fixture
def run(tmp_path: Path, compile_c: Compile) -> Callable[..., Outcome]:
    """Run C source text, after PRELUDE, under a manager."""

    def go(
        source: str, manager: str, *arguments: str, flags: Sequence[str] = (), seconds: float = 60
    ) -> Outcome:
        path = compile_c(PRELUDE + source, *FLAGS, *flags)
        program = Program("t", (str(path), *arguments))
        return run_once(program, resolve(manager), Limits(timeout_seconds=seconds), tmp_path)

    return go


def good(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status is Status.OK, (outcome.reason, outcome.error_tail)
    details: dict[str, Any] = outcome.details["delay"]
    assert details["uncounted"] == 0
    return details


# Names


@pytest.mark.parametrize(
    "name",
    [
        "delay(glibc)",
        "delay(glibc, size=64KiB)",
        "delay(glibc(tcache=0, arenas=1), size=1B, scope=global, order=lifo)",
        "delay(glibc, size=1GiB, buffer=40KiB, realloc=pass, poison=yes)",
        "delay(own, size=2MiB)",
    ],
)
def test_a_printed_name_reads_back(name: str) -> None:
    manager = resolve(name)
    assert manager.name == name
    assert resolve(manager.name) == manager
    assert manager.preload[0] == native_file(delay.OBJECT) == manager.layer


def test_spaces_do_not_matter() -> None:
    assert (
        resolve(" delay( glibc(tcache=0),size=1MiB ) ").name == "delay(glibc(tcache=0), size=1MiB)"
    )


def test_an_object_of_ones_own_can_be_delayed(compile_c: Compile) -> None:
    mine = compile_c("int unused;", "-shared", "-fPIC", name="libmine.so")
    manager = resolve(f"delay({mine}, size=4KiB)")
    assert manager.name == f"delay({mine}, size=4KiB)"
    assert manager.preload == (native_file(delay.OBJECT), mine.resolve())
    assert manager.stands_behind(str(mine))
    assert not manager.serves(str(mine))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("delay", "does not say which manager"),
        ("delay()", "does not say which manager"),
        ("delay(size=1MiB)", "does not say which manager"),
        ("delay(glibc, size)", "not of the form option=value"),
        ("delay(glibc, size=)", "not of the form option=value"),
        ("delay(glibc, size=1B, size=2B)", "twice"),
        ("delay(glibc, size=0B)", "between 1B and 1GiB"),
        ("delay(glibc, size=1025MiB)", "between 1B and 1GiB"),
        ("delay(glibc, size=lots)", "must be a size"),
        ("delay(glibc, colour=red)", "no option 'colour'"),
        ("delay(glibc, scope=process)", "must be one of thread, global"),
        ("delay(glibc, buffer=3KiB)", "must be one of grow, 40KiB"),
        ("delay(glibc, poison=true)", "must be one of yes, no"),
        ("delay(delay(glibc), size=1B)", "has two layers"),
        ("delay(nosuch)", "no manager 'nosuch'"),
        ("delay(glibc(tcache=maybe))", "whole number"),
        ("delay(./missing.so)", "does not exist"),
        ("delay(glibc", "not a manager name"),
        ("delay(glibc))", "not a manager name"),
        ("delay(" * 300, "not a manager name|characters"),
    ],
)
def test_bad_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(name)


def test_a_collector_is_not_delayed() -> None:
    with pytest.raises(UsageError, match="is a collector"):
        resolve("delay(bdwgc, size=1MiB)")


@given(st.text(alphabet="delay(),= glibc1KMB", max_size=40))
def test_any_name_is_read_or_refused(text: str) -> None:
    try:
        split = layers.split_name(text)
    except UsageError:
        return
    assert split is None or split.inner


def test_the_command_line_refuses(tare: Callable[..., Completed]) -> None:
    done = tare("compare", "-m", "delay(glibc, size=2GiB)", "--", "true")
    assert done.returncode == 2
    assert "delay(size=2GiB): must be between 1B and 1GiB" in done.stderr
    assert "Traceback" not in done.stderr


# Counters


USABLE = 104  # of glibc's objects of 100 bytes


@pytest.mark.parametrize(("size", "group"), [("1B", 1), ("104B", 1), ("105B", 2), ("1000B", 10)])
def test_collections_by_volume_are_exact(
    run: Callable[..., Outcome], size: str, group: int
) -> None:
    outcome = run(
        "int main(void) { make(1005, 100); drop(1005); return 0; }", f"delay(glibc, size={size})"
    )
    details = good(outcome)
    rest = 1005 % group
    assert details["objects"] == 1005
    assert details["volume_collections"] == 1005 // group
    assert details["exit_collections"] == (rest > 0)
    assert details["capacity_collections"] == details["memory_collections"] == 0
    assert details["passed_objects"] == 0
    assert outcome.values["collections"] == 1005 // group + (rest > 0)
    held_objects = 1005 if group > 1 else 0
    assert details["released_at_once"] == 1005 - held_objects
    assert outcome.values["quarantined_bytes"] == details["bytes"] == held_objects * USABLE
    # Of a group of n the first is held while n - 1 more are freed, the last while none is.
    held = USABLE * (group * (group - 1) // 2 * (1005 // group) + rest * (rest - 1) // 2)
    assert details["mean_held_bytes"] == pytest.approx(held / 1005)
    assert 0 < outcome.values["max_pause_seconds"] < outcome.values["wall_seconds"]
    assert outcome.values["pause_seconds"] > 0


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("size", [1, 64 << 10])
def test_bytes_are_what_malloc_usable_size_says(
    tmp_path: Path, compile_c: Compile, inner: str, size: int
) -> None:
    """Of the objects that were held: not of one that reaches the threshold alone."""
    source = r"""
    int main(int most, char** arguments) {
      const size_t size = strtoul(arguments[1], NULL, 10);
      size_t bytes = 0, volume = 0;
      int count = 0;
      for (size_t n = 1; n < 70000000; n = n * 5 / 4 + 1) {
        objects[count++] = opaque(malloc(n));
        objects[count++] = opaque(memalign(256, n));
      }
      free(opaque(malloc(size))); /* so that nothing is held from before */
      for (int i = 0; i < count; i++) {
        const size_t usable = malloc_usable_size(objects[i]);
        if (volume == 0 && usable >= size) continue;
        bytes += usable;
        volume = volume + usable < size ? volume + usable : 0;
      }
      drop(count);
      char text[30];
      int at = sizeof text;
      do text[--at] = '0' + bytes % 10; while (bytes /= 10);
      write(1, text + at, sizeof text - at);
      _exit(0);
    }"""
    program = Program("t", (str(compile_c(PRELUDE + source, *FLAGS)), str(size)))
    manager = resolve(f"delay({inner}, size={size}B)")
    kept = tmp_path / "kept" / "stdout"
    details = good(run_once(program, manager, Limits(60.0), tmp_path, kept))
    bytes_held = int(kept.read_text())
    assert (bytes_held == 0) == (size == 1)
    # An inner allocator in C++ may free a little of its own as it starts; the object that follows
    # then is not alone. The last object is larger than any list, so nothing is left on one.
    started = 0 if size == 1 or inner == "glibc" else 200_000
    assert 0 <= details["bytes"] - bytes_held <= started


@pytest.mark.parametrize("size", ["1B", "104B"])
@pytest.mark.parametrize("options", ["", ", scope=global", ", poison=yes"])
def test_an_object_that_reaches_the_threshold_alone_is_not_held(
    run: Callable[..., Outcome], size: str, options: str
) -> None:
    source = r"""
    int main(void) {
      make(50, 100);
      drop(50);
      make(50, 100000); /* the pause of each of these is timed where the size is asked for */
      drop(50);
      return 0;
    }"""
    outcome = run(source, f"delay(glibc, size={size}{options})")
    details = good(outcome)
    assert details["objects"] == details["released_at_once"] == 100
    assert outcome.values["collections"] == outcome.values["volume_collections"] == 100
    assert outcome.values["quarantined_bytes"] == details["largest_bytes"] == 0
    assert details["mean_held_bytes"] == details["mean_held_seconds"] == 0
    assert sum(count for *_, count in details["pause_histogram"]) == pytest.approx(100)


@pytest.mark.parametrize("options", ["", ", scope=global", ", poison=yes"])
def test_an_object_that_reaches_the_threshold_with_others_is_held(
    run: Callable[..., Outcome], options: str
) -> None:
    outcome = run(
        "int main(void) { make(2, 100); drop(2); make(1, 2000); drop(1); return 0; }",
        f"delay(glibc, size=208B{options})",
    )
    details = good(outcome)
    assert (details["objects"], details["released_at_once"]) == (3, 1)
    assert details["bytes"] == 2 * USABLE
    outcome = run(
        "int main(void) { make(1, 100); void* p = malloc(2000); drop(1); free(p); return 0; }",
        f"delay(glibc, size=208B{options})",
    )
    details = good(outcome)
    assert (details["objects"], details["released_at_once"]) == (2, 0)
    assert details["bytes"] == USABLE + 2008


def test_a_size_is_not_asked_for_where_all_is_released_at_once(
    run: Callable[..., Outcome], compile_c: Compile
) -> None:
    source = (
        "#include <stdlib.h>\nstatic _Alignas(16) char heap[1 << 20]; static size_t used;"
        "void* malloc(size_t n) { n = (n + 31) / 16 * 16; used += n; return heap + used - n; }"
        "void* calloc(size_t n, size_t m) { return malloc(n * m); }"
        "void* realloc(void* p, size_t n) { return p ? NULL : malloc(n); }"
        "void free(void* p) { (void)p; }"
        "size_t malloc_usable_size(void* p) { (void)p; abort(); }"
    )
    mine = compile_c(source, "-shared", "-fPIC", "-fno-builtin", name="libmine.so")
    program = "int main(void) { make(1000, 100); drop(1000); return 0; }"
    assert good(run(program, f"delay({mine}, size=1B)"))["objects"] == 1000
    assert run(program, f"delay({mine}, size=2B)").status is Status.FAILED


@pytest.mark.parametrize(
    ("buffer", "capacity"),
    [("40KiB", 5120), ("128KiB", 16384), ("2MiB", 262144), ("grow", 1 << 40)],
)
def test_collections_by_capacity_are_exact(
    run: Callable[..., Outcome], buffer: str, capacity: int
) -> None:
    count = 40000
    outcome = run(
        f"int main(void) {{ make({count}, 24); drop({count}); return 0; }}",
        f"delay(glibc, size=1GiB, buffer={buffer})",
    )
    details = good(outcome)
    assert details["objects"] == count
    # Full is noticed by the object that finds no place.
    assert details["capacity_collections"] == (count - 1) // capacity
    assert details["exit_collections"] == 1
    assert details["volume_collections"] == 0


@pytest.mark.parametrize("size", ["1B", "1000B", "64KiB"])
def test_the_histogram_has_all_pauses(run: Callable[..., Outcome], size: str) -> None:
    """Also those that stand for others: it agrees with the counts, the sum and the longest."""
    outcome = run(
        "int main(void) { make(90000, 100); drop(90000); return 0; }", f"delay(glibc, size={size})"
    )
    histogram = good(outcome)["pause_histogram"]
    assert all(upper == 2 * lower or (lower, upper) == (0, 16) for lower, upper, _ in histogram)
    assert histogram == sorted(histogram)
    assert sum(count for *_, count in histogram) == pytest.approx(outcome.values["collections"])
    longest = outcome.values["max_pause_seconds"] * 1e9
    assert histogram[-1][0] <= longest < histogram[-1][1]
    least, most = (sum(entry[end] * entry[2] for entry in histogram) / 1e9 for end in (0, 1))
    assert least <= outcome.values["pause_seconds"] <= most
    if size == "64KiB":  # all of these are timed
        assert all(count == int(count) for *_, count in histogram)


def test_metrics_are_published_ones(run: Callable[..., Outcome]) -> None:
    outcome = run("int main(void) { make(9, 9); drop(9); return 0; }", "delay(glibc, size=20B)")
    good(outcome)
    assert set(outcome.values) <= set(METRICS)
    assert {"collections", "volume_collections", "capacity_collections", "pause_seconds",
            "max_pause_seconds", "quarantined_bytes"} <= set(outcome.values)  # fmt: skip


def test_the_time_in_quarantine_is_seen(run: Callable[..., Outcome]) -> None:
    outcome = run(
        "int main(void) { make(64, 100); drop(1); usleep(200000); "
        "for (int i = 1; i < 64; i++) free(objects[i]); return 0; }",
        "delay(glibc, size=1MiB)",
    )
    # The one object in 64 that is sampled is the first, held over the sleep.
    assert good(outcome)["mean_held_seconds"] >= 0.2


@pytest.mark.parametrize(("order", "reused"), [("fifo", "second"), ("lifo", "first")])
def test_order(run: Callable[..., Outcome], tmp_path: Path, order: str, reused: str) -> None:
    source = r"""
    int main(void) {
      void* first = opaque(malloc(100));
      void* second = opaque(malloc(100));
      free(first);
      if (opaque(malloc(100)) == first) return 1; /* it must be held */
      free(second);
      /* glibc hands out last what was freed first */
      void* again = opaque(malloc(100));
      return again == REUSED ? 0 : 2;
    }"""
    outcome = run(source, f"delay(glibc, size=208B, order={order})", flags=[f"-DREUSED={reused}"])
    good(outcome)


def test_all_forms_of_free_are_held(tmp_path: Path) -> None:
    """Each form frees one object; none of them may reach the allocator before the end."""
    source = r"""
    #include <malloc.h>
    #include <cstdlib>
    #include <cstring>
    #include <dlfcn.h>
    #include <new>
    static void* volatile sink;
    static void* opaque(void* p) { sink = p; return sink; }
    struct alignas(64) Wide { char bytes[64]; };
    int main() {
      using Free = void (*)(void*);
      using Sized = void (*)(void*, size_t);
      using Aligned = void (*)(void*, size_t, size_t);
      free(opaque(malloc(10)));
      ((Free)dlsym(RTLD_DEFAULT, "cfree"))(opaque(malloc(10)));
      ((Sized)dlsym(RTLD_DEFAULT, "free_sized"))(opaque(malloc(10)), 10);
      ((Aligned)dlsym(RTLD_DEFAULT, "free_aligned_sized"))(opaque(aligned_alloc(64, 64)), 64, 64);
      ::operator delete(opaque(::operator new(10)));
      ::operator delete[](opaque(::operator new[](10)));
      ::operator delete(opaque(::operator new(10)), (size_t)10);
      ::operator delete[](opaque(::operator new[](10)), (size_t)10);
      ::operator delete(opaque(::operator new(10, std::nothrow)), std::nothrow);
      ::operator delete[](opaque(::operator new[](10, std::nothrow)), std::nothrow);
      const std::align_val_t a{64};
      ::operator delete(opaque(::operator new(10, a)), a);
      ::operator delete[](opaque(::operator new[](10, a)), a);
      ::operator delete(opaque(::operator new(10, a)), (size_t)10, a);
      ::operator delete[](opaque(::operator new[](10, a)), (size_t)10, a);
      ::operator delete(opaque(::operator new(10, a, std::nothrow)), a, std::nothrow);
      ::operator delete[](opaque(::operator new[](10, a, std::nothrow)), a, std::nothrow);
      void* moved = opaque(malloc(10));
      moved = opaque(realloc(moved, 5000));
      moved = opaque(reallocarray(moved, 100, 100));
      free(nullptr);
      free(moved);
      return malloc_usable_size(nullptr) != 0;
    }"""
    for inner in INNERS:
        code = tmp_path / "forms.cpp"
        code.write_text(source)
        path = tmp_path / "forms"
        subprocess.run(
            ["c++", "-std=c++17", "-O1", "-fno-builtin", "-w", "-o", path, code], check=True
        )
        manager = resolve(f"delay({inner}, size=1GiB)")
        # The C++ library frees of its own: what `true` in C++ frees comes off.
        empty = tmp_path / "empty.cpp"
        empty.write_text("#include <new>\nint main() { return ::operator new(1) == nullptr; }")
        nothing = tmp_path / "nothing"
        subprocess.run(["c++", "-O0", "-o", nothing, empty], check=True)
        counts = [
            good(run_once(Program("t", (str(one),)), manager, Limits(20.0), tmp_path))
            for one in (nothing, path)
        ]
        assert counts[1]["objects"] - counts[0]["objects"] == 19, inner
        assert counts[1]["volume_collections"] == 0


@pytest.mark.parametrize(("realloc", "objects"), [("delay", 2), ("pass", 1)])
def test_realloc(run: Callable[..., Outcome], realloc: str, objects: int) -> None:
    source = r"""
    int main(void) {
      char* p = opaque(malloc(100));
      memset(p, 7, 100);
      void* fence = opaque(malloc(100)); /* so that it cannot grow in place */
      char* q = opaque(realloc(p, 3000));
      for (int i = 0; i < 100; i++) if (q[i] != 7) return 1;
      free(q);
      return fence == NULL;
    }"""
    assert good(run(source, f"delay(glibc, size=1GiB, realloc={realloc})"))["objects"] == objects


def test_realloc_keeps_its_meaning(run: Callable[..., Outcome]) -> None:
    source = r"""
    #include <errno.h>
    int main(void) {
      char* p = opaque(realloc(NULL, 10));
      memset(p, 3, 10);
      for (size_t n = 10; n < 3000000; n = n * 3 / 2) {
        p = opaque(realloc(p, n));
        if (malloc_usable_size(p) < n || p[9] != 3) return 1;
      }
      for (size_t n = 3000000; n > 10; n = n * 2 / 3) {
        p = opaque(realloc(p, n));
        if (malloc_usable_size(p) < n || p[9] != 3) return 2;
      }
      errno = 0;
      if (reallocarray(p, (size_t)-1, 2) != NULL || errno != ENOMEM || p[9] != 3) return 3;
      errno = 0;
      if (realloc(p, (size_t)-1 / 2) != NULL || errno != ENOMEM || p[9] != 3) return 4;
      errno = 77;
      free(p);
      return errno == 77 ? 0 : 5;
    }"""
    for size in ("1B", "64KiB", "1GiB"):
        good(run(source, f"delay(glibc, size={size})"))


def test_what_the_layer_stands_for() -> None:
    """malloc_usable_size, among others, stays the allocator's."""
    with native_file(delay.OBJECT).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(table, SymbolTableSection)
        names = {s.name for s in table.iter_symbols() if s.entry.st_shndx != "SHN_UNDEF"}
    operators = {name for name in names if name.startswith(("_Zdl", "_Zda", "_Znw", "_Zna"))}
    assert len(operators) == 20
    assert names - operators - {""} == {
        "free", "cfree", "free_sized", "free_aligned_sized", "realloc", "reallocarray",
        "malloc", "calloc", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc",
        "setrlimit", "setrlimit64", "prlimit", "prlimit64", "tare_layer_held",
    }  # fmt: skip


HELD = r"""
static int waits, ends, seen[100];
static void* hold(void* unused) {
  for (int i = 50; i < 60; i++) free(objects[i]);
  __atomic_store_n(&waits, 1, __ATOMIC_SEQ_CST);
  while (!__atomic_load_n(&ends, __ATOMIC_SEQ_CST)) usleep(1000);
  for (int i = 60; i < 70; i++) free(objects[i]);
  return unused;
}
static void each(void* object, size_t bytes, void* data) {
  *(int*)data += bytes == 104;
  for (int i = 0; i < 100; i++) seen[i] += objects[i] == object;
}
int main(void) {
  void (*visit)(void (*)(void*, size_t, void*), void*) = dlsym(RTLD_DEFAULT, "tare_layer_held");
  make(100, 100);
  pthread_t other;
  if (pthread_create(&other, NULL, hold, NULL)) return 1;
  while (!__atomic_load_n(&waits, __ATOMIC_SEQ_CST)) usleep(1000);
  drop(20);
  int found = 0;
  visit(each, &found);
  __atomic_store_n(&ends, 1, __ATOMIC_SEQ_CST);
  pthread_join(other, NULL);
  for (int i = 0; i < 100; i++)
    if (seen[i] != (EXPECTED && (i < 20 || (i >= 50 && i < 60)))) return 2;
  for (int i = 20; i < 50; i++) free(objects[i]);
  return found < (EXPECTED ? 30 : 0);
}"""


@pytest.mark.parametrize(("size", "expected"), [("1MiB", 1), ("1B", 0)])
@pytest.mark.parametrize("scope", ["thread", "global"])
def test_what_is_held_can_be_seen(
    run: Callable[..., Outcome], scope: str, size: str, expected: int
) -> None:
    """Also what a thread holds that sleeps; it loses nothing by that."""
    manager = f"delay(glibc, size={size}, scope={scope})"
    assert good(run(HELD, manager, flags=[f"-DEXPECTED={expected}"]))["objects"] >= 70


# Poison


USE_AFTER_FREE = r"""
int main(void) {
  char* p = opaque(malloc(100));
  free(p);
  p[WHERE] = 1;
  make(1000, 100);
  drop(1000);
  return 0;
}"""


@pytest.mark.parametrize("where", [0, 1, 99])
@pytest.mark.parametrize("scope", ["thread", "global"])
def test_poison_finds_a_use_after_free(run: Callable[..., Outcome], where: int, scope: str) -> None:
    flags = [f"-DWHERE={where}"]
    outcome = run(
        USE_AFTER_FREE, f"delay(glibc, size=1KiB, scope={scope}, poison=yes)", flags=flags
    )
    assert outcome.status is Status.FAILED
    assert "SIGABRT" in outcome.reason
    assert "use after free: the object of 104 bytes" in outcome.error_tail
    assert f"was written to at byte {where} after it had been freed" in outcome.error_tail
    good(run(USE_AFTER_FREE, "delay(glibc, size=1KiB)", flags=flags))


def test_poison_finds_it_also_at_the_end(run: Callable[..., Outcome]) -> None:
    source = "int main(void) { char* p = opaque(malloc(50)); free(p); p[3] = 0; return 0; }"
    outcome = run(source, "delay(glibc, size=1MiB, poison=yes)")
    assert outcome.status is Status.FAILED
    assert "at byte 3" in outcome.error_tail


# Programs that are hard on it


THREADS = r"""
static void* work(void* unused) {
  void* mine[10];
  for (int i = 0; i < 10; i++) mine[i] = opaque(malloc(100));
  for (int i = 0; i < 10; i++) free(mine[i]);
  return unused;
}
static pthread_key_t key;
static void late(void* p) { free(p); free(opaque(malloc(10))); }
static void* work_and_leave(void* unused) {
  pthread_setspecific(key, opaque(malloc(10)));
  return work(unused);
}
int main(void) {
  pthread_t threads[20];
  pthread_key_create(&key, late);
  for (int round = 0; round < 100; round++) {
    for (int i = 0; i < 20; i++)
      if (pthread_create(&threads[i], NULL, i % 2 ? work : work_and_leave, NULL)) return 1;
    for (int i = 0; i < 20; i++) pthread_join(threads[i], NULL);
  }
  return 0;
}"""


@pytest.mark.parametrize("options", ["size=1B", "size=1KiB", "size=1MiB, scope=global",
                                     "size=1MiB, buffer=40KiB"])  # fmt: skip
@pytest.mark.parametrize("inner", ["glibc", "jemalloc", "mimalloc", "snmalloc", "tcmalloc"])
def test_threads_by_the_thousand(run: Callable[..., Outcome], inner: str, options: str) -> None:
    if inner not in INNERS:
        pytest.skip(f"{inner} is not installed")
    details = good(run(THREADS, f"delay({inner}, {options})"))
    # Two frees of the thread's end, in 1,000 of them, come after the layer has left the thread.
    assert details["objects"] + details["passed_objects"] >= 20000 + 2000
    assert details["objects"] >= 20000
    assert len(details["threads"]) <= 240
    assert sum(slot["threads"] for slot in details["threads"]) in (2000, 2001)


def test_fork(run: Callable[..., Outcome]) -> None:
    source = r"""
    int main(void) {
      make(30, 100);
      drop(10);
      const int child = fork();
      for (int i = 10; i < 20 + (child != 0) * 10; i++) free(objects[i]);
      if (child == 0) exit(0);
      int status;
      return waitpid(child, &status, 0) != child || status != 0;
    }"""
    details = good(run(source, "delay(glibc, size=1GiB)"))
    assert details["processes"] == 2
    # Those held at the fork are released by both.
    assert details["objects"] == 30 + 20
    assert details["exit_collections"] == 2
    (main,) = details["threads"]
    assert main["objects"] == 30


def test_forks_of_forks_beside_threads(run: Callable[..., Outcome]) -> None:
    source = r"""
    static volatile int stop;
    static void* churn(void* unused) {
      while (!stop) free(opaque(malloc(100)));
      return unused;
    }
    int main(void) {
      pthread_t threads[2];
      for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, churn, NULL);
      for (int i = 0; i < 50; i++) {
        const int child = fork();
        if (child == 0) {
          make(2000, 50);
          drop(2000);
          const int grandchild = fork();
          make(2000, 50);
          drop(2000);
          if (grandchild == 0) _exit(0);
          int status;
          exit(waitpid(grandchild, &status, 0) != grandchild || status != 0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) return 1;
      }
      stop = 1;
      for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
      return 0;
    }"""
    for inner in {"glibc", "jemalloc"} & set(INNERS):
        details = good(run(source, f"delay({inner}, size=4KiB)"))
        assert details["processes"] == 101
        assert details["objects"] >= 50 * 2 * 3900


SHORT_OF_MEMORY = r"""
static void limit(void) {
  const struct rlimit bound = {BOUND, BOUND};
  if (setrlimit(RLIMIT_AS, &bound) != 0) exit(3);
}
enum { BLOCKS = 300, BYTES = 1 << 20 };
static void* hold(void* argument) {
  make(BLOCKS, BYTES);
  for (int i = 0; i < BLOCKS; i++) memset(objects[i], 1, 100);
  drop(BLOCKS);
  *(volatile int*)argument = 1;
  for (;;) pause();
}
int main(int count, char** arguments) {
  volatile int held = 0;
  pthread_t other;
  if (count == 1) limit();
  if (THREAD) {
    pthread_create(&other, NULL, hold, (void*)&held);
    while (!held) usleep(1000);
  } else {
    make(BLOCKS, BYTES);
    drop(BLOCKS);
  }
  for (int i = 0; i < BLOCKS; i++)
    if ((objects[i] = opaque(ALLOCATE)) == NULL) return 4;
  put("enough\n");
  _exit(0);
}"""


@pytest.mark.parametrize("thread", [0, 1])
@pytest.mark.parametrize(
    "allocate", ["malloc(BYTES)", "calloc(BYTES, 1)", "realloc(NULL, BYTES)", "memalign(64, BYTES)"]
)
def test_the_quarantine_is_given_back_before_an_allocation_fails(
    run: Callable[..., Outcome], thread: int, allocate: str
) -> None:
    flags = [f"-DTHREAD={thread}", f"-DALLOCATE={allocate}", "-DBOUND=500ul<<20"]
    details = good(run(SHORT_OF_MEMORY, "delay(glibc, size=1GiB)", flags=flags))
    assert details["memory_collections"] >= 1


def test_a_limit_from_the_start(tmp_path: Path, compile_c: Compile) -> None:
    """Here the shell sets it, and the program does not."""
    flags = ["-DTHREAD=1", "-DALLOCATE=malloc(BYTES)", "-DBOUND=0"]
    path = compile_c(PRELUDE + SHORT_OF_MEMORY, *FLAGS, *flags)
    program = Program("t", ("sh", "-c", f"ulimit -v 512000 && exec {path} unlimited"))
    manager = resolve("delay(glibc, size=1GiB)")
    details = good(run_once(program, manager, Limits(60.0), tmp_path))
    assert details["memory_collections"] >= 1


NEW_SHORT_OF_MEMORY = r"""
#include <sys/resource.h>
#include <cstdlib>
#include <new>
int main() {
  const rlimit bound = {600ul << 20, 600ul << 20};
  if (setrlimit(RLIMIT_AS, &bound) != 0) return 3;
  static char* blocks[300];
  for (int round = 0; round < 3; ++round) {
    for (char*& block : blocks) block = static_cast<char*>(::operator new(1 << 20));
    for (char* block : blocks) ::operator delete(block);
  }
  try {
    ::operator new(1ul << 40);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return 5;
}"""


@pytest.mark.parametrize("inner", ["glibc", "jemalloc", "tcmalloc"])
def test_operator_new_is_guarded_too(tmp_path: Path, inner: str) -> None:
    if inner not in INNERS:
        pytest.skip(f"{inner} is not installed")
    (tmp_path / "new.cpp").write_text(NEW_SHORT_OF_MEMORY)
    path = tmp_path / "new"
    subprocess.run(["c++", "-O0", "-w", "-o", path, tmp_path / "new.cpp"], check=True)
    manager = resolve(f"delay({inner}, size=1GiB)")
    details = good(run_once(Program("t", (str(path),)), manager, Limits(60.0), tmp_path))
    assert details["memory_collections"] >= 1


SIGNALS = r"""
enum { MOST = 90000 };
static void* volatile pool[MOST];
static volatile int next, handled;
static void handler(int number) {
  (void)number;
  if (next >= MOST) return;
  void* p = pool[next];
  next = next + 1;
  handled = handled + 1;
  free(p);
}
int main(void) {
  for (int i = 0; i < MOST; i++) pool[i] = malloc(20 + i % 50);
  make(MOST, 40);
  signal(SIGALRM, handler);
  const struct itimerval often = {{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < MOST; i++) {
    free(objects[i]);
    if (i % 64 == 0) raise(SIGALRM);
  }
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  while (next < MOST) handler(0);
  return handled < 1000;
}"""


@pytest.mark.parametrize("options", ["size=1B", "size=300B", "size=64KiB, poison=yes",
                                     "size=1KiB, scope=global"])  # fmt: skip
def test_signal_handlers_may_free(run: Callable[..., Outcome], options: str) -> None:
    """While the program itself is in the midst of a free; none gets lost, none is freed twice."""
    details = good(run(SIGNALS, f"delay(glibc, {options})"))
    assert details["objects"] + details["passed_objects"] == 2 * 90000


def test_libraries_that_come_and_go(run: Callable[..., Outcome], compile_c: Compile) -> None:
    library = compile_c(
        "#include <stdlib.h>\nstatic void* kept;"
        "__attribute__((constructor)) void in(void) { kept = malloc(100); free(malloc(50)); }"
        "__attribute__((destructor)) void out(void) { free(kept); }",
        "-shared", "-fPIC", "-fno-builtin", name="libguest.so",
    )  # fmt: skip
    source = r"""
    int main(int count, char** arguments) {
      for (int i = 0; i < 100; i++) {
        void* library = dlopen(arguments[1], RTLD_NOW);
        if (library == NULL || dlclose(library) != 0) return count;
      }
      return 0;
    }"""
    assert good(run(source, "delay(glibc, size=1KiB)", str(library)))["objects"] >= 200


def test_constructors_and_destructors(run: Callable[..., Outcome], compile_c: Compile) -> None:
    """A library is initialised before the layer is; its frees are held all the same."""
    library = compile_c(
        "#include <stdlib.h>\nvoid* early[100];"
        "__attribute__((constructor)) void in(void)"
        "{ for (int i = 0; i < 100; i++) early[i] = malloc(100);"
        "  for (int i = 0; i < 100; i++) free(early[i]); }"
        "__attribute__((destructor)) void out(void)"
        "{ for (int i = 0; i < 100; i++) free(malloc(100)); }",
        "-shared", "-fPIC", "-fno-builtin", name="libearly.so",
    )  # fmt: skip
    outcome = run(
        "extern void* early[]; int main(void) { return early[0] == NULL; }",
        "delay(glibc, size=1GiB)",
        flags=[str(library)],
    )
    details = good(outcome)
    assert details["objects"] == 100
    assert details["passed_objects"] == 100


@pytest.mark.parametrize(
    ("end", "status"),
    [("_exit(0);", Status.OK), ("abort();", Status.FAILED), ("kill(getpid(), 9);", Status.FAILED)],
)
def test_any_end_leaves_the_counters(
    run: Callable[..., Outcome],
    tmp_path: Path,
    compile_c: Compile,
    end: str,
    status: Status,
) -> None:
    source = "int main(void) { make(1000, 100); drop(1000); " + end + " return 0; }"
    outcome = run(source, "delay(glibc, size=1000B)")
    assert outcome.status is status
    if status is Status.OK:
        assert good(outcome)["objects"] == 1000
    # Without Tare's runner, which keeps nothing of a run that failed.
    folder = tmp_path / "counters"
    folder.mkdir()
    preload = f"{native_file(delay.OBJECT)} {machine_libc()}"
    environment = {
        "LD_PRELOAD": preload, "TARE_DELAY_SIZE": "1000", delay.COUNTERS_VARIABLE: str(folder)
    }  # fmt: skip
    done = subprocess.run([tmp_path / "program"], env=environment, capture_output=True)
    assert done.stdout == done.stderr == b""
    (process,) = layers.read_folder(delay, folder)
    assert sum(slot.objects for slot in process.slots) == 1000


def test_exec_keeps_both_programs(run: Callable[..., Outcome]) -> None:
    source = r"""
    int main(int count, char** arguments) {
      make(100, 100);
      drop(100);
      if (count == 1) execl(arguments[0], arguments[0], "again", NULL);
      return 0;
    }"""
    details = good(run(source, "delay(glibc, size=1000B)"))
    assert details["processes"] == 2
    assert details["objects"] == 200


def test_a_program_may_close_every_descriptor(run: Callable[..., Outcome]) -> None:
    source = r"""
    int main(void) {
      make(100, 100);
      closefrom(0);
      drop(100);
      return 0;
    }"""
    assert good(run(source, "delay(glibc, size=1000B)"))["objects"] == 100


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize(
    "options", ["size=1B", "size=4KiB, poison=yes", "size=64KiB, scope=global, order=lifo",
                "size=1MiB, buffer=40KiB, realloc=pass"],
)  # fmt: skip
def test_real_programs_print_the_same(tmp_path: Path, inner: str, options: str) -> None:
    script = (
        'my %h; $h{$_ % 5000} .= "x$_" for 1 .. 100000;'
        'print length(join("", map { $h{$_} } sort keys %h)), "\\n"'
    )
    programs = [
        Program("perl", ("perl", "-e", script)),
        Program("bash", ("bash", "-c", "for i in 1 2 3; do (echo $i | sed s/1/2/); done | sort")),
        Program("c++", ("sh", "-c", "echo 'int main() { return 0; }' | g++ -x c++ -S -o - -")),
    ]
    for program in programs:
        if shutil.which(program.argv[0]) is None:
            continue
        outputs = []
        for name in ("own", f"delay({inner}, {options})"):
            outcome = run_once(program, resolve(name), Limits(60.0), tmp_path)
            assert outcome.status is Status.OK, (program.name, outcome.reason, outcome.error_tail)
            outputs.append(outcome.output_sha256)
        assert outputs[0] == outputs[1], program.name


# Proof


def test_a_program_with_a_free_of_its_own_does_not_count(run: Callable[..., Outcome]) -> None:
    outcome = run("void free(void* p) { (void)p; } int main(void) { return 0; }", "delay(glibc)")
    assert outcome.status is Status.NOT_LOADED
    assert "free of" in outcome.reason
    assert not outcome.values


def test_another_allocator_behind_the_layer_does_not_count(
    run: Callable[..., Outcome], tmp_path: Path, compile_c: Compile
) -> None:
    """The layer shows what stands behind it, and not what should."""
    claimed = compile_c("int unused;", "-shared", "-fPIC", name="libclaimed.so")
    outcome = run("int main(void) { return 0; }", f"delay({claimed})")
    assert outcome.status is Status.NOT_LOADED
    assert "behind the layer of process" in outcome.reason
    assert "libc.so.6" in outcome.reason


def test_an_allocator_that_tells_no_sizes_is_refused(
    run: Callable[..., Outcome], compile_c: Compile
) -> None:
    """The C library would answer for objects that it does not know."""
    source = (
        "#include <stddef.h>\nstatic char heap[1 << 20]; static size_t used;"
        "void* malloc(size_t n) { used = (used + n + 15) / 16 * 16; return heap + used - n; }"
        "void* calloc(size_t n, size_t m) { return malloc(n * m); }"
        "void* realloc(void* p, size_t n) { return p ? NULL : malloc(n); }"
        "void free(void* p) { (void)p; }"
    )
    mine = compile_c(source, "-shared", "-fPIC", "-fno-builtin", name="libmine.so")
    outcome = run("int main(void) { return 0; }", f"delay({mine})")
    assert outcome.status is Status.FAILED
    assert "libmine.so defines free but not malloc_usable_size" in outcome.error_tail


def process(pid: int = 1, forked: bool = False, uncounted: int = 0) -> delay.Process:
    return delay.Process(pid, forked, ("/inner", "/inner"), uncounted, 0, ())


def test_a_process_that_shows_nothing_spoils_a_run() -> None:
    def serves(path: str) -> bool:
        return path == "/inner"

    assert layers.fault([process(1)], [1], serves) == ""
    assert layers.fault([process(1), process(2, forked=True)], [1], serves) == ""
    assert "process 2" in layers.fault([process(1)], [1, 2], serves)
    assert "process 1" in layers.fault([process(1)], [1, 1], serves)
    assert "process 2" in layers.fault([process(1), process(2, forked=True)], [1, 2], serves)
    assert "/inner" in layers.fault([process(1)], [1], lambda path: path == "/other")


def test_no_metric_without_all_processes() -> None:
    assert delay.values([process()])
    assert delay.values([process(), process(uncounted=1)]) == {}


@pytest.mark.parametrize(
    "content",
    [b"x" * 100, b"x" * 70000, struct.pack("<7Q", 0x33594C4544455254, 1, 1, 241, 0, 0, 0)
     + bytes(4096 - 56 + 240 * 704)],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "1.0"
    path.write_bytes(content)
    with pytest.raises(TareError, match=r"1\.0: not a file of counters"):
        delay.read_process(path)


@pytest.mark.parametrize("length", [0, 100, 4096, 65536])
def test_a_process_killed_as_it_began_is_left_out(tmp_path: Path, length: int) -> None:
    (tmp_path / "1.0").write_bytes(bytes(length))
    assert layers.read_folder(delay, tmp_path) == []


def test_wrong_variables_are_told_of(tmp_path: Path) -> None:
    environment = {"LD_PRELOAD": f"{native_file(delay.OBJECT)} {machine_libc()}"}
    for variable, value in [("SIZE", "0"), ("SIZE", "9" * 30), ("SCOPE", "x"), ("BUFFER", "12")]:
        done = subprocess.run(
            ["true"],
            env=environment | {f"TARE_DELAY_{variable}": value},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode < 0
        assert f"TARE_DELAY_{variable} is '{value}'" in done.stderr


def test_compare_gives_the_metrics(tare: Callable[..., Completed]) -> None:
    done = tare(
        "compare", "-n", "2", "--quiet", "--json", "-", "-m", "glibc", "-m",
        "delay(glibc, size=64KiB)", "--", "perl", "-e", "my @a = map { $_ } 1 .. 10000; print 1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["measurements"]
    found = {row["metric"] for row in rows if row["manager"] == "delay(glibc, size=64KiB)"}
    assert {"collections", "quarantined_bytes", "max_pause_seconds"} <= found
    assert not [r for r in rows if r["manager"] == "glibc" and r["metric"] == "collections"]


# The C++ itself


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_under_sanitizers(tmp_path: Path, sanitizer: str) -> None:
    path = tmp_path / "harness"
    subprocess.run(
        ["c++", "-std=c++20", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all",
         f"-I{SOURCES / 'delay'}", f"-I{SOURCES / 'preload'}", "-pthread",
         "-o", path, HERE / "delay_harness.cpp"],
        check=True,
    )  # fmt: skip
    for threads, objects, seed, size, scope, buffer, poison in [
        (4, 3000, 1, 1, "thread", 0, "no"),
        (4, 3000, 2, 65536, "thread", 0, "yes"),
        (4, 3000, 3, 65536, "global", 4096, "no"),
        (3, 3000, 4, 1, "global", 0, "no"),
        (3, 3000, 5, 1048576, "thread", 4096, "yes"),
    ]:
        words = map(str, (threads, objects, seed, size, scope, buffer, poison))
        done = subprocess.run([path, *words], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr[:4000]


MOST = str(1 << 20)  # objects in quarantine, where its list grows as needed
SANITIZERS = {
    "ASAN_OPTIONS": "alloc_dealloc_mismatch=0",
    "TSAN_OPTIONS": "die_after_fork=0",
}


def sanitized_fuzzer(folder: Path, sanitizer: str) -> Path:
    """The layer and the fuzzer in one program, in which only the fuzzer allocates by the layer."""
    objects = []
    for source in (HERE / "delay_fuzz.cpp", SOURCES / "delay" / "delay.cpp"):
        objects.append(folder / f"{source.stem}.o")
        subprocess.run(
            ["c++", "-std=c++20", "-O1", "-g", f"-fsanitize={sanitizer}",
             "-fno-sanitize-recover=all", "-fno-builtin", "-Wno-use-after-free", "-pthread",
             f"-I{SOURCES / 'delay'}", f"-I{SOURCES / 'preload'}", "-c", "-o", objects[-1], source],
            check=True,
        )  # fmt: skip
    defined = subprocess.run(
        ["nm", "-g", "--defined-only", objects[1]], check=True, capture_output=True, text=True
    )
    lines = [line.split() for line in defined.stdout.splitlines()]
    names = [name for _, kind, name in lines if kind == "T" and "4tare" not in name]
    assert {"malloc", "free", "_ZdlPv"} <= set(names)
    for each in objects:
        subprocess.run(
            ["objcopy", *(f"--redefine-sym={name}=layer_{name}" for name in names), each],
            check=True,
        )
    fuzzer = folder / "fuzzer"
    subprocess.run(
        ["c++", f"-fsanitize={sanitizer}", "-pthread", "-o", fuzzer, *objects], check=True
    )
    return fuzzer


def fuzz_sanitized(fuzzer: Path, seed: int, operations: int) -> None:
    """All ways in which the quarantine is emptied; the model does not know that of scope=global."""
    for threads, size, capacity, realloc, scope in [
        ("1", "65536", MOST, "delay", "thread"),
        ("4", "65536", MOST, "delay", "thread"),
        ("3", "1", MOST, "delay", "thread"),
        ("1", "1048576", "512", "pass", "thread"),
        ("4", "65536", MOST, "delay", "global"),
    ]:
        model = size if scope == "thread" else "0"
        forks = str(int(threads == "1"))
        buffer = "grow" if capacity == MOST else str(8 * int(capacity))
        environment = SANITIZERS | {
            "TARE_DELAY_SIZE": size,
            "TARE_DELAY_SCOPE": scope,
            "TARE_DELAY_REALLOC": realloc,
            "TARE_DELAY_BUFFER": buffer,
        }
        words = (str(seed), str(operations), threads, model, capacity, realloc, forks)
        done = subprocess.run([fuzzer, *words], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr[:4000])


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_random_calls_under_sanitizers(tmp_path: Path, sanitizer: str) -> None:
    fuzz_sanitized(sanitized_fuzzer(tmp_path, sanitizer), seed=1, operations=3000)


@pytest.fixture(scope="session")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzzer") / "fuzzer"
    subprocess.run(
        ["c++", "-std=c++20", "-O1", "-fno-builtin", "-Wno-use-after-free", "-pthread", "-o", path,
         HERE / "delay_fuzz.cpp"],
        check=True,
    )  # fmt: skip
    return path


@pytest.mark.parametrize("inner", INNERS)
def test_random_calls_against_a_model(fuzzer: Path, tmp_path: Path, inner: str) -> None:
    """The model knows to the byte what is held; see also the next test. One thread over dlmalloc:
    with several, objects lose their contents now and then over bare dlmalloc too."""
    for options, words in [
        ("size=64KiB", ("1", "20000", "1", "65536", MOST, "delay", "1")),
        ("size=64KiB, poison=yes", ("2", "20000", "4", "65536", MOST, "delay", "0")),
        ("size=1B", ("3", "20000", "3", "1", MOST, "delay", "0")),
        ("size=1GiB, buffer=40KiB, order=lifo, realloc=pass",
         ("4", "40000", "2", str(1 << 30), "5120", "pass", "0")),
        ("size=64KiB, scope=global", ("5", "20000", "4", "0", MOST, "delay", "0")),
    ]:  # fmt: skip
        seed, operations, threads, *model = words
        if inner == "dlmalloc":
            threads = "1"
        program = Program("fuzz", (str(fuzzer), seed, operations, threads, *model))
        manager = resolve(f"delay({inner}, {options})")
        good(run_once(program, manager, Limits(60.0), tmp_path))


@pytest.mark.parametrize(
    ("options", "size", "capacity"),
    [
        ("size=64KiB", "65600", MOST),
        ("size=1GiB, buffer=40KiB", str(1 << 30), "5121"),
        ("size=64KiB, realloc=pass", "65536", MOST),
    ],
)
def test_a_wrong_model_is_noticed(
    fuzzer: Path, tmp_path: Path, options: str, size: str, capacity: str
) -> None:
    """The fuzzer thinks that objects are held for longer, or more of them, than they are."""
    program = Program("fuzz", (str(fuzzer), "1", "50000", "1", size, capacity, "delay", "0"))
    outcome = run_once(program, resolve(f"delay(glibc, {options})"), Limits(60.0), tmp_path)
    assert "is still in quarantine" in outcome.error_tail


def test_the_manager_is_described() -> None:
    manager = resolve("delay(glibc, size=64KiB)")
    assert isinstance(manager, Manager)
    assert manager.environment["TARE_DELAY_SIZE"] == "65536"
    assert manager.environment["TARE_DELAY_SCOPE"] == "thread"
