"""kits/benchmark, as benchmarks include it, run by themselves and under `tare count`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tare.base.native import kits_folder

INCLUDED = kits_folder() / "benchmark"
GOOGLE = """
#include <benchmark/benchmark.h>
#include <tare/benchmark.hpp>
#include <memory>
template <typename T>
void make(std::size_t count) {
  std::unique_ptr<T[]> made(new T[count]);
  benchmark::DoNotOptimize(made.get());
}
static void two(benchmark::State& state) {
  std::unique_ptr<char[]> before(new char[100000]);
  benchmark::DoNotOptimize(before.get());
  tare::Counted counted(state);
  for (auto _ : state) {
    make<char>(100);
    make<char>(20);
  }
}
BENCHMARK(two)->Iterations(1000);
static void threads(benchmark::State& state) {
  tare::Counted counted(state);
  for (auto _ : state) make<char>(50);
}
BENCHMARK(threads)->Threads(2)->Iterations(1000);
BENCHMARK_MAIN();
"""
CATCH = """
#define CATCH_CONFIG_MAIN
#define CATCH_CONFIG_ENABLE_BENCHMARKING
#include <catch2/catch.hpp>
#include <tare/benchmark.hpp>
static void* volatile kept;
TEST_CASE("it") {
  const std::size_t bytes = 40;
  TARE_BENCHMARK("made") { return std::vector<char>(bytes); };
  TARE_BENCHMARK("nothing") {};
}
"""


def compiled(folder: Path, text: str, *options: str) -> Path:
    (folder / "bench.cpp").write_text(text)
    program = folder / "bench"
    command = ["g++", "-std=c++11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command += [f"-I{INCLUDED}", "-o", str(program), str(folder / "bench.cpp"), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def counted(program: Path, *arguments: str) -> None:
    """Runs a program under `tare count`, which must be able to."""
    words = [sys.executable, "-m", "tare", "count", "--once", "-m", "glibc", "--no-page", "-q"]
    folder = program.parent
    words += ["-o", str(folder / "results"), "--", str(program), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    if done.returncode == 3 and "instrument" in done.stderr:
        pytest.skip("needs Tare's instrument: apt-get install valgrind, and build again")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not Path("/usr/include/benchmark/benchmark.h").is_file():
        pytest.skip("needs Google Benchmark: apt-get install libbenchmark-dev")
    folder = tmp_path_factory.mktemp("google")
    return compiled(folder, GOOGLE, "-lbenchmark", "-lpthread")


def figures(path: Path) -> dict[str, dict[str, Any]]:
    rows = json.loads(path.read_text())["benchmarks"]
    return {row["name"].partition("/")[0]: row for row in rows}


def test_counters_of_google_benchmark_are_of_an_iteration(google: Path) -> None:
    out = google.with_name("counts.json")
    counted(google, f"--benchmark_out={out}")
    found = figures(out)
    # A round more or less of the loop's own, never of what it makes.
    assert found["two"]["objects"] == pytest.approx(2, rel=0.01)
    assert found["two"]["bytes"] == pytest.approx(120, rel=0.01)
    assert found["threads"]["objects"] == pytest.approx(1, rel=0.05)
    for row in found.values():
        assert 0 < row["manager_instructions"] < row["instructions"]
    # Of at most 16 iterations, with what the benchmark makes before.
    assert 100_000 <= found["two"]["max_bytes_used"] < 110_000
    assert found["two"]["allocs_per_iter"] >= 2
    assert found["two"]["net_heap_growth"] < 10_000


def test_a_benchmark_that_is_not_counted_is_as_before(google: Path) -> None:
    out = google.with_name("plain.json")
    words = [str(google), f"--benchmark_out={out}"]
    subprocess.run(words, check=True, capture_output=True)
    assert not {"objects", "bytes", "allocs_per_iter"} & figures(out)["two"].keys()


def test_another_valgrind_tool_counts_nothing(google: Path) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("needs Valgrind: apt-get install valgrind")
    out = google.with_name("none.json")
    words = [valgrind, "-q", "--tool=none", str(google)]
    words += ["--benchmark_filter=two", f"--benchmark_out={out}"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert "objects" not in figures(out)["two"]
    assert "request" not in done.stderr


def test_benchmarks_of_catch2_tell_their_counts(tmp_path: Path) -> None:
    if not Path("/usr/include/catch2/catch.hpp").is_file():
        pytest.skip("needs Catch2 2.13: apt-get install catch2")
    program = compiled(tmp_path, CATCH, "-O0")
    plain = subprocess.run(
        [program, "--benchmark-samples", "2"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert plain.returncode == 0
    assert "made " in plain.stdout
    assert "objects" not in plain.stdout
    counted(program, "-o", str(tmp_path / "counts.txt"))
    told = " ".join((tmp_path / "counts.txt").read_text().split())
    assert "made, an iteration: 1 objects, 40 bytes, " in told
    assert "nothing, an iteration: 0 objects, 0 bytes, 0 manager_instructions of " in told
