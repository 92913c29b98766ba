"""The collector over any allocator, `marksweep(M, …)`: what it finds, what it must not take, and
programs that are hard on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.base.native import native_file
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import machine_libc, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.native.managers.layered import INNERS, Compile, output_alone, source_runner
from tests.native.programs import built
from tests.support import SUPPORT

HERE = Path(__file__).parent
MAIN_INNERS = [
    name for name in ("glibc", "jemalloc", "tcmalloc", "mimalloc", "snmalloc") if name in INNERS
]
PRELUDE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern void tare_marksweep_collect(void) __attribute__((weak));
extern void tare_layer_held(void (*)(void*, size_t, void*), void*) __attribute__((weak));
static _Thread_local void* volatile sink;
static void* opaque(void* p) { sink = p; return (void*)sink; }
__attribute__((noinline)) static void scrub(void) {
  volatile char garbage[1 << 16];
  memset((char*)garbage, 0, sizeof garbage);
}
static void churn(int count, size_t bytes) {
  for (int i = 0; i < count; i++) memset(opaque(malloc(bytes)), 0xee, bytes);
  sink = NULL;
}
"""
FLAGS = ("-O1", "-fno-builtin", "-pthread", "-w")


@pytest.fixture
def run(tmp_path: Path, compile_c: Compile) -> Callable[..., Outcome]:
    return source_runner(tmp_path, compile_c, PRELUDE, FLAGS)


