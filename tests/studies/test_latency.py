"""`tare compare --latency`: how long calls of malloc take, of programs with one that is slow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Completed

Tare = Callable[..., Completed]
Compile = Callable[..., Path]
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  void *kept[100] = {0};
  for (int i = 0; i < 20000; i++) {
    free(kept[i % 100]);
    kept[i % 100] = malloc(16 + i % 5000);
  }
  puts("done");
  return 0;
}
"""
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
  if (++calls % 1000 == 0) nanosleep(&time, NULL);
  return next(n);
}
#define PASSED(result, name, parameters, arguments)                            \
  result name parameters {                                                     \
    result (*next) parameters = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
    return next arguments;                                                     \
  }
PASSED(void *, calloc, (size_t n, size_t m), (n, m))
PASSED(void *, realloc, (void *p, size_t n), (p, n))
PASSED(void, free, (void *p), (p))
PASSED(size_t, malloc_usable_size, (void *p), (p))
"""
LEAST = 2e-3 * (1 - 1 / 64)


def rows(path: Path) -> dict[tuple[str, str], list[float]]:
    """The values of each manager and metric."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in json.loads(path.read_text())["measurements"]:
        found.setdefault((row["manager"], row["metric"]), []).append(row.get("value"))
    return found


def test_the_slow_calls_of_an_allocator_are_found(
    tare: Tare, compile_c: Compile, tmp_path: Path
) -> None:
    program = compile_c(PROGRAM, "-fno-builtin")
    compile_c(SLOW, "-shared", "-fPIC", "-fno-builtin", name="libslow.so")
    words = ["compare", "--latency", "-m", "glibc", "-m", "./libslow.so", "-n", "2"]
    done = tare(*words, "--warmup", "0", "-o", "out", "--json", "out.json", "--", program)
    assert done.returncode == 0, done.stderr
    assert "How long a call of malloc takes" in done.stdout
    assert "How long a call of free takes" in done.stdout
    assert "Reading the clock took" in done.stdout
    found = rows(tmp_path / "out.json")
    assert len(found["glibc", "malloc_p50_seconds"]) == 4, "twice a round"
    assert len(found["./libslow.so", "malloc_p50_seconds"]) == 2
    assert len(found["./libslow.so", "wall_seconds"]) == 2, "those of the timed runs alone"
    for name in ("malloc_p9999_seconds", "malloc_max_seconds"):
        assert all(value >= LEAST for value in found["./libslow.so", name]), name
    ordered = [
        found["glibc", f"malloc_{name}_seconds"][0] for name in ("p50", "p99", "p999", "p9999")
    ]
    assert ordered == sorted(ordered)
    assert found["./libslow.so", "long_waited_calls"][0] >= 20
    assert len(found["glibc", "long_calls"]) == 1
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How long a call of malloc takes, by percentile" in page
    assert "Calls longer than 20" in page

    records = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").open()]
    of_slow = [
        record
        for record in records
        if (record["study"], record["manager"]) == ("latency", "./libslow.so")
    ]
    assert {Path(record["server"]).name for record in of_slow} == {"libslow.so"}
    calls = of_slow[0]["details"]["latency"]["operations"]["malloc"]["calls"]
    assert 20_000 <= calls < 20_100
    assert not list((tmp_path / "out").glob("latency-*"))

    assert "Where calls longer than 20 µs come from" in done.stdout
    (causes,) = (record for record in of_slow if record["observer"] == "latency-causes")
    slowest = causes["details"]["latency"]["long_sites"][0]
    assert (slowest["operation"], slowest["frames"][0]["function"]) == ("malloc", "main")
    assert slowest["calls"] >= slowest["waited"] >= 20
    assert slowest["max_seconds"] >= 2e-3

    again = tare(*words, "--warmup", "0", "-o", "out", "--json", "again.json", "--", program)
    assert again.returncode == 0, again.stderr
    assert rows(tmp_path / "again.json") == found, "a finished folder is not measured again"


def test_a_bill_that_is_asked_has_the_long_calls(
    tare: Tare, compile_c: Compile, tmp_path: Path
) -> None:
    program = compile_c(PROGRAM, "-fno-builtin")
    slow = compile_c(SLOW, "-shared", "-fPIC", "-fno-builtin", name="libslow.so")
    words = ["weigh", "--only", "latency", "-m", slow, "--baseline", slow, "-o", "out"]
    done = tare(*words, "--", program)
    assert done.returncode == 0, done.stderr
    assert "by main" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How long calls of malloc and free take" in page
    assert "Where calls longer than 20 µs come from" in page


def test_without_the_option_nothing_is_timed(tare: Tare, tmp_path: Path) -> None:
    done = tare("compare", "-m", "glibc", "-n", "1", "--json", "out.json", "--", "true")
    assert done.returncode == 0, done.stderr
    assert "How long a call" not in done.stdout
    assert not any("malloc" in metric for _, metric in rows(tmp_path / "out.json"))


def test_a_run_that_left_nonsense_has_a_status(
    tare: Tare, compile_c: Compile, tmp_path: Path
) -> None:
    program = compile_c(
        r"""
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
          char path[5000];
          const char *folder = getenv("TARE_LATENCY_FOLDER");
          if (!folder) return 0;
          snprintf(path, sizeof path, "%s/%d.0.latency", folder, getpid());
          int file = open(path, O_WRONLY);
          return write(file, "nonsense", 8) != 8;
        }
        """
    )
    words = ("compare", "--latency", "-m", "glibc", "-n", "1", "--json", "out.json")
    done = tare(*words, "--", program)
    assert done.returncode == 1, done.stderr
    assert "the program has written over it" in done.stdout
    measured: list[dict[str, Any]] = json.loads((tmp_path / "out.json").read_text())["measurements"]
    failed = [row for row in measured if row["status"] != "ok"]
    assert {(row["metric"], row["status"]) for row in failed} == {("malloc_p50_seconds", "failed")}


def test_a_collector_of_a_runtime_is_refused(tare: Tare) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not installed (package openjdk-17-jre-headless)")
    done = tare("compare", "--latency", "-m", "jvm.serial", "--", "java", "-version")
    assert done.returncode == 2
    assert "is a collector of a runtime" in done.stderr


def test_a_program_that_never_allocates_has_no_latency(
    tare: Tare, compile_c: Compile, tmp_path: Path
) -> None:
    program = compile_c("int main(void) { return 0; }")
    words = ("compare", "--latency", "-m", "glibc", "-n", "1", "--json", "out.json")
    done = tare(*words, "--", program)
    assert done.returncode == 0, done.stdout
    assert ("glibc", "wall_seconds") in rows(tmp_path / "out.json")
    assert "How long a call" not in done.stdout
