"""The collector that marks beside the program, `marksweep(M, mark=concurrent)`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import MissingError, UsageError
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import resolve
from tare.observers.runner import run_once
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.native.managers.layered import Compile, output_alone
from tests.native.managers.marksweep.sources import (
    LISTS,
    MAIN_INNERS,
    PRINTED_ALONE,
    THREADS,
    assert_found_everywhere,
    good,
    needs_watch,
    programs,
)

# The only pointer to an object is moved all the time, among thousands of others that hold one. What
# was freed by mistake has lost its first word to the allocator.
SHUFFLE = r"""
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
typedef struct Node { size_t canary; struct Node* held; size_t rest[5], last; } Node;
enum { HOLDERS = 4000, BALLAST = 100000 };
static const size_t KEY = 0x5a5a5a5a5a5a5a5a;
typedef struct { Node** holders; unsigned state; } Mine;
static volatile int stop;
static Node* volatile ballast;
static Node* node(Node* held) {
  Node* const made = malloc(sizeof *made);
  made->canary = (size_t)made ^ KEY, made->held = held, made->last = ~(size_t)made;
  return made;
}
static void check(const Node* n) {
  if (n->canary != ((size_t)n ^ KEY) || n->last != ~(size_t)n) abort();
}
static Node* any(Mine* mine) {
  mine->state = mine->state * 1664525u + 1013904223u;
  return mine->holders[(mine->state >> 8) % HOLDERS];
}
static Mine* begin(unsigned state) {
  Mine* const mine = malloc(sizeof *mine);
  mine->holders = calloc(HOLDERS, sizeof *mine->holders);
  mine->state = state;
  for (int i = 0; i < HOLDERS; i++) {
    mine->holders[i] = node(node(NULL));
    for (int k = 0; k < BALLAST / HOLDERS && state == 1; k++) ballast = node(ballast);
  }
  return mine;
}
static void shuffle(Mine* mine, int rounds) {
  for (int round = 0; round < rounds; round++) {
    Node *const a = any(mine), *const b = any(mine);
    if (round % 4 == 0) {
      Node* const before = a->held;
      a->held = node(NULL);
      free(before);
    }
    Node* const moved = a->held;
    a->held = b->held;
    b->held = moved;
    check(a->held), check(b->held);
  }
}
static void check_all(const Mine* mine) {
  for (int i = 0; i < HOLDERS; i++) check(mine->holders[i]), check(mine->holders[i]->held);
  for (const Node* n = ballast; n; n = n->held) check(n);
}
static void* run(void* mine) {
  while (!stop) shuffle(mine, 1000);
  check_all(mine);
  return NULL;
}
static void collect_beside(int threads, int times) {
  pthread_t ids[8];
  begin(1);
  for (long i = 0; i < threads; i++) pthread_create(&ids[i], NULL, run, begin(2 + i));
  for (int i = 0; i < times; i++) tare_marksweep_collect();
  stop = 1;
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}
/* From now on there is no userfaultfd. */
static void forbid(void) {
  struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {4, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) exit(77);
}
"""


@needs_watch
@pytest.mark.parametrize("inner", MAIN_INNERS)
@pytest.mark.parametrize("verify", ["no", "yes"])
def test_pointers_that_are_moved_all_the_time(
    run: Callable[..., Outcome], inner: str, verify: str
) -> None:
    source = SHUFFLE + (
        "int main(void) { Mine* const mine = begin(1); shuffle(mine, 400000); check_all(mine);"
        " return 0; }"
    )
    details = good(run(source, f"marksweep({inner}, mark=concurrent, every=1MiB, verify={verify})"))
    collections = details["collections"]
    # A thread that allocates twice as much waits for the marker.
    assert collections >= details["allocated_bytes"] / (2 << 20) * 0.9 - 2
    assert collections <= details["first_pauses"] <= collections + 1
    assert details["stopped_instead"] == details["skipped_collections"] == 0
    assert details["swept_objects"] >= 50_000
    assert details["beside_nanoseconds"] > 0


@needs_watch
@pytest.mark.parametrize("inner", MAIN_INNERS)
@pytest.mark.parametrize("verify", ["no", "yes"])
def test_threads_that_move_pointers(run: Callable[..., Outcome], inner: str, verify: str) -> None:
    source = SHUFFLE + "int main(void) { collect_beside(4, 30); return 0; }"
    options = f"mark=concurrent, every=256KiB, verify={verify}"
    details = good(run(source, f"marksweep({inner}, {options})"))
    assert details["collections"] >= 30
    assert details["stopped_instead"] == 0


@needs_watch
@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_what_is_unreachable_is_swept_as_if_all_were_stopped(
    run: Callable[..., Outcome], inner: str
) -> None:
    found = {
        mark: good(run(LISTS, f"marksweep({inner}, every=never, mark={mark})"))
        for mark in ("stopped", "concurrent")
    }
    assert found["concurrent"]["collections"] == found["concurrent"]["first_pauses"] == 1
    assert found["stopped"]["first_pauses"] == 0
    for count in ("marked_objects", "swept_objects", "allocated_objects"):
        assert abs(found["stopped"][count] - found["concurrent"][count]) <= 30, count


@needs_watch
@pytest.mark.parametrize("inner", MAIN_INNERS[:2])
def test_where_pointers_are_found(tmp_path: Path, compile_c: Compile, inner: str) -> None:
    manager = f"marksweep({inner}, every=256KiB, mark=concurrent)"
    assert_found_everywhere(tmp_path, compile_c, manager)


@needs_watch
@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_hundreds_of_threads(run: Callable[..., Outcome], inner: str) -> None:
    options = "every=512KiB, mark=concurrent, markers=3, verify=yes"
    details = good(run(THREADS, f"marksweep({inner}, {options})"))
    assert details["allocated_objects"] >= 600000
    assert details["collections"] >= 1


@needs_watch
@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_real_programs_print_the_same(tmp_path: Path, inner: str) -> None:
    for program in programs(tmp_path):
        alone = output_alone(program, tmp_path, PRINTED_ALONE)
        for verify in ("no", "yes"):
            name = f"marksweep({inner}, every=256KiB, mark=concurrent, verify={verify})"
            outcome = run_once(program, resolve(name), Limits(), tmp_path)
            assert good(outcome)["collections"] >= 1, program.name
            assert outcome.output_sha256 == alone, program.name


@needs_watch
def test_the_heap_has_a_limit(run: Callable[..., Outcome]) -> None:
    garbage = "int main(void) { churn(100000, 1000); return 0; }"
    details = good(run(garbage, "marksweep(glibc, heap=8MiB, mark=concurrent)"))
    assert details["peak_active_pages_bytes"] <= (8 << 20) + (1 << 16)
    live = (
        "static void* volatile all[100000];"
        "int main(void) { for (int i = 0; i < 100000; i++) all[i] = malloc(1000); return 0; }"
    )
    outcome = run(live, "marksweep(glibc, heap=8MiB, mark=concurrent)")
    assert outcome.status is Status.OUT_OF_MEMORY


FORKS = r"""
extern char** environ;
int main(int count, char** words) {
  Mine* const mine = begin(1);
  shuffle(mine, 20000);
  if (count > 1) return 0;
  for (int i = 0; i < 20; i++) {
    shuffle(mine, 997 * i);
    const pid_t child = i % 2 ? fork() : _Fork();
    if (child == 0) {
      shuffle(mine, 20000);
      check_all(mine);
      if (i % 5 == 0) execl("/proc/self/exe", words[0], "again", NULL);
      _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    char* const arguments[] = {words[0], "again", NULL};
    pid_t other;
    if (i % 5 == 0 && (posix_spawn(&other, "/proc/self/exe", NULL, NULL, arguments, environ) != 0 ||
                       waitpid(other, &status, 0) != other || status != 0)) return 2;
  }
  check_all(mine);
  return 0;
}"""


@needs_watch
def test_forks_and_programs_begun_while_it_marks(run: Callable[..., Outcome]) -> None:
    details = good(run(SHUFFLE + FORKS, "marksweep(glibc, mark=concurrent, every=64KiB)"))
    assert details["processes"] == 1 + 20 + 4 + 4
    assert details["collections"] >= 21
    assert details["stopped_instead"] == 0


@needs_watch
def test_the_program_has_no_descriptor_of_the_marker(run: Callable[..., Outcome]) -> None:
    source = (
        SHUFFLE
        + r"""
    int main(void) {
      Mine* const mine = begin(1);
      for (int i = 0; i < 200; i++) {
        if (syscall(SYS_close_range, 3, ~0u, 0) != 0) return 77;
        shuffle(mine, 500);
        const int file = open("/dev/null", O_RDONLY);
        if (file != 3) return 1;
      }
      check_all(mine);
      return 0;
    }"""
    )
    details = good(run(source, "marksweep(glibc, mark=concurrent, every=64KiB)"))
    assert details["collections"] >= 10
    assert details["stopped_instead"] == 0


@pytest.fixture
def run_filtered(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """As ``run``, of programs that call forbid(): the kernel then refuses userfaultfd."""

    def filtered(source: str, manager: str) -> Outcome:
        outcome = run(SHUFFLE + source, manager)
        if outcome.exit_code == 77:
            pytest.skip("this kernel has no filters of system calls (seccomp)")
        return outcome

    return filtered


@needs_watch
def test_without_watching_all_are_stopped_and_that_is_counted(
    run_filtered: Callable[..., Outcome],
) -> None:
    source = (
        "int main(void) { Mine* const mine = begin(1); forbid(); shuffle(mine, 100000);"
        " check_all(mine); return 0; }"
    )
    details = good(run_filtered(source, "marksweep(glibc, mark=concurrent, every=256KiB)"))
    assert details["stopped_instead"] >= 1
    assert details["collections"] > details["stopped_instead"]  # before the filter
    assert details["swept_objects"] >= 1000


@needs_watch
def test_a_program_that_begins_where_it_cannot_be_is_refused(
    run_filtered: Callable[..., Outcome],
) -> None:
    source = (
        "int main(int count, char** words) { forbid();"
        ' execl("/proc/self/exe", words[0], NULL); return 1; }'
    )
    outcome = run_filtered(source, "marksweep(glibc, mark=concurrent)")
    assert outcome.status is Status.FAILED
    assert "mark=concurrent needs Linux 6.7 and userfaultfd" in outcome.error_tail


def test_only_ignored_frees(compile_c: Compile) -> None:
    with pytest.raises(UsageError, match="needs free=ignore"):
        resolve("marksweep(glibc, mark=concurrent, free=honour)")
    program = compile_c("int main(void) { return 0; }")
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(map(str, resolve("marksweep(glibc)").preload)),
        "TARE_MARKSWEEP_MARK": "concurrent",
        "TARE_MARKSWEEP_FREE": "quarantine",
    }
    done = subprocess.run([program], env=environment, capture_output=True, text=True)
    assert done.returncode < 0
    assert "mark=concurrent needs free=ignore" in done.stderr


def test_a_kernel_that_does_not_watch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marksweep, "writes_can_be_watched", lambda: False)
    with pytest.raises(MissingError, match=r"needs Linux 6\.7"):
        resolve("marksweep(glibc, mark=concurrent)")
