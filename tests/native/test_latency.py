"""The object that times calls of malloc: how many it sees, whoever makes them, and what is slow."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.memory_managers.manager import resolve
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tare.studies.latency.histograms import (
    FAULTED,
    OPERATIONS,
    WAITED,
    Histograms,
    middle,
    read_folder,
)
from tare.studies.latency.observe import (
    CAUSES_VARIABLE,
    FOLDER_VARIABLE,
    OBJECT,
    run_once,
    run_with_causes,
)
from tests.native.recorder.recorder_programs import compile_cpp
from tests.support import ROOT

Compile = Callable[..., Path]
BIG = 16
"""The size, from 512 KiB to 1 MiB, that only the programs here ask for."""
# Each of THREADS makes N objects of each kind, in FORKS children as well, and ends as it is told.
FAMILY = r"""
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int n;
static void *work(void *unused) {
  size_t bytes = 600 << 10;
  for (int i = 0; i < n; i++) {
    void *aligned = NULL;
    char *a = malloc(bytes), *b = calloc(3, bytes / 3), *c = realloc(NULL, bytes);
    c = realloc(c, bytes + 1000);
    if (posix_memalign(&aligned, 64, bytes)) abort();
    a[0] = c[0] = 1;
    free(a), free(b), free(c), free(aligned);
    free(aligned_alloc(64, bytes)), free(memalign(64, bytes));
    free(NULL);
  }
  return unused;
}
int main(int argc, char **argv) {
  n = atoi(argv[1]);
  int threads = atoi(argv[2]), forks = atoi(argv[3]);
  const char *how = argc > 4 ? argv[4] : "";
  pthread_t t[64];
  work(NULL);
  for (int i = 0; i < threads; i++) if (pthread_create(&t[i], NULL, work, NULL)) abort();
  for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < forks; i++) {
    if (fork() == 0) {
      if (pthread_create(&t[0], NULL, work, NULL)) abort();
      work(NULL);
      pthread_join(t[0], NULL);
      _exit(0);
    }
    wait(NULL);
  }
  if (!strcmp(how, "_exit")) _exit(0);
  if (!strcmp(how, "quick_exit")) quick_exit(0);
  if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(how, "exec")) execl(argv[0], argv[0], argv[1], "0", "0", (char *)NULL);
  return 0;
}
"""
PLAIN = ("-pthread", "-fno-builtin")
# Each of the calls that a program makes of its own, and those of C++'s library.
OPERATORS = r"""
#include <cstdlib>
#include <new>
struct alignas(64) Wide { char bytes[600 << 10]; };
int main(int, char** argv) {
  const int n = std::atoi(argv[1]);
  const std::size_t bytes = 600 << 10;
  for (int i = 0; i < n; i++) {
    char* const volatile a = new char[bytes];
    delete[] a;
    void* const volatile b = ::operator new(bytes);
    ::operator delete(b, bytes);
    void* const volatile c = ::operator new(bytes, std::nothrow);
    ::operator delete(c);
    Wide* const volatile d = new Wide;
    delete d;
    try {
      void* volatile const e = ::operator new(std::size_t{1} << 60);
      return e == nullptr;
    } catch (const std::bad_alloc&) {
    }
  }
}
"""
# Sleeps 2 ms in each 1,000th call for 600 KiB.
SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
void *malloc(size_t n) {
  static void *(*next)(size_t);
  static long calls;
  if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
  struct timespec time = {0, 2000000};
  if (n == 600 << 10 && ++calls % 1000 == 0) nanosleep(&time, NULL);
  return next(n);
}
"""
SMALL = r"""
#include <stdlib.h>
int main(int argc, char **argv) {
  for (int i = atoi(argv[1]); i-- > 0;) free(malloc(600 << 10));
  return 0;
}
"""


def objects(manager: str) -> str:
    try:
        preload = resolve(manager).preload
    except MissingError as error:
        pytest.skip(str(error))
    return " ".join(map(str, (native_file(OBJECT), *preload)))


def environment(folder: Path, preload: str, causes: str = "no") -> dict[str, str]:
    folder.mkdir()
    return {
        "LD_PRELOAD": preload,
        FOLDER_VARIABLE: str(folder),
        CAUSES_VARIABLE: causes,
        "PATH": os.environ["PATH"],
    }


def timed(folder: Path, manager: str, *argv: object, status: int = 0) -> Histograms:
    ran = subprocess.run(list(map(str, argv)), env=environment(folder, objects(manager)))
    assert ran.returncode == status
    return read_folder(folder)


def calls(found: Histograms, operation: str, size: int | None = BIG) -> int:
    return int(found.calls(operation, size).sum())