def good(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status is Status.OK, (outcome.reason, outcome.error_tail)
    details: dict[str, Any] = outcome.details["marksweep"]
    assert details["uncounted"] == 0
    assert details["false_reclaims"] == 0
    return details


# What is reclaimed, and what is not


LISTS = r"""
typedef struct Node { struct Node* next; long value[4]; } Node;
static Node* volatile kept;
static Node* list(long count) {
  Node* head = NULL;
  for (long i = 0; i < count; i++) {
    Node* node = malloc(sizeof *node);
    *node = (Node){head, {i, i, i, i}};
    head = node;
  }
  return head;
}
__attribute__((noinline)) static void build(void) { kept = list(20000); list(30000); }
int main(void) {
  build();
  scrub();
  tare_marksweep_collect();
  churn(30000, sizeof(Node));
  long sum = 0;
  for (Node* node = kept; node; node = node->next) sum += node->value[3];
  return sum != 20000l * 19999 / 2;
}"""


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


def assert_found_everywhere(folder: Path, compile_c: Compile, manager: str) -> None:
    source = (HERE / "marksweep_places.c").read_text()
    program = compile_c(source, *FLAGS)
    library = compile_c(
        "static char* words[200]; static __thread char* in_tls[200];"
        "char** place(void) { return words; } char** place_in_tls(void) { return in_tls; }",
        "-shared", "-fPIC", name="libplaces.so",
    )  # fmt: skip
    places = re.findall(r'\{"([a-z-]+)", ', source)
    assert len(places) == 26
    for place in places:
        command = (str(program), place, str(library))
        outcome = run_once(Program(place, command), resolve(manager), Limits(), folder)
        assert outcome.status is Status.OK, (place, outcome.reason, outcome.error_tail)


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


# Threads, signals, processes


THREADS = r"""
static void* work(void* argument) {
  char* mine[200] = {0};
  unsigned state = (unsigned)(size_t)argument * 2654435761u + 1;
  for (int i = 0; i < 2000; i++) {
    state = state * 1664525u + 1013904223u;
    const unsigned at = state >> 16 & 127, bytes = 16 + (state >> 8 & 255);
    if (mine[at]) {
      for (int k = 1; k < 16; k++) if (mine[at][k] != (char)at) abort();
      free(mine[at]);
    }
    mine[at] = memset(malloc(bytes), at, bytes);
  }
  return argument;
}
int main(void) {
  for (int wave = 0; wave < 10; wave++) {
    pthread_t threads[30];
    for (long i = 0; i < 30; i++)
      if (pthread_create(&threads[i], NULL, work, (void*)(wave * 30 + i))) return 2;
    for (long i = 0; i < 30; i++) pthread_join(threads[i], NULL);
  }
  return 0;
}"""


@pytest.mark.parametrize("inner", MAIN_INNERS)
@pytest.mark.parametrize(
    "options", ["free=ignore", "free=honour, verify=yes", "free=quarantine, markers=3"]
)
def test_hundreds_of_threads(run: Callable[..., Outcome], inner: str, options: str) -> None:
    details = good(run(THREADS, f"marksweep({inner}, every=512KiB, {options})"))
    assert details["collections"] >= 10
    assert details["allocated_objects"] >= 600000
    assert details["most_threads"] >= 2
    assert details["bad_frees"] <= 300  # snmalloc frees what it made itself


WAITS = r"""
static volatile int stop, interrupted;
static void nothing(int number) { interrupted++; }
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
static void* be_patient(void* argument) {
  const struct timespec little = {0, 60000000};
  for (int round = 0; round < 5; round++) {
    const double begin = now();
    switch ((long)argument) {
      case 0: if (poll(NULL, 0, 60) != 0) abort(); break;
      case 1: if (nanosleep(&little, NULL) != 0) abort(); break;
      case 2: {
        struct epoll_event event;
        const int poller = epoll_create1(0);
        if (epoll_wait(poller, &event, 1, 60) != 0) abort();
        close(poller);
        break;
      }
      case 3: {
        sem_t semaphore;
        struct timespec end;
        sem_init(&semaphore, 0, 0);
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_nsec += 60000000;
        if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
        if (sem_timedwait(&semaphore, &end) != -1 || errno != ETIMEDOUT) abort();
        break;
      }
      case 4: {
        struct timeval time = {0, 60000};
        if (select(0, NULL, NULL, NULL, &time) != 0) abort();
        break;
      }
      case 5: if (clock_nanosleep(CLOCK_MONOTONIC, 0, &little, NULL) != 0) abort(); break;
      case 6: if (pselect(0, NULL, NULL, NULL, &little, NULL) != 0) abort(); break;
      case 7: if (ppoll(NULL, 0, &little, NULL) != 0) abort(); break;
      case 8: {
        sigset_t set;
        sigemptyset(&set);
        if (sigtimedwait(&set, NULL, &little) != -1 || errno != EAGAIN) abort();
        break;
      }
      case 9: if (usleep(60000) != 0) abort(); break;
    }
    if (now() - begin < 0.0595) abort();
  }
  return NULL;
}
static void* sleep_long(void* argument) {
  const struct timespec hour = {3600, 0};
  struct timespec left;
  if (nanosleep(&hour, &left) != -1 || errno != EINTR || left.tv_sec < 3000) abort();
  return NULL;
}
int main(void) {
  pthread_t threads[10], sleeper;
  struct sigaction action = {.sa_handler = nothing};
  sigaction(SIGUSR1, &action, NULL);
  for (long i = 0; i < 10; i++) pthread_create(&threads[i], NULL, be_patient, (void*)i);
  pthread_create(&sleeper, NULL, sleep_long, NULL);
  for (int i = 0; i < 300; i++) churn(20, 1000), tare_marksweep_collect();
  for (long i = 0; i < 10; i++) pthread_join(threads[i], NULL);
  pthread_kill(sleeper, SIGUSR1);
  churn(20, 1000), tare_marksweep_collect();
  pthread_join(sleeper, NULL);
  return interrupted != 1;
}"""


def test_waits_are_not_cut_short(run: Callable[..., Outcome]) -> None:
    """A collection interrupts system calls of other threads, which the program must not see. A
    signal of its own it must see."""
    details = good(run(WAITS, "marksweep(glibc, every=never)"))
    assert details["most_threads"] >= 10


INTERRUPTED = r"""
#include <fcntl.h>
#include <sched.h>
static volatile int sleeper_id, interrupted, ended;
static volatile long rounds;
static void count(int number) { interrupted++; }
static void* sleep_long(void* argument) {
  const struct timespec hour = {3600, 0};
  sleeper_id = gettid();
  while (!ended) {
    if (nanosleep(&hour, NULL) != -1 || errno != EINTR) abort();
    rounds++;
  }
  return NULL;
}
static void await_sleep(void) {
  char path[64], text[300];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", sleeper_id);
  for (;;) {
    const int file = open(path, O_RDONLY);
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    const char* const state = strrchr(text, ')');
    if (state != NULL && state[2] == 'S') return;
    sched_yield();
  }
}
int main(void) {
  pthread_t sleeper;
  signal(SIGUSR1, count);
  pthread_create(&sleeper, NULL, sleep_long, NULL);
  while (!sleeper_id) usleep(100);
  for (int i = 0; i < 1000000; i++) {
    const long before = rounds;
    await_sleep();
    tare_marksweep_collect();
    for (volatile int spin = 0; spin < i % 400 * 20; spin++) {}
    ended = i == 999999;
    pthread_kill(sleeper, SIGUSR1);
    for (int times = 0; rounds == before; times++) {
      usleep(20);
      if (times > 1000000) return 3; /* it sleeps on */
    }
  }
  pthread_join(sleeper, NULL);
  return interrupted != 1000000;
}"""


@pytest.mark.soak
def test_none_of_a_million_signals_right_after_a_stop_is_lost(run: Callable[..., Outcome]) -> None:
    outcome = run(INTERRUPTED, "marksweep(glibc, every=never)", seconds=3600)
    assert good(outcome)["collections"] >= 900_000


WAITS_OF_THE_LIBRARY = """nanosleep sleep clock_nanosleep until pause sigsuspend sigtimedwait
sigwaitinfo poll ppoll select pselect epoll_wait epoll_pwait epoll_pwait2 semop semtimedop sem_wait
sem_timedwait sem_clockwait msgrcv recv_for_a_time""".split()
WAITS_OF_THE_KERNEL = "read accept recv waitid lock".split()


def interrupt(run: Callable[..., Outcome], *arguments: str) -> None:
    source = (SUPPORT / "programs" / "interrupted.c").read_text()
    outcome = run(source, "marksweep(glibc, every=never)", *arguments, seconds=600)
    assert outcome.status is Status.OK, (outcome.reason, outcome.error_tail)
    assert outcome.details["marksweep"]["bad_frees"] == 0


@pytest.mark.parametrize("wait", WAITS_OF_THE_LIBRARY + WAITS_OF_THE_KERNEL)
def test_a_signal_right_after_a_stop_interrupts_too(run: Callable[..., Outcome], wait: str) -> None:
    """At each instruction between the end of the stop and the wait that is begun again."""
    interrupt(run, wait)


@pytest.mark.parametrize("wait", [*WAITS_OF_THE_KERNEL, "sem_wait"])
def test_a_handler_that_asks_for_it_lets_a_call_go_on_after_a_stop(
    run: Callable[..., Outcome], wait: str
) -> None:
    interrupt(run, wait, "restarts")


CANCELLED = r"""
static volatile int stop;
static void* sleep_long(void* argument) {
  const struct timespec hour = {3600, 0};
  nanosleep(&hour, NULL);
  abort();
}
int main(void) {
  for (int i = 0; i < 200; i++) {
    pthread_t sleeper;
    void* result;
    pthread_create(&sleeper, NULL, sleep_long, NULL);
    for (int j = 0; j < i % 4; j++) usleep(50), tare_marksweep_collect();
    pthread_cancel(sleeper);
    if (pthread_join(sleeper, &result) != 0 || result != PTHREAD_CANCELED) return 1;
  }
  return 0;
}"""


def test_a_wait_that_is_begun_again_can_be_cancelled(run: Callable[..., Outcome]) -> None:
    good(run(CANCELLED, "marksweep(glibc, every=never)"))


MAPPINGS = r"""
#include <sys/mman.h>
#define PLACES 20000
#define PAGE 4096
static char* first;
int main(void) {
  first = mmap(NULL, 2l * PLACES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long i = 0; i < PLACES; i++) {
    void** const page = mmap(first + 2 * i * PAGE, PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (page == MAP_FAILED) return 2;
    *page = malloc(40);
    memset(*page, 1 + i % 100, 40);
    mprotect(page, PAGE, PROT_READ);
  }
  scrub();
  tare_marksweep_collect();
  churn(2 * PLACES, 40);
  for (long i = 0; i < PLACES; i++)
    if (**(char**)(first + 2 * i * PAGE) != 1 + i % 100) return 1;
  return 0;
}"""


def test_pointers_in_thousands_of_mappings_that_can_only_be_read(
    run: Callable[..., Outcome],
) -> None:
    """The collector's own list of them grows while it goes through them."""
    details = good(run(MAPPINGS, "marksweep(glibc, every=never)"))
    assert details["collections"] == 1
    assert details["marked_objects"] >= 20000


HANDLERS = r"""
static volatile int simple, full, value;
static void handle(int number) { simple += number == SIGUSR1; }
static void other(int number) { simple += 100; }
static void handle_fully(int number, siginfo_t* information, void* where) {
  full += number == SIGUSR2 && where != NULL;
  value = information->si_value.sival_int;
}
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)
int main(void) {
  struct sigaction was;
  struct sigaction simply = {.sa_handler = handle, .sa_flags = SA_RESTART};
  struct sigaction fully = {.sa_sigaction = handle_fully, .sa_flags = SA_SIGINFO | SA_RESETHAND};
  sigaddset(&simply.sa_mask, SIGUSR2);
  CHECK(sigaction(SIGUSR1, NULL, &was) == 0 && was.sa_handler == SIG_DFL);
  CHECK(sigaction(SIGUSR1, &simply, NULL) == 0);
  CHECK(raise(SIGUSR1) == 0 && simple == 1);
  CHECK(sigaction(SIGUSR1, NULL, &was) == 0 && was.sa_handler == handle);
  CHECK((was.sa_flags & SA_RESTART) && !(was.sa_flags & SA_SIGINFO));
  CHECK(sigismember(&was.sa_mask, SIGUSR2) == 1);
  CHECK(sigaction(SIGUSR2, &fully, NULL) == 0);
  CHECK(sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 42}) == 0);
  CHECK(full == 1 && value == 42);
  CHECK(sigaction(SIGUSR2, NULL, &was) == 0 && was.sa_handler == SIG_DFL);
  CHECK(signal(SIGUSR1, other) == handle);
  CHECK(raise(SIGUSR1) == 0 && simple == 101);
  CHECK(signal(SIGUSR1, SIG_IGN) == other);
  CHECK(raise(SIGUSR1) == 0 && simple == 101);
  CHECK(signal(SIGUSR1, handle) == SIG_IGN);
  CHECK(sigaction(SIGUSR1, &was, &was) == 0 && was.sa_handler == handle);
  CHECK(signal(SIGKILL, handle) == SIG_ERR && errno == EINVAL);
  CHECK(sigaction(1000, &simply, NULL) == -1 && errno == EINVAL);
  CHECK(sigset(SIGUSR1, handle) == SIG_DFL && sigset(SIGUSR1, SIG_HOLD) == handle);
  const int child = fork();
  if (child == 0) return signal(SIGUSR1, SIG_DFL) == handle ? 0 : 1;
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  return 0;
}"""


def test_handlers_are_those_that_the_program_set(run: Callable[..., Outcome]) -> None:
    good(run(HANDLERS, "marksweep(glibc, every=never)"))


def test_threads_that_block_all_signals(run: Callable[..., Outcome]) -> None:
    source = r"""
    static volatile int ready, stop;
    static void* spin(void* argument) {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, NULL);
      char* mine = memset(malloc(100), 7, 100);
      ready = 1;
      while (!stop) {}
      if (mine[50] != 7) abort();
      return NULL;
    }
    int main(void) {
      pthread_t thread;
      pthread_create(&thread, NULL, spin, NULL);
      while (!ready) usleep(100);
      for (int i = 0; i < 10; i++) churn(1000, 100), tare_marksweep_collect();
      stop = 1;
      return pthread_join(thread, NULL);
    }"""
    assert good(run(source, "marksweep(glibc, every=never)"))["collections"] == 10


def test_what_the_c_library_does_with_its_signal(run: Callable[..., Outcome]) -> None:
    """setuid stops all threads by the signal that the collector takes; a cancelled thread, and a
    timer's own thread, are signalled as well."""
    source = r"""
    static volatile int stop, ticks;
    static void tick(union sigval value) { ticks++; }
    static void* work(void* argument) {
      while (!stop) churn(100, 100);
      return NULL;
    }
    static void* doze(void* argument) {
      for (;;) pause();
    }
    int main(void) {
      pthread_t threads[3], dozer;
      for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, NULL);
      pthread_create(&dozer, NULL, doze, NULL);
      timer_t timer;
      struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tick};
      const struct itimerspec often = {{0, 2000000}, {0, 2000000}};
      timer_create(CLOCK_MONOTONIC, &event, &timer);
      timer_settime(timer, 0, &often, NULL);
      for (int i = 0; i < 200; i++) if (setuid(getuid()) != 0) return 1;
      pthread_cancel(dozer);
      void* result = NULL;
      pthread_join(dozer, &result);
      while (ticks < 5) usleep(1000);
      stop = 1;
      for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
      return result != PTHREAD_CANCELED;
    }"""
    assert good(run(source, "marksweep(glibc, every=64KiB)"))["collections"] >= 10


def test_the_first_thread_may_end_first(run: Callable[..., Outcome]) -> None:
    source = r"""
    static void* work(void* argument) {
      for (int i = 0; i < 20; i++) churn(1000, 100), tare_marksweep_collect();
      _exit(0);
    }
    int main(void) {
      pthread_t thread;
      pthread_create(&thread, NULL, work, NULL);
      pthread_exit(NULL);
    }"""
    assert good(run(source, "marksweep(glibc, every=never)"))["collections"] == 20


def test_forks(run: Callable[..., Outcome]) -> None:
    source = r"""
    extern char** environ;
    extern pid_t _Fork(void);
    static volatile int stop;
    static char* volatile kept;
    static void* work(void* argument) {
      while (!stop) churn(100, 100);
      return NULL;
    }
    static void child(void) {
      churn(20000, 100);
      tare_marksweep_collect();
      _exit(strcmp(kept, "kept by all") != 0);
    }
    int main(int count, char** arguments) {
      kept = strdup("kept by all");
      pthread_t threads[2];
      for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, NULL);
      for (int i = 0; i < 20; i++) {
        pid_t id;
        char* words[] = {"true", NULL};
        if (i % 4 == 0 && (id = fork()) == 0) child();
        // glibc puts none of its locks and lists in order here: such a child may not allocate.
        if (i % 4 == 1 && (id = BARE_FORK()) == 0) _exit(strcmp(kept, "kept by all") != 0);
        if (i % 4 == 2 && (id = vfork()) == 0) _exit(execvp("true", words));
        if (i % 4 == 3 && posix_spawnp(&id, "true", NULL, NULL, words, environ) != 0) return 3;
        int status = 1;
        if (waitpid(id, &status, 0) != id || status != 0) return 1;
        churn(1000, 100);
      }
      stop = 1;
      for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
      return 0;
    }"""
    for inner in ("glibc", "jemalloc"):
        if inner in INNERS:
            # jemalloc's locks are freed in a child by handlers that _Fork does not call.
            bare = "_Fork" if inner == "glibc" else "fork"
            manager = f"marksweep({inner}, every=128KiB)"
            details = good(run(source, manager, flags=[f"-DBARE_FORK={bare}"]))
            assert details["processes"] == 21


LONG_OBJECTS = "churn(100, 100); churn(10, 20000);"
MAPPED_OBJECTS = "churn(4, 200000);"
COLLECTIONS = "tare_marksweep_collect();"


# snmalloc's own children can wait for a lock that another thread held, with the layer and without.
@pytest.mark.parametrize("inner", [name for name in MAIN_INNERS if name != "snmalloc"])
@pytest.mark.parametrize("work", [LONG_OBJECTS, MAPPED_OBJECTS, COLLECTIONS])
def test_children_of_busy_threads(run: Callable[..., Outcome], inner: str, work: str) -> None:
    """A fork comes in the midst of what other threads are at, and has its turn beside them."""
    source = r"""
    static volatile int stop;
    static void* work(void* argument) {
      while (!stop) { WORK }
      return NULL;
    }
    int main(void) {
      pthread_t threads[2];
      for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, NULL);
      for (int i = 0; i < 20; i++) {
        pid_t id = fork();
        if (id == 0) {
          churn(100, 1000);
          tare_marksweep_collect();
          _exit(0);
        }
        int status = 1;
        if (waitpid(id, &status, 0) != id || status != 0) return 1;
      }
      stop = 1;
      for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
      return 0;
    }"""
    details = good(run(source.replace("WORK", work), f"marksweep({inner}, every=1MiB)"))
    assert details["processes"] == 21


def test_signal_handlers_may_allocate(run: Callable[..., Outcome]) -> None:
    """Where the program itself does not: the bare allocator asks for that too."""
    source = r"""
    static volatile int handled;
    static void handler(int number) { handled++; churn(10, 100); }
    int main(void) {
      signal(SIGALRM, handler);
      for (int i = 0; i < 500; i++) { raise(SIGALRM); churn(20, 100); }
      return handled != 500;
    }"""
    good(run(source, "marksweep(glibc, every=4KiB)"))


def test_little_address_space(tmp_path: Path) -> None:
    script = "print length(join('', map { 'x' x ($_ % 50) } 1 .. 200000))"
    words = ("sh", "-c", 'ulimit -v 400000; exec "$@"', "sh", "perl", "-e", script)
    program = Program("t", words)
    outcome = run_once(program, resolve("marksweep(glibc, every=1MiB)"), Limits(), tmp_path)
    assert good(outcome)["collections"] >= 5


def test_any_end_leaves_the_counters(tmp_path: Path, compile_c: Compile) -> None:
    source = PRELUDE + (
        "int main(int count, char** arguments) { churn(1000, 100); tare_marksweep_collect();"
        " if (count == 2) _exit(0); if (count == 3) abort(); return kill(getpid(), 9); }"
    )
    path = compile_c(source, *FLAGS)
    for end in range(3):
        folder = tmp_path / str(end)
        folder.mkdir()
        environment = {
            "LD_PRELOAD": f"{native_file(marksweep.OBJECT)} {machine_libc()}",
            "TARE_MARKSWEEP_EVERY": "18446744073709551615",
            marksweep.COUNTERS_VARIABLE: str(folder),
        }
        words = [str(path), *(["again"] * (end + 1))][: 1 if end == 2 else end + 2]
        subprocess.run(words, env=environment, capture_output=True)
        (file,) = folder.iterdir()
        process = marksweep.read_process(file)
        assert process is not None
        assert process.counts.allocated_objects >= 1000
        assert process.counts.swept_objects >= 990
        assert process.counts.collections == len(process.collections) == 1
        (one,) = process.collections
        assert one["end"] - one["begin"] == process.counts.pause_nanoseconds > 0


def test_markers_find_the_same(run: Callable[..., Outcome]) -> None:
    """Among many objects, so that helpers begin; by one marker and by four."""
    source = r"""
    static void** volatile all;
    int main(void) {
      all = calloc(100000, sizeof *all);
      unsigned state = 1;
      for (int i = 0; i < 100000; i++) {
        void** object = calloc(1, 16 + i % 100);
        state = state * 1664525u + 1013904223u;
        object[0] = i ? all[(state >> 8) % i] : NULL;
        all[i] = object;
      }
      for (int i = 1; i < 100000; i++) if (i % 10) all[i] = NULL;
      scrub();
      for (int i = 0; i < 3; i++) tare_marksweep_collect();
      return 0;
    }"""
    found = {
        markers: good(run(source, f"marksweep(glibc, every=never, markers={markers})"))
        for markers in (1, 4)
    }
    assert abs(found[1]["marked_objects"] - found[4]["marked_objects"]) <= 30
    assert abs(found[1]["swept_objects"] - found[4]["swept_objects"]) <= 30
    assert found[1]["swept_objects"] >= 10000


# Real programs


def programs(folder: Path) -> list[Program]:
    """Those that are installed."""
    (folder / "sum.bc").write_text("for (i = 0; i < 1500; i++) a[i % 50] = i ^ 40\na[7]\nquit\n")
    (folder / "x.ii").write_text(
        "template <int N> struct S { static int f() { return S<N - 1>::f() + N; } };"
        "template <> struct S<0> { static int f() { return 0; } };"
        "int main() { return S<200>::f(); }"
    )
    compiler = subprocess.run(
        ["gcc", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True
    ).stdout.strip()
    commands: dict[str, tuple[str, ...]] = {
        "gawk": (
            "gawk",
            "BEGIN { for (i = 0; i < 60000; i++) { a[i % 2000] = i a[i * 7 % 2000];"
            ' if (length(a[i % 2000]) > 99) a[i % 2000] = "" } for (k in a) n += length(a[k]);'
            " print length(a), n }",
        ),
        "perl": (
            "perl", "-e",
            'my %h; $h{$_ % 2000} .= "x$_" for 1 .. 60000;'
            "my @l = map { [$_, $h{$_}] } sort keys %h; print scalar(@l), length($l[7][1])",
        ),
        "lua": (
            "lua5.4", "-e",
            "local t = {} for i = 1, 60000 do t[i % 900] = {tostring(i)} end print(#t, t[7][1])",
        ),
        "bc": ("bc", "-q", str(folder / "sum.bc")),
        "sqlite3": (
            "sqlite3", ":memory:",
            "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c"
            " where x<9000) insert into t select x,hex(x) from c; create index i on t(b);"
            " select sum(length(b)) from t;",
        ),
        "cc1plus": (compiler, "-quiet", "-O1", "-fpreprocessed", str(folder / "x.ii"), "-o", "-"),
    }  # fmt: skip
    return [Program(name, argv) for name, argv in commands.items() if shutil.which(argv[0])]


PRINTED_ALONE: dict[str, str | None] = {}


@pytest.mark.parametrize("inner", MAIN_INNERS)
@pytest.mark.parametrize("free", ["ignore", "honour", "quarantine"])
def test_real_programs_print_the_same(tmp_path: Path, inner: str, free: str) -> None:
    for program in programs(tmp_path):
        alone = output_alone(program, tmp_path, PRINTED_ALONE)
        manager = resolve(f"marksweep({inner}, every=512KiB, free={free})")
        outcome = run_once(program, manager, Limits(), tmp_path)
        assert good(outcome)["collections"] >= 1, program.name
        assert outcome.output_sha256 == alone, program.name


@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_nothing_that_is_used_again_was_found_dead(tmp_path: Path, inner: str) -> None:
    """The oracle: what would be reclaimed is only condemned, and each later free of it counts."""
    for program in programs(tmp_path):
        for free in ("ignore", "honour"):
            manager = resolve(f"marksweep({inner}, every=256KiB, free={free}, verify=yes)")
            details = good(run_once(program, manager, Limits(), tmp_path))
            assert details["false_reclaims"] == 0, program.name
            if free == "ignore":
                assert details["swept_objects"] > 0, program.name


def test_the_oracle_sees_what_it_should(run: Callable[..., Outcome]) -> None:
    source = r"""
    static size_t hidden;
    __attribute__((noinline)) static void hide(void) { hidden = ~(size_t)strdup("hidden"); }
    int main(void) {
      hide();
      scrub();
      tare_marksweep_collect();
      free((void*)~hidden);
      return 0;
    }"""
    outcome = run(source, "marksweep(glibc, every=never, verify=yes)")
    assert outcome.details["marksweep"]["false_reclaims"] == 1


# The object, and the C++ itself


def test_wrong_variables_are_told_of(tmp_path: Path) -> None:
    preload = f"{native_file(marksweep.OBJECT)} {machine_libc()}"
    for variable, value in [("EVERY", "x"), ("FREE", "no"), ("MARKERS", "17"), ("VERIFY", "1")]:
        done = subprocess.run(
            ["true"],
            env={"LD_PRELOAD": preload, f"TARE_MARKSWEEP_{variable}": value},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode < 0
        assert f"TARE_MARKSWEEP_{variable} is '{value}'" in done.stderr


def test_the_object_needs_no_c_plus_plus() -> None:
    done = subprocess.run(
        ["readelf", "-d", native_file(marksweep.OBJECT)], capture_output=True, text=True, check=True
    )
    assert re.findall(r"NEEDED.*\[(.*?)\]", done.stdout) in (
        ["libc.so.6"],
        ["libc.so.6", "ld-linux-x86-64.so.2"],
    )


@pytest.mark.parametrize("kind", ["memory", "thread"])
def test_tables_and_markers_against_a_model(kind: str) -> None:
    path = built(f"marksweep_harness_{kind}")
    rounds = os.environ.get("TARE_FUZZ_ROUNDS", "5")
    for seed in range(1, 5):
        done = subprocess.run([path, str(seed), rounds], capture_output=True, text=True)
        assert done.returncode == 0, (seed, done.stdout + done.stderr[:4000])
