"""Counts of references in programs that retain and release a known number of times."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import tare as api
from tare.base.native import native_file
from tare.programs.program import Program
from tare.records.results import read_records
from tare.studies.breakdown import report as study
from tests.support.valgrind import needs_valgrind

pytestmark = needs_valgrind

TIMES = 3000
PERIOD, OBJECT = 64 << 10, 64
"""Bytes between two collections; of an object, with its counts."""

SHARED_POINTERS = """
#include <cstdlib>
#include <memory>
#include <thread>
__attribute__((noinline)) long use(std::shared_ptr<long> one) {
  asm volatile("" ::"r"(one.get()) : "memory");
  return *one;
}
int main(int count, char** words) {
  if (count > 2) std::thread([] {}).join();
  const auto one = std::make_shared<long>(0);
  long sum = 0;
  for (long left = std::atol(words[1]); left > 0; --left) sum += use(one);
  return static_cast<int>(sum);
}
"""
SHORT_LIVED = """
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
using Shared = std::shared_ptr<std::array<char, 48>>;
__attribute__((noinline)) void use(Shared one) { asm volatile("" ::"r"(one.get()) : "memory"); }
int main(int, char** words) {
  long copies = 0;
  for (long left = std::atol(words[1]); left > 0; --left, ++copies) {
    const Shared one = std::make_shared<std::array<char, 48>>();
    use(one);
  }
  std::printf("%ld\\n", copies);
}
"""
ARCS = """
use std::{hint::black_box, rc::Rc, sync::Arc};
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let times: usize = words[1].parse().unwrap();
    let (arc, rc) = (Arc::new(5u64), Rc::new(5u64));
    for _ in 0..times { black_box(black_box(&arc).clone()); }
    for _ in 0..2 * times { black_box(black_box(&rc).clone()); }
}
"""
PYTHON = """
import sys
def store(times, value):
    slots = [None]
    for _ in range(times):
        slots[0] = value
store(int(sys.argv[1]), object())
"""
PERL = "my $n = shift; my $x = []; my @l = (undef); for my $i (1 .. $n) { $l[0] = $x }"


def counted(folder: Path, *words: str | Path) -> tuple[Mapping[str, tuple[int, int]], str]:
    """Of retaining and releasing the updates, and those that are atomic; and what is said."""
    program = Program("program", tuple(map(str, words)))
    results = api.breakdown([program], folder=folder / "results")
    records = [r for r in read_records(results.folder) if r.run.observer == study.OBSERVER]
    shutil.rmtree(results.folder)
    updates = study.details_of(records[0]).updates
    said = " ".join(study.findings(records))
    return {name: (int(one.all), int(one.atomic)) for name, one in updates.items()}, said


def compiled(folder: Path, name: str, source: str, *command: str) -> Path:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    code = folder / name
    code.write_text(source)
    subprocess.run([*command, "-o", code.with_suffix(""), code], check=True)
    return code.with_suffix("")


def needs_symbols() -> None:
    if not native_file("bin/tare-symbols").exists():
        pytest.skip("tare-symbols is not built: Debian's libdw-dev is missing")


@pytest.mark.parametrize("threads", [False, True])
def test_shared_pointers(threads: bool, tmp_path: Path) -> None:
    needs_symbols()
    program = compiled(tmp_path, "shared.cpp", SHARED_POINTERS, "g++", "-O2", "-g", "-pthread")
    found, said = counted(tmp_path, program, str(TIMES), *(["threads"] if threads else []))
    atomic = TIMES if threads else 0
    # The last one sets both counts to 0 at once.
    assert found == {"retain": (TIMES, atomic), "release": (TIMES + 1, atomic)}
    assert "C++ with shared_ptr" in said
    assert f"{'100' if threads else '0.0'}% of the updates of counts are atomic" in said


def test_a_tracing_collector_instead(tmp_path: Path) -> None:
    """The objects whose references the program counts are those that a replay collects."""
    needs_symbols()
    program = compiled(tmp_path, "short.cpp", SHORT_LIVED, "g++", "-O2", "-g", "-pthread")
    words = (str(program), str(TIMES))
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found, _ = counted(tmp_path, *words)
    assert found["retain"] == (int(said), 0)
    trace = api.trace(
        Program("program", words), folder=tmp_path / "short.tare", what=api.Asked(pointers=True)
    )
    collector = f"marksweep(glibc, every={PERIOD >> 10}KiB)"
    results = api.replay(
        trace.folder,
        [collector],
        models=["two-level"],
        folder=tmp_path / "replayed",
        cache=True,
    )
    records = read_records(results.folder)
    record = next(record for record in records if record.run.manager == collector)
    model = record.outcome.details["models"][0]
    freed = model["operations"]["free"]["calls"]
    # Nothing is freed but by the collector, which comes once a period.
    assert int(said) - PERIOD // OBJECT <= freed <= int(said)
    assert model["phases"]["collector"]["instructions"] > freed


def test_without_debug_information_nothing_is_claimed(tmp_path: Path) -> None:
    program = compiled(tmp_path, "shared.cpp", SHARED_POINTERS, "g++", "-O2", "-pthread")
    found, said = counted(tmp_path, program, str(TIMES))
    assert "retain" not in found
    assert "cannot tell" in said


def test_rc_and_arc(tmp_path: Path) -> None:
    needs_symbols()
    program = compiled(tmp_path, "arcs.rs", ARCS, "rustc", "-O", "-g")
    found, said = counted(tmp_path, program, str(TIMES))
    assert found["retain"] == (3 * TIMES, TIMES)
    released, atomic = found["release"]
    # Those of the two objects themselves, and of what each weakly refers to.
    assert (released, atomic) == (3 * TIMES + 4, TIMES + 2)
    assert "Rust" in said


def test_cpython(tmp_path: Path) -> None:
    """What more turns of a loop add."""
    script = tmp_path / "store.py"
    script.write_text(PYTHON)
    few, many = (
        counted(tmp_path, sys.executable, "-S", "-E", "-B", script, str(times))[0]
        for times in (TIMES, 2 * TIMES)
    )
    retained, released = (many[name][0] - few[name][0] for name in ("retain", "release"))
    assert retained >= TIMES
    assert released >= TIMES
    if sys.version_info[:2] == (3, 11):
        # The value, the list and the index, which are put on the stack, and what was there; the
        # number of the turn is born with a count.
        assert retained // TIMES == 3
        assert released // TIMES == 4


def test_perl(tmp_path: Path) -> None:
    perl = shutil.which("perl")
    if perl is None:
        pytest.skip("perl is not installed")
    few, many = (counted(tmp_path, perl, "-e", PERL, str(times))[0] for times in (TIMES, 2 * TIMES))
    for name in ("retain", "release"):
        assert many[name][0] - few[name][0] == TIMES