def check_family(found: Histograms, rounds: int) -> None:
    """That so many rounds of ``work`` were seen."""
    expected = {"malloc": 1, "calloc": 1, "realloc": 2, "aligned": 3}
    seen = {operation: calls(found, operation) for operation in expected}
    assert seen == {operation: each * rounds for operation, each in expected.items()}


@pytest.mark.parametrize(
    "manager", ["glibc", "mimalloc", "jemalloc", "tcmalloc", "snmalloc", "delay(glibc)"]
)
def test_each_call_is_counted_once(tmp_path: Path, compile_c: Compile, manager: str) -> None:
    program = compile_c(FAMILY, *PLAIN)
    found = timed(tmp_path / "some", manager, program, 50, 4, 3)
    check_family(found, 50 * (1 + 4 + 3 * 2))
    few = timed(tmp_path / "few", manager, program, 1, 4, 3)
    assert calls(found, "free", None) - calls(few, "free", None) == 49 * 11 * 6
    assert len({pid for pid, _ in found.servers}) == 4


def test_more_threads_than_shards(tmp_path: Path, compile_c: Compile) -> None:
    check_family(timed(tmp_path / "t", "glibc", compile_c(FAMILY, *PLAIN), 200, 40, 0), 200 * 41)


@pytest.mark.parametrize("how", ["", "_exit", "quick_exit", "kill", "exec"])
def test_however_a_process_ends(tmp_path: Path, compile_c: Compile, how: str) -> None:
    status = -signal.SIGKILL if how == "kill" else 0
    found = timed(tmp_path / "t", "glibc", compile_c(FAMILY, *PLAIN), 20, 2, 0, how, status=status)
    check_family(found, 20 * 3 + (20 if how == "exec" else 0))
    assert found.longest("malloc") > 0


@pytest.mark.parametrize("manager", ["glibc", "mimalloc", "jemalloc", "tcmalloc"])
def test_operators_of_cxx(tmp_path: Path, manager: str) -> None:
    program = compile_cpp(tmp_path, OPERATORS, "-std=c++17")
    found = timed(tmp_path / "some", manager, program, 30)
    assert (calls(found, "malloc"), calls(found, "aligned")) == (90, 30)
    none = timed(tmp_path / "none", manager, program, 0)
    assert (
        calls(found, "free", None) - calls(none, "free", None) >= 120
    )  # exceptions are freed, too


def test_a_slow_malloc_is_seen(tmp_path: Path, compile_c: Compile) -> None:
    slow = compile_c(SLOW, "-shared", "-fPIC", "-fno-builtin", name="libslow.so")
    program = compile_c(SMALL, "-fno-builtin")
    preload = f"{native_file(OBJECT)} {slow}"
    variables = environment(tmp_path / "t", preload, causes="yes")
    subprocess.run([program, "20000"], check=True, env=variables)
    found = read_folder(tmp_path / "t")
    assert calls(found, "malloc") == 20_000
    least = 2e-3 * (1 - 1 / 64)
    slept = found.percentile("malloc", 9995, BIG)
    assert slept is not None
    assert slept >= least
    assert found.longest("malloc") >= least
    waited = sum(
        int(number)
        for causes, number in enumerate(found.long_calls[OPERATIONS.index("malloc")])
        if causes & WAITED
    )
    assert waited >= 20


def test_pages_that_a_call_makes_the_kernel_supply_are_a_cause(
    tmp_path: Path, compile_c: Compile
) -> None:
    program = compile_c(
        "#include <stdlib.h>\nint main(void) {"
        "  for (int i = 0; i < 99; i++) free(malloc(8 << 20));"
        "  return 0; }",
        "-fno-builtin",
    )
    slow = compile_c(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "void *malloc(size_t n) {"
        '  void *(*next)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");'
        "  char *p = next(n); return n == 8 << 20 ? memset(p, 1, n) : p; }",
        *("-shared", "-fPIC", "-fno-builtin"),
        name="libtouches.so",
    )
    preload = f"{native_file(OBJECT)} {slow}"
    variables = environment(tmp_path / "t", preload, causes="yes")
    variables["MALLOC_MMAP_THRESHOLD_"] = str(1 << 20)  # fresh pages each time
    subprocess.run([program], check=True, env=variables)
    by_set = read_folder(tmp_path / "t").long_calls[OPERATIONS.index("malloc")]
    assert sum(int(number) for causes, number in enumerate(by_set) if causes & FAULTED) >= 99


