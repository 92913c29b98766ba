"""Programs for the tests of mark-sweep, and what holds of each of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.native.managers.layered import INNERS, Compile

HERE = Path(__file__).parent
needs_watch = pytest.mark.skipif(
    not marksweep.writes_can_be_watched(),
    reason="mark=concurrent needs Linux 6.7 and userfaultfd, which cannot be used here",
)
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


def good(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status is Status.OK, (outcome.reason, outcome.error_tail)
    details: dict[str, Any] = outcome.details["marksweep"]
    assert details["uncounted"] == 0
    assert details["false_reclaims"] == 0
    return details


def assert_found_everywhere(folder: Path, compile_c: Compile, manager: str) -> None:
    source = (HERE / "places.c").read_text()
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
