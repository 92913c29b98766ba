"""Programs in Rust with the allocators of its most used crates, under managers and observers.

The crates bring the allocators' sources along, which takes minutes to build: behind `make soak`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.memory_managers.manager import OWN, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.coverage import Covered
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.support import ROOT

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed"),
]
ALLOCATORS = {"jemalloc": "_rjem_", "mimalloc": "mi_", "snmalloc": "sn_"}


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder with a program for each allocator."""
    target = ROOT / "build" / "rust-allocators"
    source = Path(__file__).with_name("rust_allocators")
    command: list[str | Path] = ["cargo", "build", "--release", "--locked", "--target-dir", target]
    subprocess.run(command, cwd=source, check=True)
    return target / "release"


def run(folder: Path, program: Path, manager: str) -> Outcome:
    return run_once(Program("test", (str(program),)), resolve(manager), Limits(), folder)


def covered(outcome: Outcome) -> Covered:
    found = outcome.details_as(Covered)
    assert found.coverage is not None, outcome
    return found


@pytest.mark.parametrize("manager", ["glibc", "mimalloc", "jemalloc", "snmalloc", "tcmalloc"])
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_program_with_an_allocator_of_a_crate_is_served(
    tmp_path: Path, programs: Path, allocator: str, manager: str
) -> None:
    program = programs / f"with-{allocator}"
    outcome = run(tmp_path, program, manager)
    assert outcome.status is Status.OK, (outcome.reason, outcome.error_tail)
    found = covered(outcome)
    assert found.coverage is not None
    assert found.coverage.share > 0.97
    (own,) = found.own_allocators
    assert (own.prefix, own.is_redirected, own.allocator) == (
        ALLOCATORS[allocator],
        True,
        allocator,
    )
    alone = run(tmp_path, program, OWN)
    assert outcome.output_sha256 == alone.output_sha256
    assert covered(alone).coverage.share < 0.1  # type: ignore[union-attr]


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_without_symbols_it_is_told_that_nothing_serves_it(
    tmp_path: Path, programs: Path, allocator: str
) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, programs / f"with-{allocator}"], check=True)
    outcome = run(tmp_path, stripped, "glibc")
    assert outcome.status is Status.NOT_COVERED, outcome
    assert f"{allocator} in stripped" in outcome.reason


@pytest.mark.parametrize("command", ["count", "drag", "space"])
def test_observers_see_the_objects_that_the_system_would_serve(
    tare: Callable[..., subprocess.CompletedProcess[str]], programs: Path, command: str
) -> None:
    values = {}
    for name in ("the-system", *ALLOCATORS):
        program = programs / f"with-{name}"
        shown = tare(command, "--no-page", "-q", "--json", "-", "-m", "glibc", "--", program)
        assert shown.returncode == 0, shown.stdout + shown.stderr
        rows = json.loads(shown.stdout)["measurements"]
        values[name] = {row["metric"]: row["value"] for row in rows}
    for metric in ("objects", "allocated_bytes", "requested_bytes"):
        seen = [found[metric] for found in values.values() if metric in found]
        if seen:
            assert max(seen) <= 1.25 * min(seen), (metric, values)
