"""Programs that are hard on `delay(M, …)`: threads, forks, signals, little memory, any end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.native import native_file
from tare.memory_managers import layers
from tare.memory_managers.layers import delay
from tare.memory_managers.manager import machine_libc, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.native.managers.delay_programs import FLAGS, PRELUDE, delayed_runner, good
from tests.native.managers.layered import INNERS, Compile, output_alone


@pytest.fixture
def run(tmp_path: Path, compile_c: Compile) -> Callable[..., Outcome]:
    return delayed_runner(tmp_path, compile_c)


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
@pytest.mark.parametrize(
    "inner", ["glibc", "hoard", "jemalloc", "mimalloc", "snmalloc", "tcmalloc"]
)
def test_threads_by_the_thousand(run: Callable[..., Outcome], inner: str, options: str) -> None:
    if inner not in INNERS:
        pytest.skip(f"{inner} is not installed")
    details = good(run(THREADS, f"delay({inner}, {options})"))
    # Two frees of the thread's end, in 1,000 of them, come after the layer has left the thread.
    assert details["objects"] + details["passed_objects"] >= 20000 + 2000
    assert details["objects"] >= 20000
    assert len(details["threads"]) <= 240
    assert sum(slot["threads"] for slot in details["threads"]) in (2000, 2001)


@pytest.mark.parametrize("inner", ["hoard", "rpmalloc"])
def test_ended_threads_leave_no_heap_behind(run: Callable[..., Outcome], inner: str) -> None:
    """Where the allocator ends a thread's heap as its function returns: what the layer frees later
    begins another, which nobody ends."""
    if inner not in INNERS:
        pytest.skip(f"{inner} is not installed")
    source = r"""
    static void* work(void* leave) {
      void* some[100];
      for (int i = 0; i < 100; i++) some[i] = opaque(malloc(100));
      for (int i = 0; i < 100; i++) free(some[i]);
      if (leave) pthread_exit(leave);
      return NULL;
    }
    int main(void) {
      for (int i = 0; i < 4000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, i % 2 ? &thread : NULL)) return 1;
        pthread_join(thread, NULL);
      }
      long pages = 0;
      FILE* file = fopen("/proc/self/statm", "r");
      if (!file || fscanf(file, "%*d %ld", &pages) != 1) return 2;
      return pages * sysconf(_SC_PAGESIZE) > 16 << 20 ? 3 : 0;
    }"""
    details = good(run(source, f"delay({inner}, size=64KiB)"))
    assert details["exit_collections"] >= 4000


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
    details = good(run_once(program, manager, Limits(), tmp_path))
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
    details = good(run_once(Program("t", (str(path),)), manager, Limits(), tmp_path))
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


PRINTED_ALONE: dict[str, str | None] = {}


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
        alone = output_alone(program, tmp_path, PRINTED_ALONE)
        outcome = run_once(program, resolve(f"delay({inner}, {options})"), Limits(), tmp_path)
        assert outcome.status is Status.OK, (program.name, outcome.reason, outcome.error_tail)
        assert outcome.output_sha256 == alone, program.name
