"""Every allocator that is built on this machine, under small programs that test each member of the
malloc family, and under real programs whose output must be that which they give under glibc.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tare.memory_managers.catalogue import Recipe, load_recipes, object_path

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("c++") is None,
    reason="needs a C and a C++ compiler: apt-get install g++",
)

C_PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                              \
  do {                                                           \
    if (!(what)) {                                               \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

/* Keeps the compiler from removing or foreseeing what is tested. */
static _Thread_local void* volatile sink;
static void* opaque(void* p) { sink = p; return sink; }
static size_t opaque_size(size_t n) { volatile size_t v = n; return v; }

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void basics(void) {
  for (size_t n = 0; n < 70000; n = n < 300 ? n + 1 : n * 5 / 4) {
    unsigned char* p = opaque(malloc(n));
    CHECK(p != NULL);
    CHECK((uintptr_t)p % (n < 16 ? 8 : 16) == 0);
    CHECK(malloc_usable_size(p) >= n);
    memset(p, 0xA5, malloc_usable_size(p));
    free(p);
  }
  CHECK(malloc_usable_size(NULL) == 0);
  free(NULL);
  void* zero = opaque(malloc(0));
  void* other = opaque(malloc(0));
  CHECK(zero == NULL || zero != other);
  free(zero);
  free(other);
  char* copy = opaque(strdup("a string of the C library"));
  CHECK(strcmp(copy, "a string of the C library") == 0);
  free(copy);
}

static void zeroed(void) {
  enum { COUNT = 500 };
  unsigned char* objects[COUNT];
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < COUNT; i++) {
      size_t n = 1 + (size_t)i * 37 % 9000;
      objects[i] = opaque(calloc(n, 1));
      CHECK(objects[i] != NULL);
      for (size_t k = 0; k < n; k++) CHECK(objects[i][k] == 0);
      memset(objects[i], 0xFF, malloc_usable_size(objects[i]));
    }
    for (int i = 0; i < COUNT; i++) free(objects[i]);
  }
  for (int round = 0; round < 3; round++) {
    unsigned char* large = opaque(calloc(1, 5 << 20));
    for (size_t k = 0; k < 5 << 20; k += 1 + (k % 97)) CHECK(large[k] == 0);
    memset(large, 0xFF, 5 << 20);
    free(large);
  }
}

static void growth(void) {
  size_t n = 1;
  unsigned char* p = opaque(malloc(n));
  p[0] = 0;
  while (n < 20u << 20) {
    size_t more = n + n / 2 + 1;
    p = opaque(realloc(p, more));
    CHECK(p != NULL && malloc_usable_size(p) >= more);
    for (size_t k = 0; k < n; k += n < 5000 ? 1 : 101) CHECK(p[k] == (unsigned char)(k * 7));
    for (size_t k = 0; k < more; k++) p[k] = (unsigned char)(k * 7);
    n = more;
  }
  p = opaque(realloc(p, 100));
  for (size_t k = 0; k < 100; k++) CHECK(p[k] == (unsigned char)(k * 7));
  p = opaque(realloc(p, 3));
  for (size_t k = 0; k < 3; k++) CHECK(p[k] == (unsigned char)(k * 7));
  free(p);
  free(opaque(realloc(NULL, 50)));
  char* array = opaque(reallocarray(NULL, 10, 100));
  CHECK(array != NULL && malloc_usable_size(array) >= 1000);
  free(array);
  /* An aligned object may be one that free and realloc must find the start of. */
  unsigned char* aligned = opaque(memalign(256, 300));
  memset(aligned, 7, 300);
  aligned = opaque(realloc(aligned, 90000));
  for (int k = 0; k < 300; k++) CHECK(aligned[k] == 7);
  free(aligned);
}

static void alignment(void) {
  for (size_t a = 8; a <= 32768; a *= 2) {
    for (size_t n = 1; n < 40000; n = n * 3 + 1) {
      void* p[4] = {NULL, NULL, NULL, NULL};
      p[0] = opaque(memalign(a, n));
      p[1] = opaque(aligned_alloc(a, (n + a - 1) / a * a));
      CHECK(posix_memalign(&p[2], a, n) == 0);
      p[3] = opaque(malloc(n));
      for (int i = 0; i < 3; i++) {
        CHECK(p[i] != NULL && (uintptr_t)p[i] % a == 0);
        CHECK(malloc_usable_size(p[i]) >= n);
        memset(p[i], i, n);
      }
      for (int i = 0; i < 4; i++) free(p[i]);
    }
  }
  void* page = opaque(valloc(10));
  void* pages = opaque(pvalloc(10));
  CHECK((uintptr_t)page % 4096 == 0 && (uintptr_t)pages % 4096 == 0);
  CHECK(malloc_usable_size(pages) >= 4096);
  free(page);
  free(pages);
}

static void bad_alignment(void) {
  void* p = NULL;
  CHECK(posix_memalign(&p, 3, 10) == EINVAL);
  CHECK(posix_memalign(&p, 0, 10) == EINVAL);
}

static void resized_aligned(void) {
 const size_t sizes[] = {100, 5000, 70000, 196607, 300000, 1 << 20};
 for (size_t alignment = 32; alignment <= 1 << 16; alignment *= 2)
  for (int i = 0; i < 6; i++)
   for (int grown = 0; grown < 4; grown++) {
    const size_t size = sizes[i], other = (size_t[]){size + 50, 2 * size, size / 2, 17}[grown];
    void* object = NULL;
    if (posix_memalign(&object, alignment, size) != 0) {
     CHECK(alignment > 1 << 15);  // rpmalloc gives no larger ones
     continue;
    }
    memset(object, 7, size);
    char* const moved = realloc(object, other);
    CHECK(moved != NULL && malloc_usable_size(moved) >= other);
    for (size_t at = 0; at < size && at < other; at++) CHECK(moved[at] == 7);
    memset(moved, 9, other);
    free(moved);
   }
}

static void large(void) {
  for (size_t n = 1u << 20; n <= (size_t)1 << 30; n *= 4) {
    char* p = opaque(malloc(n));
    CHECK(p != NULL);
    p[0] = 1;
    p[n - 1] = 2;
    CHECK(p[0] == 1 && p[n - 1] == 2);
    free(p);
  }
}

static void overflow(void) {
  CHECK(opaque(calloc(opaque_size(SIZE_MAX / 2), opaque_size(4))) == NULL);
  CHECK(opaque(reallocarray(NULL, opaque_size(SIZE_MAX / 2), opaque_size(4))) == NULL);
}

static void huge(void) {
  CHECK(opaque(malloc(opaque_size(SIZE_MAX - 4096))) == NULL);
  CHECK(opaque(malloc(opaque_size((size_t)1 << 62))) == NULL);
  char* kept = opaque(malloc(10));
  strcpy(kept, "kept");
  CHECK(opaque(realloc(kept, opaque_size((size_t)1 << 62))) == NULL);
  CHECK(strcmp(kept, "kept") == 0);
  free(kept);
}

static void sets_errno(void) {
  errno = 0;
  sink = calloc(opaque_size(SIZE_MAX / 2), opaque_size(4));
  CHECK(errno == ENOMEM);
  errno = 0;
  sink = malloc(opaque_size(SIZE_MAX - 4096));
  CHECK(errno == ENOMEM);
  errno = 0;
  sink = malloc(opaque_size((size_t)1 << 62));
  CHECK(errno == ENOMEM);
}

/* Room for so much more, whatever the allocator has mapped already. */
static void limit_address_space(size_t bytes) {
  long pages = 0;
  FILE* statm = fopen("/proc/self/statm", "r");
  CHECK(statm != NULL && fscanf(statm, "%ld", &pages) == 1);
  fclose(statm);
  struct rlimit limit = {(rlim_t)pages * 4096 + bytes, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* Memory runs out: NULL, what is live stays as it is, and what is freed can be had again. */
static void out_of_memory(void) {
  enum { BYTES = 400000, MOST = 30000 };
  static char* objects[MOST];
  limit_address_space((size_t)96 << 20);
  int count = 0;
  while (count < MOST && (objects[count] = opaque(malloc(BYTES))) != NULL) {
    objects[count][0] = (char)count;
    objects[count][BYTES - 1] = (char)count;
    count++;
  }
  CHECK(0 < count && count < MOST);
  CHECK(opaque(calloc(opaque_size((size_t)1 << 30), opaque_size(64))) == NULL);
  CHECK(opaque(realloc(objects[0], opaque_size((size_t)1 << 36))) == NULL);
  for (int i = 0; i < count; i++)
    CHECK(objects[i][0] == (char)i && objects[i][BYTES - 1] == (char)i);
  for (int i = 0; i < count; i++) {
    free(objects[i]);
    objects[i] = NULL;
  }
  for (int i = 0; i < count / 2; i++) CHECK((objects[i] = opaque(malloc(BYTES))) != NULL);
}

/* Random sizes, each object marked with its size, freed in random order. */
static void churn(void** slots, int count, int steps, uint32_t* state) {
  for (int i = 0; i < steps; i++) {
    int k = (int)(next_random(state) % (uint32_t)count);
    if (slots[k] != NULL) {
      size_t n = *(size_t*)slots[k];
      CHECK(n == sizeof(size_t) || ((unsigned char*)slots[k])[n - 1] == (unsigned char)n);
      free(slots[k]);
      slots[k] = NULL;
    } else {
      uint32_t r = next_random(state);
      size_t n = sizeof(size_t) + (r % 64 == 0 ? r % 200000 : r % 8 == 0 ? r % 4000 : r % 200);
      unsigned char* p = malloc(n);
      CHECK(p != NULL);
      if (n > sizeof(size_t)) p[n - 1] = (unsigned char)n;
      *(size_t*)p = n;
      slots[k] = p;
    }
  }
}

enum { THREADS = 8, SLOTS = 2000 };
static void* shared[SLOTS];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread void* per_thread;
static pthread_key_t key;

static void* worker(void* argument) {
  uint32_t state = (uint32_t)(uintptr_t)argument;
  /* Reached only from thread-local storage and thread-specific data: a collector must look. */
  per_thread = malloc(100);
  strcpy(per_thread, "thread-local");
  char* specific = malloc(100);
  strcpy(specific, "thread-specific");
  pthread_setspecific(key, specific);
  specific = NULL;
  void** own = calloc(300, sizeof *own);
  for (int round = 0; round < 300; round++) {
    churn(own, 300, 200, &state);
    /* Free what other threads made, and leave them something to free. */
    for (int i = 0; i < 20; i++) {
      int k = (int)(next_random(&state) % SLOTS);
      size_t n = 8 + next_random(&state) % 3000;
      size_t* p = malloc(n);
      *p = n;
      pthread_mutex_lock(&shared_lock);
      void* old = shared[k];
      shared[k] = p;
      pthread_mutex_unlock(&shared_lock);
      if (old != NULL) {
        CHECK(*(size_t*)old <= 3008);
        memset(old, 0xEE, *(size_t*)old);
        free(old);
      }
    }
  }
  CHECK(strcmp(per_thread, "thread-local") == 0);
  CHECK(strcmp(pthread_getspecific(key), "thread-specific") == 0);
  free(per_thread);
  for (int i = 0; i < 300; i++) free(own[i]);
  free(own);
  size_t* result = malloc(64);
  *result = 4711;
  return result;
}

static void threads(void) {
  CHECK(pthread_key_create(&key, free) == 0);
  for (int round = 0; round < 3; round++) {
    pthread_t ids[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
      CHECK(pthread_create(&ids[i], NULL, worker, (void*)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) {
      void* result;
      CHECK(pthread_join(ids[i], &result) == 0);
      CHECK(*(size_t*)result == 4711);
      free(result);
    }
  }
  for (int i = 0; i < SLOTS; i++) free(shared[i]);
}

static void* short_lived(void* argument) {
  (void)argument;
  char* p = malloc(1000);
  memset(p, 1, 1000);
  if (argument != NULL) {
    free(p);
    pthread_exit(malloc(32));
  }
  return p;
}

static void thread_churn(void) {
  for (int i = 0; i < 2000; i++) {
    pthread_t id;
    void* result;
    CHECK(pthread_create(&id, NULL, short_lived, i % 2 ? &id : NULL) == 0);
    CHECK(pthread_join(id, &result) == 0);
    free(result);
  }
  for (int i = 0; i < 200; i++) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, short_lived, NULL) == 0);
    CHECK(pthread_detach(id) == 0);
  }
}

static void forks(void) {
  void* slots[500] = {NULL};
  uint32_t state = 99;
  churn(slots, 500, 20000, &state);
  for (int i = 0; i < 5; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      churn(slots, 500, 20000, &state);
      pthread_t id;
      void* result;
      CHECK(pthread_create(&id, NULL, short_lived, NULL) == 0);
      CHECK(pthread_join(id, &result) == 0);
      free(result);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    churn(slots, 500, 2000, &state);
  }
}

static volatile int stop_churning;
static void* churner(void* argument) {
  void* slots[200] = {NULL};
  uint32_t state = (uint32_t)(uintptr_t)argument;
  while (!stop_churning) churn(slots, 200, 500, &state);
  for (int i = 0; i < 200; i++) free(slots[i]);
  return NULL;
}

/* The child of a fork must find the allocator usable although other threads were in it. */
static void busy_fork(void) {
  pthread_t ids[3];
  for (uintptr_t i = 0; i < 3; i++)
    CHECK(pthread_create(&ids[i], NULL, churner, (void*)(i + 7)) == 0);
  const char* forks = getenv("FORKS");
  for (int i = 0; i < (forks ? atoi(forks) : 40); i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(300);
      void* slots[50] = {NULL};
      uint32_t state = 5;
      churn(slots, 50, 500, &state);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop_churning = 1;
  for (int i = 0; i < 3; i++) CHECK(pthread_join(ids[i], NULL) == 0);
}

static void served(void) {
  const char* names[] = {"malloc", "calloc", "realloc", "free", "memalign", "aligned_alloc",
    "posix_memalign", "valloc", "pvalloc", "malloc_usable_size"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Dl_info info;
    void* symbol = dlsym(RTLD_DEFAULT, names[i]);
    CHECK(symbol != NULL && dladdr(symbol, &info) != 0);
    printf("%s %s\n", names[i], info.dli_fname);
  }
  char line[4096];
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) printf("map %s", line);
  fclose(maps);
}

int main(int argc, char** argv) {
  static const struct { const char* name; void (*run)(void); } tests[] = {
    {"basics", basics}, {"zeroed", zeroed}, {"growth", growth}, {"alignment", alignment},
    {"bad_alignment", bad_alignment}, {"large", large}, {"resized_aligned", resized_aligned},
    {"overflow", overflow}, {"huge", huge},
    {"sets_errno", sets_errno}, {"out_of_memory", out_of_memory},
    {"threads", threads}, {"thread_churn", thread_churn}, {"forks", forks},
    {"busy_fork", busy_fork}, {"served", served},
  };
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (argc == 2 && strcmp(argv[1], tests[i].name) == 0) {
      tests[i].run();
      if (strcmp(argv[1], "served") != 0) puts("done");
      return 0;
    }
  }
  return 2;
}
"""

