"""Programs for tests of the recorder, and what runs them under it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tare import tracing
from tare.manager import resolve
from tare.program import Program
from tare.runner import Limits, Outcome
from tare.trace import Trace, open_trace, violations

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


def compile_cpp(folder: Path, source: str, *flags: str, name: str = "program") -> Path:
    """Compile C++ source text; returns the path of the program."""
    code = folder / f"{name}.cpp"
    code.write_text(source)
    subprocess.run(["c++", "-O1", "-o", folder / name, code, *flags], check=True)
    return folder / name


def record(
    folder: Path,
    *argv: str | Path,
    manager: str = "glibc",
    sites: bool = True,
    sample_bytes: int = 0,
) -> tuple[Outcome, Trace]:
    """A run under the recorder, whose trace contradicts itself nowhere."""
    target = folder / "t.tare"
    outcome = tracing.run_once(
        Program("test", tuple(map(str, argv))),
        resolve(manager),
        Limits(timeout_seconds=120),
        target=target,
        what=tracing.Asked(sites=sites, sample_bytes=sample_bytes),
    )
    trace = open_trace(target)
    assert trace.meta["observer"] == "recorder"
    assert violations(trace) == trace.meta["violations"] == {}
    assert sorted(path.name for path in folder.iterdir() if "tare" in path.name) == ["t.tare"]
    return outcome, trace