def test_a_run_says_who_served(tmp_path: Path, compile_c: Compile) -> None:
    program = Program("small", (str(compile_c(SMALL, "-fno-builtin")), "3000"))
    outcome = run_once(program, resolve("mimalloc"), Limits(), tmp_path, None)
    assert outcome.status is Status.OK, outcome.reason
    assert resolve("mimalloc").serves(outcome.server)
    assert {"malloc_p999_seconds", "free_max_seconds"} <= {*outcome.values}
    assert "malloc_p9999_seconds" not in outcome.values  # of 3,000 calls there is none beyond
    assert "wall_seconds" not in outcome.values
    causes = run_with_causes(program, resolve("mimalloc"), Limits(), tmp_path, None).values
    assert causes["long_calls"] >= causes["long_other_calls"] >= 0
    assert list(tmp_path.glob("*-*")) == []


@pytest.mark.parametrize("linked", ["jemalloc", "glibc"])
def test_a_program_as_it_is(tmp_path: Path, compile_c: Compile, linked: str) -> None:
    library = resolve(linked).server
    assert library is not None
    flags = () if linked == "glibc" else (f"-Wl,--no-as-needed,-rpath,{library.parent}",)
    program = compile_c(SMALL, "-fno-builtin", *flags, *([str(library)] if flags else []))
    run = Program("small", (str(program), "2000"))
    outcome = run_once(run, resolve("own"), Limits(), tmp_path, None)
    assert outcome.status is Status.OK, outcome.reason
    assert Path(outcome.server).samefile(library)
    assert outcome.details["latency"]["operations"]["malloc"]["calls"] >= 2000


BROUGHT = {
    "in front of which nothing is": (
        SMALL.replace("int main", "static char pool[1 << 20]; static size_t used;\n"
        "void *malloc(size_t n) { return pool + (used = (used + n % 99 + 15) & 0xFFFF0); }\n"
        "void free(void *p) { (void)p; }\nint main"),
        "go to",
    ),
    "of other names": (
        SMALL.replace("int main", "void *sn_rust_alloc(size_t a, size_t n) "
        "{ return malloc(a + n); }"
        "void sn_rust_dealloc(void *p, size_t a, size_t n) { (void)a; (void)n; free(p); }"
        "void *sn_rust_realloc(void *p, size_t a, size_t n, size_t m) "
        "{ (void)a; (void)n; return realloc(p, m); }"
        "void *sn_rust_alloc_zeroed(size_t a, size_t n) { (void)a; return calloc(1, n); }"
        "int main").replace("free(malloc(600 << 10));",
        "sn_rust_dealloc(sn_rust_realloc(sn_rust_alloc(16, 9), 16, 9, 10), 16, 10),"
        "sn_rust_dealloc(sn_rust_alloc_zeroed(16, 9), 16, 9);"),
        "calls of sn_… in",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROUGHT)
def test_calls_that_do_not_reach_the_clock_are_told(
    tmp_path: Path, compile_c: Compile, kind: str
) -> None:
    source, why = BROUGHT[kind]
    program = Program("own", (str(compile_c(source, "-O0", "-fno-builtin", "-rdynamic")), "9"))
    outcome = run_once(program, resolve("own"), Limits(), tmp_path, None)
    assert outcome.status is Status.NOT_COVERED, outcome
    assert why in outcome.reason
    assert outcome.values == {}


def test_without_room_the_program_goes_on(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(SMALL, "-fno-builtin")
    command = f"ulimit -f 100; exec {program} 1000"
    variables = environment(tmp_path / "t", objects("glibc"))
    subprocess.run(["sh", "-c", command], check=True, env=variables)
    left = read_folder(tmp_path / "t")
    assert calls(left, "malloc") == 0


def test_buckets_are_read_as_they_are_written(tmp_path: Path) -> None:
    source = f"""
    #include "{ROOT}/observers/latency/format.hpp"
    #include <cstdio>
    #include <cstdlib>
    #include <initializer_list>
    using namespace tare::latency;
    int main(int count, char** values) {{
      for (int i = 1; i < count; i++) std::printf("%u ", BucketOf(std::strtoull(values[i], 0, 10)));
      for (std::size_t n : {{0, 16, 17, 32, 33, 600 << 10, 1 << 20, (1 << 20) + 1}})
        std::printf("%u ", RowOf(kCalloc, n));
    }}
    """
    program = compile_cpp(tmp_path, source, "-std=c++20")
    values = [*range(2000), *(value + more for value in (1 << p for p in range(11, 40))
                              for more in (-1, 0, 1, value // 3))]  # fmt: skip
    ran = subprocess.run([program, *map(str, values)], check=True, capture_output=True, text=True)
    printed = list(map(int, ran.stdout.split()))
    for value, bucket in zip(values, printed, strict=False):
        assert abs(middle(bucket) - value) <= value / 64, value
    assert printed[len(values) :] == [18 + size for size in (0, 0, 1, 1, 2, BIG, BIG, 17)]
