"""What the collector over any allocator, `marksweep(M, …)`, reclaims, and what it must not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.memory_managers.manager import resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.native.managers.layered import INNERS, Compile
from tests.native.managers.marksweep.sources import (
    LISTS,
    MAIN_INNERS,
    assert_found_everywhere,
    good,
)


@pytest.mark.parametrize("inner", INNERS)
def test_what_is_unreachable_is_swept_and_nothing_else(
    run: Callable[..., Outcome], inner: str
) -> None:
    details = good(run(LISTS, f"marksweep({inner}, every=never)"))
    assert details["collections"] == 1
    assert details["allocated_objects"] >= 80000
    assert 29000 <= details["swept_objects"] <= 30100
    assert 20000 <= details["marked_objects"] <= 21500


def test_metadata_alone(run: Callable[..., Outcome]) -> None:
    source = "int main(void) { churn(100000, 100); return 0; }"
    details = good(run(source, "marksweep(glibc, every=never)"))
    assert details["collections"] == details["swept_objects"] == 0
    assert details["peak_active_pages_bytes"] >= 100000 * 112
    assert details["allocated_bytes"] >= 100000 * 112


def test_each_nth_collection_reclaims(run: Callable[..., Outcome]) -> None:
    source = (
        "int main(void) { for (int i = 0; i < 12; i++) { churn(1000, 100); scrub();"
        " tare_marksweep_collect(); } return 0; }"
    )
    details = good(run(source, "marksweep(glibc, every=never, reclaim=4)"))
    assert (details["collections"], details["reclaiming_collections"]) == (12, 3)
    assert 11000 <= details["swept_objects"] <= 12100
    details = good(run(source, "marksweep(glibc, every=never, reclaim=0)"))
    assert (details["collections"], details["reclaiming_collections"]) == (12, 0)
    assert details["swept_objects"] == 0


def test_the_period_is_kept(run: Callable[..., Outcome]) -> None:
    source = "int main(void) { churn(10000, 1000); return 0; }"
    details = good(run(source, "marksweep(glibc, every=100KiB)"))
    expected = 10000 * 1008 / 102400
    assert expected * 0.97 <= details["collections"] <= expected * 1.03 + 1
    details = good(run(source, "marksweep(glibc)"))
    assert details["collections"] == 2  # 4 MiB at least


def test_a_collection_at_every_allocation(run: Callable[..., Outcome]) -> None:
    source = 'int main(void) { churn(300, 100); puts(opaque(strdup("whole"))); return 0; }'
    details = good(run(source, "marksweep(glibc, every=1B)"))
    assert details["collections"] >= 300


@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_where_pointers_are_found(tmp_path: Path, compile_c: Compile, inner: str) -> None:
    assert_found_everywhere(tmp_path, compile_c, f"marksweep({inner}, every=256KiB)")


QUARANTINE = r"""
static char* volatile dangling;
static int held;
static void count(void* object, size_t bytes, void* data) { held++; }
static int now_held(void) {
  scrub();
  tare_marksweep_collect();
  held = 0;
  tare_layer_held(count, NULL);
  return held;
}
__attribute__((noinline)) static void free_many(void) {
  for (int i = 0; i < 1000; i++) free(malloc(100));
  dangling = memset(malloc(5000), 0x5a, 5000);
  free(dangling);
  free(dangling);
}
int main(void) {
  const int before = now_held();
  free_many();
  const int after = now_held();
  churn(1000, 5000);
  for (int i = 0; i < 5000; i++)
    if (dangling[i] != 0) return 1;
  dangling = NULL;
  const int last = now_held();
  fprintf(stderr, "%d %d %d\n", before, after, last);
  return after - before < 1 || after - before > 20 || last >= after;
}"""


@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_quarantine_waits_for_the_last_pointer(run: Callable[..., Outcome], inner: str) -> None:
    details = good(run(QUARANTINE, f"marksweep({inner}, every=never, free=quarantine)"))
    assert details["bad_frees"] >= 1
    assert 990 <= details["swept_objects"] <= 1100
    assert details["held_bytes"] > 0


DANGLING = r"""
enum { PLACES = 3000, ROUNDS = 200000 };
struct place { size_t hidden, size; int is_freed; };
static char* object(const struct place* place) { return (char*)~place->hidden; }
static unsigned next_random(void) {
  static unsigned state = 12345;
  return (state = state * 1103515245 + 12345) >> 8;
}
/* No object that the program has may lie where a freed one is still pointed to. */
static void check(const struct place* places) {
  for (const struct place* freed = places; freed < places + PLACES; freed++)
    for (const struct place* live = places; freed->is_freed && live < places + PLACES; live++)
      if (live->size != 0 && !live->is_freed && object(live) < object(freed) + freed->size &&
          object(freed) < object(live) + live->size)
        exit(1);
}
int main(void) {
  struct place* const places = calloc(PLACES, sizeof *places);
  char** const pointers = calloc(PLACES, sizeof *pointers);
  for (int round = 0; round < ROUNDS; round++) {
    const int i = next_random() % PLACES;
    struct place* const place = &places[i];
    if (place->size != 0 && !place->is_freed) {
      /* A pointer is left to its start, into its middle or just behind it, or none. */
      const unsigned left = next_random() % 6;
      const size_t into[] = {0, place->size / 2, place->size};
      if (left < 3) pointers[i] = object(place) + into[left];
      place->is_freed = left < 3;
      free(object(place));
      if (left < 3) continue;
    }
    pointers[i] = NULL;
    place->size = 1 + next_random() % (next_random() % 100 ? 600 : 300000);
    place->hidden = ~(size_t)malloc(place->size);
    memset(object(place), 1, place->size);
    place->is_freed = 0;
    if (round % 20000 == 0) check(places);
  }
  check(places);
  return 0;
}"""


@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_no_memory_is_given_out_that_a_freed_object_s_pointers_lead_to(
    run: Callable[..., Outcome], inner: str
) -> None:
    for options in ("every=64KiB", "every=256KiB, markers=3", "every=auto"):
        details = good(run(DANGLING, f"marksweep({inner}, {options}, free=quarantine)"))
        assert details["collections"] >= 10
        assert details["swept_objects"] >= 50_000


def test_the_heap_has_a_limit(run: Callable[..., Outcome]) -> None:
    garbage = "int main(void) { churn(100000, 1000); return 0; }"
    details = good(run(garbage, "marksweep(glibc, every=never, heap=8MiB)"))
    assert details["collections"] >= 100e6 / 9e6
    assert details["peak_active_pages_bytes"] <= (8 << 20) + (1 << 16)
    live = (
        "static void* volatile all[100000];"
        "int main(void) { for (int i = 0; i < 100000; i++) all[i] = malloc(1000); return 0; }"
    )
    outcome = run(live, "marksweep(glibc, heap=8MiB)")
    assert outcome.status is Status.OUT_OF_MEMORY
    assert "the heap of 8388608 bytes is full" in outcome.error_tail


def test_a_failed_allocation_collects_and_is_tried_again(run: Callable[..., Outcome]) -> None:
    source = r"""
    int main(void) {
      const struct rlimit bound = {400ul << 20, 400ul << 20};
      if (setrlimit(RLIMIT_AS, &bound) != 0) return 3;
      for (int i = 0; i < 1000; i++)
        if (opaque(malloc(2 << 20)) == NULL) return 4;
      errno = 0;
      return malloc(1ul << 40) != NULL || errno != ENOMEM;
    }"""
    for inner in MAIN_INNERS[:2]:
        details = good(run(source, f"marksweep({inner}, every=never)"))
        assert details["reclaiming_collections"] >= 4


NO_ROOM = r"""
int main(int count, char** words) {
  const rlim_t bytes = (400ul << 20) + strtoul(words[1], NULL, 10);
  const struct rlimit bound = {bytes, bytes};
  if (setrlimit(RLIMIT_AS, &bound) != 0) return 3;
  for (int i = 0; i < 400; i++)
    if (opaque(malloc(2 << 20)) == NULL) return 4;
  return 0;
}"""


def test_the_first_collection_needs_no_memory(run: Callable[..., Outcome]) -> None:
    """Whatever is left when the first allocation fails: nothing up to the size of an object."""
    for extra in range(0, 2 << 20, 64 << 10):
        good(run(NO_ROOM, "marksweep(glibc, every=never)", str(extra)))


PACKED = r"""
struct __attribute__((packed)) Packed { int number; char* object; };
enum { OBJECTS = 500 };
static _Alignas(8) struct Packed in_static[OBJECTS];
static struct Packed* in_heap;
static char* (*where)(int);
static char* of_static(int i) { return in_static[i].object; }
static char* of_heap(int i) { return in_heap[i].object; }
static char* make(int i) { return memset(malloc(100), 1 + i % 100, 100); }
__attribute__((noinline)) static void fill(int to_heap) {
  for (int i = 0; i < OBJECTS; i++) {
    if (to_heap) in_heap[i].object = make(i);
    else in_static[i].object = make(i);
  }
}
// One word across the end of the first 64 KiB of a large object, which markers share.
static char* large;
__attribute__((noinline)) static void fill_large(void) {
  large = malloc(1 << 20);
  memset(large, 0, 1 << 20);
  for (int at = 1; at <= 15; at++) {
    char* const object = make(at);
    memcpy(large + (at << 16) - 4, &object, 8);
  }
}
static char* of_large(int i) {
  char* object;
  memcpy(&object, large + ((1 + i % 15) << 16) - 4, 8);
  return object;
}
int main(int count, char** words) {
  int lost = 0, objects = OBJECTS;
  if (words[1][0] == 'h') {
    in_heap = calloc(OBJECTS, sizeof *in_heap);
    where = of_heap;
    fill(1);
  } else if (words[1][0] == 'l') {
    where = of_large, objects = 15;
    fill_large();
    churn(10000, 1000);  // of which a second marker is worth it
  } else {
    where = of_static;
    fill(0);
  }
  scrub();
  tare_marksweep_collect();
  churn(30000, 100);
  for (int i = 0; i < objects; i++)
    lost += where(i)[50] != (where == of_large ? 1 + (1 + i % 15) % 100 : 1 + i % 100);
  return lost == 0 ? 0 : 40;
}"""


@pytest.mark.parametrize("place", ["static", "heap", "large"])
def test_pointers_at_multiples_of_four(run: Callable[..., Outcome], place: str) -> None:
    for markers in (1, 3):
        options = f"every=never, markers={markers}"
        good(run(PACKED, f"marksweep(glibc, scan=4, {options})", place))
        lost = run(PACKED, f"marksweep(glibc, {options})", place)
        assert lost.exit_code == 40, lost.reason


GUARDED = r"""
#include <sys/mman.h>
static char* pages(int count) {
  return mmap(NULL, count * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
enum { PAGE = 4096, OBJECTS = 64, INSTALL = 102 };
static _Alignas(PAGE) char in_static[8 * PAGE];
static char *small, *large;
static char** places[4];
static char* stack;
static void* wait_for_end(void* end) {
  char* volatile kept = memset(malloc(100), 7, 100);
  while (!*(volatile int*)end) usleep(100);
  return (void*)(long)(kept[50] != 7);
}
__attribute__((noinline)) static void fill(void) {
  for (int place = 0; place < 3; place++)
    for (int i = 0; i < OBJECTS; i++) places[place][i] = memset(malloc(100), 1 + i, 100);
}
int main(void) {
  if (madvise(pages(1), PAGE, INSTALL) != 0) return 77;
  small = pages(8), large = pages(256), stack = pages(12);
  places[0] = (char**)(in_static + 6 * PAGE);
  places[1] = (char**)(small + 6 * PAGE);
  places[2] = (char**)(large + 200 * PAGE);
  fill();
  if (madvise(in_static + 2 * PAGE, PAGE, INSTALL) | madvise(small + 2 * PAGE, PAGE, INSTALL) |
      madvise(large + 100 * PAGE, 8 * PAGE, INSTALL) | madvise(stack, 2 * PAGE, INSTALL)) return 3;
  static int end;
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstack(&attributes, stack, 12 * PAGE) != 0) return 4;
  if (pthread_create(&thread, &attributes, wait_for_end, &end) != 0) return 5;
  usleep(1000);
  scrub();
  for (int i = 0; i < 3; i++) {
    tare_marksweep_collect();
    churn(5000, 100);
  }
  *(volatile int*)&end = 1;
  void* bad = NULL;
  pthread_join(thread, &bad);
  for (int place = 0; place < 3; place++)
    for (int i = 0; i < OBJECTS; i++)
      if (places[place][i][50] != 1 + i) return 6;
  tare_marksweep_collect();  // the stack is there, and its thread is not
  return bad == NULL ? 0 : 7;
}"""


def test_guard_pages_are_not_read(run: Callable[..., Outcome]) -> None:
    outcome = run(GUARDED, "marksweep(glibc, every=never)")
    if outcome.exit_code == 77:
        pytest.skip("this kernel has no guard pages (MADV_GUARD_INSTALL, Linux 6.13)")
    assert good(outcome)["collections"] == 4


def test_what_is_usable_may_be_used(run: Callable[..., Outcome]) -> None:
    source = r"""
    static char* all[3000];
    int main(void) {
      for (size_t i = 0; i < 3000; i++) {
        const size_t alignment = 8ul << i % 10;
        if (i % 3 == 2) posix_memalign((void**)&all[i], alignment, i);
        else all[i] = i % 3 ? calloc(1, i) : realloc(malloc(i / 2 + 1), i + 1);
        if (i % 3 == 2 && (size_t)all[i] % alignment) return 1;
        if (malloc_usable_size(all[i]) < i) return 2;
        if (i % 3 == 1) for (size_t k = 0; k < i; k++) if (all[i][k]) return 3;
        memset(all[i], i % 251, malloc_usable_size(all[i]));
      }
      tare_marksweep_collect();
      for (size_t i = 0; i < 3000; i++)
        for (size_t k = 0; k < malloc_usable_size(all[i]); k++)
          if ((unsigned char)all[i][k] != i % 251) return 4;
      return 0;
    }"""
    for inner in INNERS:
        for free in ("honour", "ignore"):
            good(run(source, f"marksweep({inner}, free={free}, every=64KiB)"))


CPLUSPLUS = r"""
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>
struct alignas(64) Wide { char bytes[192]; };
int main() {
  for (int i = 0; i < 20000; ++i) {
    std::unique_ptr<int> one(new int(i));
    std::unique_ptr<int[]> many(new int[100]);
    std::unique_ptr<Wide> wide(new Wide);
    std::unique_ptr<Wide[]> wides(new Wide[3]);
    if (reinterpret_cast<std::size_t>(wide.get()) % 64 != 0) return 1;
    ::operator delete(::operator new(10, std::nothrow), std::nothrow);
    if (*one != i) return 2;
  }
  if (new (std::nothrow) char[std::size_t(1) << 50] != nullptr) return 3;
  try {
    std::vector<char> all(std::size_t(1) << 50);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return 4;
}"""


@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_operators_new_and_delete(tmp_path: Path, inner: str) -> None:
    (tmp_path / "new.cpp").write_text(CPLUSPLUS)
    path = tmp_path / "new"
    subprocess.run(["c++", "-O0", "-w", "-o", path, tmp_path / "new.cpp"], check=True)
    for free in ("honour", "ignore"):
        manager = resolve(f"marksweep({inner}, free={free}, every=1MiB)")
        details = good(run_once(Program("t", (str(path),)), manager, Limits(), tmp_path))
        key = "freed_objects" if free == "honour" else "ignored_objects"
        assert details[key] >= 100000
