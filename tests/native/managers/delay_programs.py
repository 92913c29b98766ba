"""What the tests of `delay(M, …)` run, and how they look at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tare.records.metrics import Status
from tare.records.runs import Outcome
from tests.native.managers.layered import Compile, source_runner

PRELUDE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static __thread void* volatile sink;
static void* opaque(void* p) { sink = p; return sink; }
/* Without stdio, which allocates. */
static void put(const char* text) { if (write(1, text, strlen(text)) < 0) _exit(9); }
static void* objects[100000];
static void make(int count, size_t bytes) {
  for (int i = 0; i < count; i++) objects[i] = opaque(malloc(bytes));
}
static void drop(int count) {
  for (int i = 0; i < count; i++) free(objects[i]);
}
"""
FLAGS = ("-O1", "-fno-builtin", "-pthread", "-Wno-use-after-free", "-Wno-unused-result")


def delayed_runner(folder: Path, compile_c: Compile) -> Callable[..., Outcome]:
    return source_runner(folder, compile_c, PRELUDE, FLAGS)


def good(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status is Status.OK, (outcome.reason, outcome.error_tail)
    details: dict[str, Any] = outcome.details["delay"]
    assert details["uncounted"] == 0
    return details