CPP_PROGRAM = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>
#include <malloc.h>

#define CHECK(what)                                                    \
  do {                                                                 \
    if (!(what)) {                                                     \
      std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what);  \
      std::exit(1);                                                    \
    }                                                                  \
  } while (0)

namespace {

struct alignas(256) Wide { char bytes[300]; };
template <typename T> T* Opaque(T* p) { asm volatile("" : "+r"(p) : : "memory"); return p; }

void Variants() {
  for (std::size_t n = 1; n < 100000; n = n * 3 + 1) {
    ::operator delete(Opaque(::operator new(n)));
    ::operator delete(Opaque(::operator new(n)), n);
    ::operator delete[](Opaque(::operator new[](n)));
    ::operator delete[](Opaque(::operator new[](n)), n);
    ::operator delete(Opaque(::operator new(n, std::nothrow)), std::nothrow);
    ::operator delete[](Opaque(::operator new[](n, std::nothrow)), std::nothrow);
    for (std::size_t a = 16; a <= 8192; a *= 2) {
      const auto align = static_cast<std::align_val_t>(a);
      void* p = Opaque(::operator new(n, align));
      CHECK(reinterpret_cast<std::uintptr_t>(p) % a == 0);
      std::memset(p, 1, n);
      ::operator delete(p, align);
      ::operator delete(Opaque(::operator new(n, align)), n, align);
      ::operator delete[](Opaque(::operator new[](n, align)), align);
      ::operator delete[](Opaque(::operator new[](n, align)), n, align);
      ::operator delete(Opaque(::operator new(n, align, std::nothrow)), align, std::nothrow);
      ::operator delete[](Opaque(::operator new[](n, align, std::nothrow)), align, std::nothrow);
    }
  }
  auto wide = std::make_unique<Wide[]>(10);
  CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 256 == 0);
}

