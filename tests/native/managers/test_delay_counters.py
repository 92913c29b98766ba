"""What `delay(M, …)` holds, counts and releases, to the byte; and what it finds written to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tare.base.native import native_file
from tare.memory_managers.layers import delay
from tare.memory_managers.manager import resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import METRICS, Status
from tare.records.runs import Limits, Outcome
from tests.native.managers.delay_programs import FLAGS, PRELUDE, delayed_runner, good
from tests.native.managers.layered import INNERS, Compile


@pytest.fixture
def run(tmp_path: Path, compile_c: Compile) -> Callable[..., Outcome]:
    return delayed_runner(tmp_path, compile_c)


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
    details = good(run_once(program, manager, Limits(), tmp_path, kept))
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
            good(run_once(Program("t", (str(one),)), manager, Limits(), tmp_path))
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
        "setrlimit", "setrlimit64", "prlimit", "prlimit64", "pthread_create", "pthread_exit",
        "tare_layer_held",
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
