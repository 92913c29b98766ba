"""Programs for tests of the recorder, and what runs them under it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tare.base.native import native_file
from tare.heap_traces.invariants import violations
from tare.heap_traces.trace import Trace, open_trace
from tare.memory_managers.manager import resolve
from tare.observers import asked, recorder, tracing
from tare.programs.program import Program
from tare.records.runs import Limits, Outcome

FAMILY = """
#include <malloc.h>
#include <new>
#include <stdlib.h>
struct alignas(128) Wide { char bytes[1280]; };
int main() {
  void *made[] = {malloc(1001), calloc(3, 334), realloc(nullptr, 1003), memalign(64, 1004),
                  aligned_alloc(4096, 1005), valloc(1006), reallocarray(nullptr, 53, 19),
                  operator new(1008), operator new[](1009), operator new(1010, std::nothrow),
                  operator new[](1011, std::nothrow)};
  void *aligned = nullptr;
  if (posix_memalign(&aligned, 256, 1012) != 0) return 1;
  made[0] = realloc(made[0], 90001);
  for (int i = 0; i < 7; ++i) free(made[i]);
  for (int i = 7; i < 11; ++i) operator delete(made[i]);
  free(aligned);
  delete new Wide;
  delete[] new Wide[2];
  const size_t huge = size_t{1} << 62;
  return malloc(huge) == nullptr && calloc(huge, 8) == nullptr ? 0 : 3;
}
"""
CHURN = """
#include <cstdint>
#include <map>
#include <string>
int main() {
  std::map<std::uint32_t, std::string> live;
  std::uint32_t random = 1;
  for (int i = 0; i < 20000; ++i) {
    random = random * 1664525u + 1013904223u;
    live[random >> 12] = std::string(20 + (random >> 12 & 31), 'x');
    if (live.size() > 1000) live.erase(live.begin());
  }
  return live.size() == 1000 ? 0 : 1;
}
"""
HANDED_OVER = """
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
enum { PAIRS = 4, OBJECTS = 20000, PLACES = 64 };
static _Atomic(void *) places[PAIRS][PLACES];
static void *make(void *which) {
  for (int i = 0; i < OBJECTS; ++i) {
    _Atomic(void *) *place = &places[(long)which][i % PLACES];
    void *object = malloc(48);
    void *empty = 0;
    while (!atomic_compare_exchange_weak(place, &empty, object)) empty = 0;
  }
  return 0;
}
static void *take(void *which) {
  for (int i = 0; i < OBJECTS; ++i) {
    _Atomic(void *) *place = &places[(long)which][i % PLACES];
    void *object;
    while ((object = atomic_exchange(place, 0)) == 0) {}
    free(object);
  }
  return 0;
}
int main(void) {
  pthread_t threads[2 * PAIRS];
  for (long i = 0; i < PAIRS; ++i) {
    pthread_create(&threads[2 * i], 0, make, (void *)i);
    pthread_create(&threads[2 * i + 1], 0, take, (void *)i);
  }
  for (int i = 0; i < 2 * PAIRS; ++i) pthread_join(threads[i], 0);
  return 0;
}
"""
ENDS = """
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void *work(void *count) {
  for (long each = 0; each < (long)count; ++each) {
    char *volatile object = malloc(1001);
    object[0] = 1;
    if (each % 2) free(object);
  }
  return count;
}
int main(int count, char **words) {
  work((void *)1000);
  switch (words[1][0]) {
    case 't':
      for (int each = 0; each < 300; ++each) {
        pthread_t thread;
        pthread_create(&thread, 0, work, (void *)20);
        pthread_join(thread, 0);
      }
      break;
    case 'f':
      if (fork() == 0) {
        work((void *)500);
        _exit(0);
      }
      wait(0);
      work((void *)100);
      break;
    case 'c':  // a fork that the C library does not know of
      if (syscall(SYS_fork) == 0) {
        work((void *)500);
        _exit(0);
      }
      wait(0);
      break;
    case 'v':
      if (vfork() == 0) _exit(0);
      wait(0);
      work((void *)100);
      break;
    case 's': {
      char *child[] = {words[0], "x", 0};
      pid_t pid;
      if (posix_spawn(&pid, words[0], 0, 0, child, environ) != 0) return 1;
      waitpid(pid, 0, 0);
      break;
    }
    case 'e': execl(words[0], words[0], "x", (char *)0);
    case 'a': abort();
    case 'k': kill(getpid(), SIGKILL);
    case '_': _exit(0);
  }
  return 0;
}
"""
STACKS = """
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <alloca.h>
#include <execinfo.h>
#include <functional>
#include <thread>
#include <vector>
static FILE *out;
static thread_local int number;
// The stack by the C library's own unwinder, then an object of a size that tells which it is.
__attribute__((noinline)) static void mark(int base) {
  void *frames[512];
  const int size = base + number++;
  const int depth = backtrace(frames, 512);
  fprintf(out, "%d", size);
  for (int i = 1; i < depth; ++i) fprintf(out, " %lu", (unsigned long)frames[i]);
  fprintf(out, "\\n");
  void *volatile object = malloc(size);
  free(object);
  object = nullptr;  // so that free is no jump
}
__attribute__((noinline)) static int grows(int base, int n) {
  volatile char *room = (char *)alloca(16 * n + 1);
  room[0] = (char)n;
  mark(base);
  return n > 0 ? grows(base, n - 1) + room[0] : 0;
}
__attribute__((noinline, force_align_arg_pointer)) static int aligns(int base, int n) {
  alignas(64) volatile char room[128];
  room[n] = 1;
  mark(base);
  return n > 0 ? aligns(base, n - 1) + room[n] : 0;
}
static void throws(int base, int n) {
  mark(base);
  if (n == 0) throw n;
  throws(base, n - 1);
}
static void work(int base) {
  for (int i = 0; i < 30; ++i) {
    grows(base, i % 13);
    aligns(base, i % 7);
    try {
      throws(base, i % 5);
    } catch (int) {
      mark(base);
    }
    std::vector<int> some{3, 1, 2, 5, 4};
    std::sort(some.begin(), some.end(), [&](int a, int b) { mark(base); return a < b; });
    const std::function<void(int)> again = [&](int n) { mark(base); if (n > 0) again(n - 1); };
    again(i % 4);
    qsort(some.data(), 5, sizeof(int), [](const void *, const void *) { return 0; });
  }
}
static void handle(int) { mark(500000); }
int main(int, char **words) {
  void *first[1];
  backtrace(first, 1);
  out = fopen(words[1], "w");
  work(100000);
  std::thread([] { work(200000); }).join();
  signal(SIGUSR1, handle);
  raise(SIGUSR1);
  return fclose(out);
}
"""
GONE_STACK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
enum { PAGE = 4096, WHOLE = 16 * PAGE, REST = 4 * PAGE };
static ucontext_t back, there;
static char *stack;
static void use_a_stack(void) {
  for (int i = 0; i < 10; ++i) free(malloc(50 + i));
}
/* A function whose frame pointer says that its frame lies where the first stack was. */
__attribute__((noinline)) static void lose_frame(void) {
  char *gone = stack + 2 * REST;
  __asm__ volatile(
      "mov %%rsp, %%r12; mov %%rbp, %%r13; and $-16, %%rsp; mov %0, %%rbp; mov $77, %%edi;"
      "call malloc@PLT; mov %%r13, %%rbp; mov %%r12, %%rsp"
      : : "r"(gone)
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "memory");
}
static void run(void (*what)(void), size_t bytes) {
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = bytes;
  there.uc_link = &back;
  makecontext(&there, what, 0);
  swapcontext(&back, &there);
}
int main(int count, char **words) {
  char *around = mmap(NULL, WHOLE + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack = around + PAGE;
  mprotect(stack, WHOLE, PROT_READ | PROT_WRITE);
  run(use_a_stack, WHOLE);
  if (words[1][0] == 'u') {
    munmap(stack, WHOLE);
    mmap(stack, REST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  } else if (words[1][0] == 'p') {
    mprotect(stack + REST, WHOLE - REST, PROT_NONE);
  } else if (words[1][0] == 'r') {
    mremap(stack, WHOLE, REST, 0);
  } else {
    mmap(stack + REST, WHOLE - REST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }
  run(lose_frame, REST);
  return 0;
}
"""
SWITCHED = """
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
// Each part has objects of a size of its own. USR2 turns the recorder on and off.
static void work(int objects, int size) {
  void *made[1000];
  for (int i = 0; i < objects; ++i) made[i] = malloc(size);
  for (int i = 0; i < objects; ++i) free(made[i]);
}
int main() {
  void *volatile born_off = malloc(1000);
  work(100, 1001);
  raise(SIGUSR2);
  work(200, 1002);
  free(born_off);
  void *volatile dies_off = malloc(1003);
  if (fork() == 0) {
    work(50, 1004);
    raise(SIGUSR2);
    work(50, 1005);
    raise(SIGUSR2);
    _exit(0);
  }
  wait(nullptr);
  raise(SIGUSR2);
  work(300, 1006);
  free(dies_off);
  raise(SIGUSR2);
  work(400, 1007);
  delete new char[1008];
  raise(SIGUSR2);
  delete new char[1009];
  return 0;
}
"""
WAITS_FOR_FILES = """
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
// Says by a file that it has done a part, and goes on when another file is there.
static void part(int size, const std::string &folder) {
  for (int i = 0; i < 100; ++i) {
    void *volatile object = malloc(size);
    free(object);
  }
  fclose(fopen((folder + "/done" + std::to_string(size)).c_str(), "w"));
  while (access((folder + "/go" + std::to_string(size)).c_str(), F_OK) != 0) usleep(1000);
}
int main(int, char **words) {
  for (int size = 2001; size <= 2003; ++size) part(size, words[1]);
  return 0;
}
"""
SAFE_MALLOC = """
#include <atomic>
#include <cstddef>
#include <cstring>
#include <sys/mman.h>
// A malloc that a signal's handler may call: it takes from one block, and free does nothing.
static constexpr std::size_t kBytes = std::size_t{4} << 30;
static std::atomic<char *> at{nullptr};
static void *take(std::size_t bytes) {
  if (at.load() == nullptr) {
    char *none = nullptr, *block = (char *)mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!at.compare_exchange_strong(none, block)) munmap(block, kBytes);
  }
  bytes = (bytes + 31) & ~std::size_t{15};
  char *const object = at.fetch_add((std::ptrdiff_t)bytes) + 16;
  ((std::size_t *)object)[-1] = bytes - 16;
  return object;
}
extern "C" {
void *malloc(std::size_t n) { return take(n); }
void free(void *) {}
void *calloc(std::size_t n, std::size_t m) { return take(n * m); }
std::size_t malloc_usable_size(void *p) { return p ? ((std::size_t *)p)[-1] : 0; }
void *realloc(void *p, std::size_t n) {
  void *const moved = take(n);
  const std::size_t before = malloc_usable_size(p);
  if (p != nullptr) memcpy(moved, p, before < n ? before : n);
  return moved;
}
void *memalign(std::size_t a, std::size_t n) {
  char *const room = (char *)take(n + a);
  char *const object = (char *)(((std::size_t)room + a - 1) & ~(a - 1));
  ((std::size_t *)object)[-1] = n;
  return object;
}
void *aligned_alloc(std::size_t a, std::size_t n) { return memalign(a, n); }
int posix_memalign(void **p, std::size_t a, std::size_t n) { return *p = memalign(a, n), 0; }
}
"""
HANDLER = """
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/time.h>
enum { HANDLED = 5000 };
static volatile int handled, made, depth_reached;
// At the end of a stack that is often another one.
__attribute__((noinline)) static void nest(int depth) {
  if (depth > 0) {
    nest(depth - 1);
    depth_reached = depth;
    return;
  }
  void *volatile object = malloc(3000);
  free(object);
  object = nullptr;
}
static void handle(int) {
  nest(handled % 30);
  __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}
__attribute__((noinline)) static void descend(int depth) {
  void *volatile object = malloc(16 + depth % 64);
  ++made;
  if (depth > 0) descend(depth - 1);
  free(object);
}
int main(int, char **words) {
  // Two timers, so that handlers interrupt each other as well.
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  sigaction(SIGVTALRM, &action, nullptr);
  const itimerval often = {{0, 50}, {0, 50}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  setitimer(ITIMER_VIRTUAL, &often, nullptr);
  while (handled < HANDLED) descend(50);
  setitimer(ITIMER_REAL, &never, nullptr);
  setitimer(ITIMER_VIRTUAL, &never, nullptr);
  FILE *const out = fopen(words[1], "w");
  fprintf(out, "%d %d", made, handled);
  return fclose(out);
}
"""
REGIONS = """
#include "regions.hpp"
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
// Regions that take chunks from malloc, and tell the recorder.
struct Pool {
  tare::regions::Region number;
  char *at, *end;
  void *chunks[100];
  int used;
};
static const tare::regions::Recorder &recorder = tare::regions::FindRecorder();
#define HERE __builtin_frame_address(0)
__attribute__((noinline)) static void *take(Pool &p, std::size_t n) {
  if (p.at + n > p.end) {
    recorder.begin_own();
    p.chunks[p.used++] = p.at = (char *)malloc(8000);
    recorder.end_own();
    p.end = p.at + 8000;
  }
  char *const object = p.at;
  p.at += (n + 7) & ~std::size_t{7};
  recorder.allocate(p.number, object, n, p.at - object, HERE);
  return object;
}
__attribute__((noinline)) static void make(Pool &p, Pool *parent) {
  p = {};
  p.number = recorder.create(parent ? parent->number : 0, HERE);
}
static void give_back(Pool &p) {
  while (p.used > 0) free(p.chunks[--p.used]);
  p.at = p.end = nullptr;
}
__attribute__((noinline)) static void clear(Pool &p) {
  recorder.clear(p.number, HERE);
  give_back(p);
}
__attribute__((noinline)) static void destroy(Pool &p) {
  recorder.destroy(p.number, HERE);
  give_back(p);
}
__attribute__((noinline)) static void fill(Pool &p) {
  for (int i = 0; i < 100; ++i) {
    void *const object = take(p, 40);
    if (i % 4 == 0) recorder.free(object, HERE);
  }
}
int main() {
  if (recorder.create == nullptr) return 3;
  static Pool root, inner[10], innermost, last;
  make(root, nullptr);
  for (int i = 0; i < 1000; ++i) take(root, 24);
  for (int i = 0; i < 10; ++i) {
    make(inner[i], &root);
    fill(inner[i]);
    if (i == 5) {
      make(innermost, &inner[i]);
      take(innermost, 32);
      clear(inner[i]);
      take(inner[i], 48);
    }
    if (i % 2 == 0) destroy(inner[i]);
  }
  free(malloc(100));
  if (fork() == 0) {
    take(root, 24);
    make(last, &root);
    take(last, 64);
    destroy(root);
    _exit(0);
  }
  wait(nullptr);
  destroy(root);
  make(last, nullptr);
  take(last, 56);
  return 0;
}
"""


