"""kits/go, as a module uses it: `go test` in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tare.base.native import kits_folder

BENCHMARKS = """
package example

import (
	"example/internal/tare"
	"runtime"
	"testing"
)

var kept []byte

func BenchmarkCollecting(b *testing.B) {
	kept = make([]byte, 1000000)
	tare.Report(b)
	for i := 0; i < b.N; i++ {
		runtime.GC()
	}
}

func BenchmarkAllocating(b *testing.B) {
	tare.Report(b)
	for i := 0; i < b.N; i++ {
		kept = make([]byte, 1024)
	}
}

func BenchmarkNothing(b *testing.B) {
	tare.Report(b)
	for i := 0; i < b.N; i++ {
	}
}
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """By benchmark, what its line says, by unit."""
    if shutil.which("go") is None:
        pytest.skip("needs Go: apt-get install golang-go")
    folder = tmp_path_factory.mktemp("example")
    (folder / "go.mod").write_text("module example\n\ngo 1.19\n")
    (folder / "it_test.go").write_text(BENCHMARKS)
    package = folder / "internal" / "tare"
    package.mkdir(parents=True)
    shutil.copy(kits_folder() / "go" / "tare" / "tare.go", package)
    done = subprocess.run(
        ["go", "test", "-bench", ".", "-benchtime", "200x"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOGC": "100"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"^Benchmark(\w+?)(?:-\d+)?\s+200\s(.*)$", done.stdout, re.MULTILINE)
    return {
        name: {unit: float(value) for value, unit in re.findall(r"([\d.e+-]+) (\S+)", rest)}
        for name, rest in lines
    }


def test_collections_and_objects_are_those_of_an_iteration(
    figures: dict[str, dict[str, float]],
) -> None:
    assert figures["Collecting"]["gc-cycles/op"] == 1
    assert figures["Collecting"]["gc-pause-ns/op"] > 0
    assert figures["Allocating"]["allocs/op"] == 1
    assert figures["Allocating"]["B/op"] >= 1024
    assert figures["Nothing"]["B/op"] == 0
    assert figures["Nothing"]["gc-cycles/op"] == 0


def test_processor_time_of_the_collector_is_told(figures: dict[str, dict[str, float]]) -> None:
    if "gc-cpu-%" not in figures["Collecting"]:
        pytest.skip("needs Go 1.20 or newer: it has no processor times")
    assert figures["Collecting"]["gc-cpu-ns/op"] > 0
    assert 0 < figures["Collecting"]["gc-cpu-%"] <= 100
    assert figures["Nothing"]["gc-cpu-ns/op"] == 0
