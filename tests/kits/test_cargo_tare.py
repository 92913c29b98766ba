"""kits/cargo-tare, as users run it: `cargo tare` on tiny crates that need no registry."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

KIT = ROOT / "kits" / "cargo-tare"
TARGET = ROOT / "build" / "cargo-tare"
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed"),
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
]
MANIFEST = """
[package]
name = "tiny"
version = "0.1.0"
edition = "2021"

[profile.release]
strip = true
"""
LIBRARY = """
pub fn strings(count: usize) -> usize {
    (0..count).map(|number| number.to_string()).collect::<Vec<_>>().len()
}

#[cfg(test)]
mod tests {
    #[test]
    fn few() { assert_eq!(super::strings(10), 10); }

    #[test]
    fn many() { assert_eq!(super::strings(500), 500); }

    #[test]
    #[ignore]
    fn failing() { panic!("as it should") }
}
"""
MAIN = 'fn main() { println!("{}", tiny::strings(300)); }'
OUTER = """
use std::alloc::{GlobalAlloc, Layout, System};
struct Own;
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 { System.alloc(layout) }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) { System.dealloc(at, layout) }
}
#[global_allocator] static ALLOCATOR: Own = Own;
#[test] fn outer() { assert_eq!(tiny::strings(50), 50); }
"""


@pytest.fixture(scope="module")
def kit() -> Path:
    """The folder of the command cargo-tare."""
    words: list[str | Path] = ["cargo", "build", "--quiet", "--locked", "--target-dir", TARGET]
    built = subprocess.run(words, cwd=KIT, capture_output=True, text=True)
    if "failed to download" in built.stderr or "offline mode" in built.stderr:
        pytest.skip("the registry of crates cannot be reached")
    if "requires rustc" in built.stderr:
        pytest.skip("rustc is older than the kit's crates need")
    assert built.returncode == 0, built.stderr
    return TARGET / "debug"


@pytest.fixture(scope="module")
def crate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    files = {
        "Cargo.toml": MANIFEST,
        "src/lib.rs": LIBRARY,
        "src/main.rs": MAIN,
        "tests/outer.rs": OUTER,
        "benches/own.rs": 'fn main() { println!("none"); }',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with (folder / "Cargo.toml").open("a") as manifest:
        manifest.write('\n[[bench]]\nname = "own"\nharness = false\n')
    return folder


def run(
    kit: Path, crate: Path, *words: str, without_tare: bool = False
) -> subprocess.CompletedProcess[str]:
    needed = [Path(shutil.which(name) or "").parent for name in ("cargo", "cc", "sh")]
    folders = [kit, *needed] if without_tare else [kit, Path(sys.executable).parent]
    if without_tare and any((folder / "tare").exists() for folder in folders):
        pytest.skip("tare is installed in the folder of cargo or of a compiler")
    path = [*map(str, folders), *([] if without_tare else [os.environ["PATH"]])]
    environment = {name: value for name, value in os.environ.items() if "CARGO_TARGET" not in name}
    return subprocess.run(
        ["cargo", "tare", *words],
        cwd=crate,
        capture_output=True,
        text=True,
        env={**environment, "PATH": os.pathsep.join(path)},
    )


def test_each_test_has_its_objects_and_the_next_run_their_change(kit: Path, crate: Path) -> None:
    done = run(kit, crate, "test", "--tare-json", "figures.json")
    assert done.returncode == 0, done.stderr
    assert "2 passed" in done.stdout
    assert re.search(r"^tests::many +501 .* new +\d+% src/lib\.rs:[34]", done.stdout, re.MULTILINE)
    told = json.loads((crate / "figures.json").read_text())
    rows = {(row["group"], row["name"]): row for row in told["rows"]}
    assert rows["tiny", "tests::few"]["cost"]["objects"] == 11
    assert rows["tiny", "tests::many"]["cost"]["objects"] == 501
    assert rows["tiny", "tests::many"]["cost"]["bytes"] >= 500 * 24 + 10 + 90 * 2 + 400 * 3
    assert rows["tiny outer", "outer"]["cost"]["objects"] >= 51
    # No line of the program's own allocator, which is between the test and malloc.
    places = rows["tiny outer", "outer"]["places"]
    assert {place.partition(":")[0] for place in places} == {"src/lib.rs"}
    assert rows["tiny", "(outside of tests)"]["cost"]["objects"] > 0
    assert told["not_measured"] == []

    again = run(kit, crate, "test", "--lib", "many")
    (line,) = re.findall(r"^tests::many .*$", again.stdout, re.MULTILINE)
    # Alone it can take other paths through the allocator, but the run before is known.
    assert line.split()[1] == "501"
    assert " new " not in line
    assert "tests::few" not in again.stdout.partition("Memory management")[2]


def test_failing_tests_keep_their_exit_code(kit: Path, crate: Path) -> None:
    done = run(kit, crate, "test", "--lib", "failing", "--", "--ignored")
    assert done.returncode == 101
    assert "not measured: the tests failed" in done.stderr


def test_without_tare_tests_run_and_nothing_else_does(kit: Path, crate: Path) -> None:
    done = run(kit, crate, "test", "--lib", without_tare=True)
    assert done.returncode == 0, done.stderr
    assert "2 passed" in done.stdout
    assert "not measured: tare is not installed" in done.stderr
    strict = run(kit, crate, "test", "--lib", "--tare-strict", without_tare=True)
    assert strict.returncode == 3
    for verb in ("run", "bench"):
        done = run(kit, crate, verb, without_tare=True)
        assert done.returncode == 3
        assert done.stderr.startswith("cargo tare: tare is not installed")


def test_a_program_is_measured_in_release_with_its_lines(kit: Path, crate: Path) -> None:
    options = "--once --sites -m glibc -q -o counts"
    done = run(kit, crate, "--tare-study", "count", "--tare", options)
    assert done.returncode == 0, done.stderr
    assert "target/release/tiny" in done.stderr
    (line,) = (crate / "counts" / "runs.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["values"]["objects"] >= 301
    lines = {frame["file"] for frame in record["details"]["call_sites"]["frames"]}
    assert str(crate / "src" / "lib.rs") in lines


def test_benchmarks_of_no_known_harness_are_told(kit: Path, crate: Path) -> None:
    done = run(kit, crate, "bench")
    assert done.returncode == 0, done.stderr
    assert "not measured: own: it has neither criterion nor divan" in done.stderr
    assert run(kit, crate, "bench", "--tare-strict").returncode == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--tare-studio", "x"], "there is no option --tare-studio"),
        (["input.txt"], "arguments of the program come after --"),
        (["--manifest-path", "nowhere/Cargo.toml"], "nowhere/Cargo.toml"),
    ],
)
def test_wrong_usage_has_exit_code_2(kit: Path, crate: Path, words: list[str], why: str) -> None:
    done = run(kit, crate, *words)
    assert done.returncode == 2
    assert why in done.stderr
    assert "panicked" not in done.stderr


def test_the_marks_of_allocators_are_those_of_tare() -> None:
    source = (KIT / "src" / "counting.rs").read_text()
    found = re.search(r"let marks = \[([^\]]*)\]", source)
    assert found is not None
    marks = re.findall(r'"([^"]*)"', found[1])
    known = (ROOT / "tare" / "observers" / "private_allocators.toml").read_text()
    assert marks
    assert all(f'"{mark}"' in known for mark in marks)