def compile_cpp(folder: Path, source: str, *flags: str, name: str = "program") -> Path:
    """Compile C++ source text; returns the path of the program."""
    code = folder / f"{name}.cpp"
    code.write_text(source)
    subprocess.run(["c++", "-O1", "-o", folder / name, code, *flags], check=True)
    return folder / name


def record_raw(folder: Path, program: Path) -> Path:
    """The events of the first process of a program under the recorder; others lie beside it."""
    folder.mkdir()
    environment = {
        "LD_PRELOAD": str(native_file(recorder.OBJECT)),
        recorder.FOLDER_VARIABLE: str(folder),
    }
    subprocess.run([program], check=True, env=environment)
    return min(folder.glob("*.events"))


def record(
    folder: Path,
    *argv: str | Path,
    manager: str = "glibc",
    sites: bool = True,
    sample_bytes: int = 0,
    **switching: Any,
) -> tuple[Outcome, Trace]:
    """A run under the recorder, whose trace contradicts itself nowhere."""
    target = folder / "t.tare"
    outcome = tracing.run_once(
        Program("test", tuple(map(str, argv))),
        resolve(manager),
        Limits(),
        wanted=tracing.Wanted(
            target, asked.Asked(sites=sites, sample_bytes=sample_bytes, **switching)
        ),
    )
    trace = open_trace(target)
    assert trace.meta["observer"] == "recorder"
    assert violations(trace) == trace.meta["violations"] == {}
    assert sorted(path.name for path in folder.iterdir() if "tare" in path.name) == ["t.tare"]
    return outcome, trace