void Containers() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      std::map<std::string, std::shared_ptr<std::string>> map;
      for (int i = 0; i < 20000; ++i) {
        map["key number " + std::to_string((i * 7919 + t) % 5000)] =
            std::make_shared<std::string>(std::size_t(i % 300), 'x');
      }
      CHECK(map.size() == 5000);
      for (const auto& [key, value] : map)
        CHECK(value->find_first_not_of('x') == std::string::npos);
    });
  }
  for (auto& thread : threads) thread.join();
}

void Exceptions() {
  int caught = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      throw std::string(std::size_t(i), 'e');
    } catch (const std::string& text) {
      caught += text.size() == std::size_t(i);
    }
  }
  CHECK(caught == 1000);
}

void Nothrow() {
  volatile std::size_t huge = std::size_t(1) << 62;
  CHECK(Opaque(::operator new(huge, std::nothrow)) == nullptr);
}

void BadAlloc() {
  volatile std::size_t huge = std::size_t(1) << 62;
  bool thrown = false;
  try {
    ::operator delete(Opaque(::operator new(huge)));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
  struct Called {};
  std::set_new_handler([] { throw Called{}; });
  bool called = false;
  try {
    ::operator delete(Opaque(::operator new(huge)));
  } catch (const Called&) {
    called = true;
  }
  CHECK(called);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> tests = {{"variants", Variants},
    {"containers", Containers}, {"exceptions", Exceptions}, {"nothrow", Nothrow},
    {"bad_alloc", BadAlloc}};
  const auto found = tests.find(argc == 2 ? argv[1] : "");
  if (found == tests.end()) return 2;
  found->second();
  std::puts("done");
}
"""

C_CHECKS = (
    *(
        "basics",
        "zeroed",
        "growth",
        "alignment",
        "bad_alignment",
        "large",
        "resized_aligned",
        "overflow",
        "huge",
    ),
    *("sets_errno", "out_of_memory", "threads", "thread_churn", "forks", "busy_fork"),
)
CPP_CHECKS = ("variants", "containers", "exceptions", "nothrow", "bad_alloc")

# What allocators do differently from glibc by their authors' choice, and Tare does not change.
NO_ERRNO = "returns NULL without setting errno when calloc's product overflows"
DEPARTURES = {
    ("dlmalloc", "sets_errno"): NO_ERRNO,
    ("mimalloc", "sets_errno"): NO_ERRNO,
    ("mimalloc2", "sets_errno"): NO_ERRNO,
    ("tcmalloc", "sets_errno"): NO_ERRNO,
    ("rpmalloc", "sets_errno"): NO_ERRNO,
    ("rpmalloc", "bad_alignment"): "posix_memalign takes any alignment",
    ("hoard", "overflow"): "aborts when memory cannot be had",
    ("hoard", "huge"): "aborts when memory cannot be had",
    ("hoard", "sets_errno"): "aborts when memory cannot be had",
    ("hoard", "out_of_memory"): "aborts when memory cannot be had",
    ("hoard", "nothrow"): "aborts when memory cannot be had",
    ("hoard", "bad_alloc"): "aborts when memory cannot be had",
    ("hardened", "out_of_memory"): "keeps the address space of freed large objects for a while",
    ("google-tcmalloc", "bad_alloc"): "ends the program instead of throwing bad_alloc",
    ("rpmalloc", "bad_alloc"): "its operator new returns NULL instead of throwing bad_alloc",
    ("scudo", "bad_alloc"): "its operator new returns NULL instead of throwing bad_alloc",
}
# Classics that by design do not use again what the check frees.
DEPARTURES |= {
    ("obstack", "out_of_memory"): "frees only the newest object",
    ("region", "out_of_memory"): "frees nothing",
}
# Not certain to fail: another thread must hold a lock at the time of the fork, or the collector
# (with free=ignored) must not be due to collect when the system gives no more.
RACES = {
    ("bdwgc", "out_of_memory"): "asks the system before it collects, and then gives up",
}
NOT_TRIED = {
    (name, "busy_fork"): "would take gigabytes: threads allocate for as long as others fork"
    for name in ("obstack", "region", "stacklike")
} | {
    (name, "busy_fork"): "does not guard its locks at a fork: a child waits until it is ended"
    for name in ("google-tcmalloc", "hoard")
}

FAMILY = frozenset(
    [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "malloc_usable_size",
    ]
)
OPTIONAL_FAMILY = frozenset(["reallocarray", "cfree", "free_sized", "free_aligned_sized"])
OPERATOR = re.compile(r"_Z(nw|na|dl|da)")
NEW_AND_DELETE = frozenset(
    [
        "_Znwm",
        "_Znam",
        "_ZnwmRKSt9nothrow_t",
        "_ZnamRKSt9nothrow_t",
        "_ZnwmSt11align_val_t",
        "_ZnamSt11align_val_t",
        "_ZnwmSt11align_val_tRKSt9nothrow_t",
        "_ZnamSt11align_val_tRKSt9nothrow_t",
        "_ZdlPv",
        "_ZdaPv",
        "_ZdlPvm",
        "_ZdaPvm",
        "_ZdlPvSt11align_val_t",
        "_ZdaPvSt11align_val_t",
        "_ZdlPvmSt11align_val_t",
        "_ZdaPvmSt11align_val_t",
    ]
)
OWN_SYMBOLS = {
    "jemalloc": r"mallctl.*|malloc_stats_print|mallocx|dallocx",
    "mimalloc": r"mi_version|mi_process_info|mi_stats_.*|mi_malloc|mi_free|mi_heap_.*",
    "mimalloc2": r"mi_version|mi_process_info|mi_stats_.*|mi_malloc|mi_free|mi_heap_.*",
    "google-tcmalloc": r"MallocExtension_Internal_.*",
    "scudo": r"__scudo_print_stats",
    "rpmalloc": r"pthread_create",
    "hoard": r"pthread_create|pthread_exit",
    "bdwgc": r"GC_(get_\w+|gcollect)|pthread_(create|exit|join|detach|sigmask)|sigprocmask"
    r"|mmap|mmap64|munmap|mremap|mprotect",
}


@dataclass(frozen=True)
class Variant:
    """A manager with options."""

    recipe: Recipe
    options: Mapping[str, str]

    def __str__(self) -> str:
        given = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.recipe.name}({given})" if given else self.recipe.name

    def environment(self) -> dict[str, str]:
        found = object_path(self.recipe)
        if found is None:
            pytest.skip(f"not installed: tare managers install {self.recipe.name}")
        return os.environ | self.recipe.environment(self.options) | {"LD_PRELOAD": str(found)}


def variants() -> list[Variant]:
    """Each manager as it is, and once more for each other choice of an option."""
    found = []
    for recipe in load_recipes().values():
        if recipe.object_file is None:
            continue
        found.append(Variant(recipe, {}))
        found += [
            Variant(recipe, {option.name: choice})
            for option in recipe.options
            for choice in option.choices
            if choice != option.default
        ]
    return found


each_variant = pytest.mark.parametrize("variant", variants(), ids=str)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "family.c").write_text(C_PROGRAM)
    (folder / "operators.cpp").write_text(CPP_PROGRAM)
    common = ["-O1", "-g", "-pthread", "-w"]
    for command in (
        ["cc", *common, "-o", "family", "family.c", "-ldl"],
        ["c++", "-std=c++17", *common, "-o", "operators", "operators.cpp"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    return folder


def expect_departure(request: pytest.FixtureRequest, variant: Variant, check: str) -> None:
    key = (variant.recipe.name, check)
    if key in NOT_TRIED:
        pytest.skip(NOT_TRIED[key])
    reason = DEPARTURES.get(key) or RACES.get(key)
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=key in DEPARTURES))


def run_check(program: Path, check: str, environment: Mapping[str, str]) -> None:
    done = subprocess.run([program, check], env=environment, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")[-2000:]
    assert (done.returncode, done.stdout) == (0, b"done\n"), said


@pytest.mark.parametrize("check", C_CHECKS)
@each_variant
def test_malloc_family(
    variant: Variant, check: str, programs: Path, request: pytest.FixtureRequest
) -> None:
    environment = variant.environment()
    expect_departure(request, variant, check)
    run_check(programs / "family", check, environment)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@each_variant
def test_each_of_many_forks_finds_the_allocator_usable(
    variant: Variant, programs: Path, request: pytest.FixtureRequest
) -> None:
    """A lock that is held at a fork was seen once in some hundred."""
    environment = variant.environment()
    expect_departure(request, variant, "busy_fork")
    run_check(programs / "family", "busy_fork", environment | {"FORKS": "3000"})


@pytest.mark.parametrize("check", CPP_CHECKS)
@each_variant
def test_operators_new_and_delete(
    variant: Variant, check: str, programs: Path, request: pytest.FixtureRequest
) -> None:
    environment = variant.environment()
    expect_departure(request, variant, check)
    run_check(programs / "operators", check, environment)


@pytest.mark.parametrize("check", C_CHECKS)
def test_the_checks_hold_under_glibc(check: str, programs: Path) -> None:
    run_check(programs / "family", check, os.environ)


@pytest.mark.parametrize("check", CPP_CHECKS)
def test_the_operator_checks_hold_under_glibc(check: str, programs: Path) -> None:
    run_check(programs / "operators", check, os.environ)


@each_variant
def test_object_serves_the_whole_family(variant: Variant, programs: Path) -> None:
    environment = variant.environment()
    expected = object_path(variant.recipe)
    assert expected is not None
    said = subprocess.run(
        [programs / "family", "served"], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    served_by = dict(line.split(" ", 1) for line in said if not line.startswith("map "))
    assert served_by == dict.fromkeys(FAMILY, str(expected))
    assert any(line.endswith(str(expected.resolve())) for line in said if line.startswith("map "))


@each_variant
def test_only_intended_symbols_are_exported(variant: Variant) -> None:
    variant.environment()
    recipe = variant.recipe
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(object_path(recipe))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    symbols = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    assert symbols >= FAMILY
    assert symbols >= NEW_AND_DELETE
    if recipe.source is not None and recipe.source.type == "debian":
        return
    own = OWN_SYMBOLS.get(recipe.name, r"(?!)")
    assert [
        symbol
        for symbol in symbols - FAMILY - OPTIONAL_FAMILY
        if not OPERATOR.match(symbol) and not re.fullmatch(own, symbol)
    ] == []


@each_variant
def test_no_cpp_library_is_dragged_into_c_programs(variant: Variant) -> None:
    variant.environment()
    if variant.recipe.source is not None and variant.recipe.source.type == "debian":
        pytest.skip("Debian's own build")
    needed = subprocess.run(
        ["readelf", "-d", str(object_path(variant.recipe))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "libstdc++" not in needed
    assert "libgcc_s" not in needed


PERL = (
    "my %h; for (1..200000) { $h{'k' . ($_ % 5000)} .= 'x' x ($_ % 50) } "
    "print join(',', map { length } @h{sort keys %h})"
)
PYTHON = (
    "import json; d = [{str(i): list(range(i % 50))} for i in range(10000)]; t = json.dumps(d); "
    "print(json.loads(t) == d, len(t), sum(len(v) for e in d for v in e.values()))"
)
SQL = (
    "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n "
    "where i < 30000) insert into t select i * 7919 % 5003, hex(zeroblob(i % 50)) from n; "
    "create index k on t(a); select count(*), sum(length(b)) from t where a < 2500; "
    "select a, group_concat(b) from t group by a order by a limit 100"
)
REAL_PROGRAMS = {
    "ls": ["ls", "-lR", "{input}"],
    "gawk": [
        "gawk",
        "{ for (i = 1; i <= NF; i++) n[$i] = n[$i] NR } END { print length(n) }",
        "{input}/0/0",
    ],
    "sqlite3": ["sqlite3", ":memory:", SQL],
    "sort": ["sort", "-r", "{input}/0/0"],
    "perl": ["perl", "-e", PERL],
    "python": ["/usr/bin/python3", "-c", PYTHON],
    "shell": ["sh", "-c", "for i in 1 2 3; do ls -l {input}/1 | sort | wc -l; done"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thousands of files, of which 0/0 has a megabyte."""
    folder = tmp_path_factory.mktemp("files")
    for i in range(3000):
        (folder / str(i % 50)).mkdir(exist_ok=True)
        (folder / str(i % 50) / str(i)).touch()
    lines = (f"Package: p{i * 7919 % 20011} word{i % 997} {'x' * (i % 60)}\n" for i in range(20000))
    (folder / "0" / "0").write_text("".join(lines))
    return folder


@cache
def said_plainly(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, check=True)


@pytest.mark.parametrize("name", REAL_PROGRAMS)
@each_variant
def test_real_programs_say_the_same(variant: Variant, name: str, files: Path) -> None:
    command = [word.replace("{input}", str(files)) for word in REAL_PROGRAMS[name]]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    environment = variant.environment()
    plain = said_plainly(*command)
    under = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert under.returncode == 0, under.stderr.decode(errors="replace")[-2000:]
    assert under.stdout == plain.stdout
    assert under.stderr == plain.stderr


def test_bdwgc_reclaims_although_free_does_nothing(tmp_path: Path) -> None:
    recipe = load_recipes()["bdwgc"]
    environment = Variant(recipe, {}).environment()
    source = tmp_path / "garbage.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "int main(void) {\n"
        "  for (int i = 0; i < 2000000; i++) {\n"
        "    char *volatile p = malloc(1000); p[0] = 1; free(p);\n"
        "  }\n"
        # ru_maxrss would begin with the peak of this test's own process.
        '  char line[256]; FILE *status = fopen("/proc/self/status", "r");\n'
        "  while (fgets(line, sizeof line, status) != NULL)\n"
        '    if (strncmp(line, "VmHWM:", 6) == 0) printf("%ld\\n", atol(line + 6));\n'
        "}\n"
    )
    program = tmp_path / "garbage"
    subprocess.run(["cc", "-o", program, source], check=True)
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    # 2 GB are allocated.
    assert int(done.stdout) < 100 * 1024


def test_bdwgc_serves_the_constructors_of_libraries_that_allocate_much(tmp_path: Path) -> None:
    """They run before the collector's own."""
    (tmp_path / "library.c").write_text(
        "#include <stdlib.h>\n"
        "static char *kept[4000];\n"
        "__attribute__((constructor)) static void begin(void) {\n"
        "  for (int i = 0; i < 4000; i++) { kept[i] = malloc(1000); kept[i][0] = (char)i; }\n"
        "  free(calloc(1, 1 << 20));\n"
        "}\n"
        "int whole(void) {\n"
        "  int count = 0;\n"
        "  for (int i = 0; i < 4000; i++) count += kept[i][0] == (char)i;\n"
        "  return count;\n"
        "}\n"
    )
    (tmp_path / "program.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "int whole(void);\n"
        "int main(void) {\n"
        "  for (int i = 0; i < 100000; i++) { char *volatile p = malloc(1000); p[0] = 1; }\n"
        '  printf("%d\\n", whole());\n'
        "}\n"
    )
    flags = ("-Wl,-rpath,$ORIGIN", "-L.", "-learly", "-o", "program")
    for words in (("-shared", "-fPIC", "library.c", "-o", "libearly.so"), ("program.c", *flags)):
        subprocess.run(["cc", *words], cwd=tmp_path, check=True)
    environment = Variant(load_recipes()["bdwgc"], {}).environment()
    done = subprocess.run(
        [tmp_path / "program"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "4000\n")


def test_bdwgc_itself_never_calls_what_it_shows_to_programs() -> None:
    """Its sources undefine macros, and a call of the wrapper would leave the collector's signals
    open where the collector means to block all."""
    library = object_path(load_recipes()["bdwgc"])
    assert library is not None
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    called = set(re.findall(r"(?:call|jmp) +[0-9a-f]+ <([^@+>]+)>", code))
    assert "tare_system_sigmask" in called
    assert called.isdisjoint({"pthread_sigmask", "sigprocmask"})
