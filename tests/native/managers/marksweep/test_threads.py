"""`marksweep(M, …)` in programs with threads, signals and several processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.native import native_file
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import machine_libc, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.native.managers.layered import INNERS, Compile
from tests.native.managers.marksweep.sources import (
    FLAGS,
    MAIN_INNERS,
    PRELUDE,
    THREADS,
    good,
    needs_watch,
)
from tests.support import SUPPORT


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


OVERDUE = r"""
#include <stdatomic.h>
#include <sys/syscall.h>
enum { kThreads = 32, kObjects = 50000 };
static atomic_long asked;
pid_t getpid(void) {  /* the first thing that a collection does */
  atomic_fetch_add(&asked, 1);
  return syscall(SYS_getpid);
}
static void* allocate(void* kept) {
  for (int i = 0; i < kObjects; i++) free(opaque(malloc(16 + i % 100)));
  return kept;
}
int main(void) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, allocate, NULL);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  return asked == 0 || asked > kThreads * kObjects / 10;
}"""


@pytest.mark.parametrize("mark", ["stopped", pytest.param("concurrent", marks=needs_watch)])
def test_threads_do_not_ask_for_each_object_whether_another_one_collects(
    run: Callable[..., Outcome], mark: str
) -> None:
    """Where there are fewer processors than threads, one that collects waits for a processor."""
    details = good(run(OVERDUE, f"marksweep(glibc, every=512KiB, mark={mark})"))
    assert details["collections"] >= 10


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
