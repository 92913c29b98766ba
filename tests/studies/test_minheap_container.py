"""`tare minheap --container`: limits of the kernel on real programs, and no group left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tare.answers.building import build_report
from tare.base.errors import MissingError
from tare.memory_managers.manager import resolve
from tare.observers import containers
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.conditions import Container
from tare.records.metrics import Status
from tare.records.results import load as load_results
from tare.records.results import read_records
from tare.records.runs import Limits, Outcome
from tare.report.page import render_page
from tare.studies.minheap.container_report import HIGH, LOW, MULTIPLES, NO_LIMIT, NO_QUOTA, RUNS
from tare.studies.minheap.details import Details
from tests.conftest import TARE, Completed
from tests.native.test_runner import SPIN, TOUCH

MIB = 1 << 20


def _why_not() -> str:
    try:
        containers.check(Container(processors=1.0))
    except MissingError as error:
        return str(error)
    return ""


WHY_NOT = _why_not()
needs_containers = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def groups() -> list[str]:
    return list(map(str, Path("/sys/fs/cgroup").rglob("tare-*-*")))


@pytest.fixture(autouse=True)
def no_group_is_left() -> Iterator[None]:
    before = set(groups())
    yield
    while set(groups()) - before:  # a launcher that outlives its Tare takes a moment
        time.sleep(0.02)


def run(tmp_path: Path, container: Container, *argv: str | Path) -> Outcome:
    program = Program("test", tuple(map(str, argv)))
    return run_once(program, resolve("glibc"), Limits(container=container), tmp_path)


@needs_containers
def test_who_is_killed_at_the_limit_is_told_from_who_fails(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    touch, small = compile_c(TOUCH), Container(20 * MIB)
    killed = run(tmp_path, small, touch, "64")
    assert killed.status is Status.OUT_OF_MEMORY
    assert "at its container's limit" in killed.reason
    assert not killed.values
    failed = run(tmp_path, small, "sh", "-c", "exit 3")
    assert failed.status is Status.FAILED
    by_another = run(tmp_path, small, "sh", "-c", "kill -9 $$")
    assert by_another.status is Status.FAILED
    well = run(tmp_path, Container(100 * MIB), touch, "64")
    assert well.status is Status.OK
    assert 64 * MIB < well.details["container"]["peak_bytes"] <= 100 * MIB


@needs_containers
def test_a_child_that_is_killed_spoils_the_run(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    """With groups of the second version its parent is killed as well."""
    outcome = run(tmp_path, Container(20 * MIB), "sh", "-c", f"{compile_c(TOUCH)} 64; exit 0")
    assert outcome.status is Status.OUT_OF_MEMORY


@needs_containers
def test_a_quota_makes_time_longer(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    """300 ms of processor time; the kernel gives 50 ms of each 100."""
    outcome = run(tmp_path, Container(processors=0.5), compile_c(SPIN))
    assert outcome.status is Status.OK
    assert outcome.values["wall_seconds"] > 0.45


@needs_containers
def test_the_least_limit_is_what_the_program_touches(
    tare: Callable[..., Completed], tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    done = tare(
        *("minheap", "--container", "--quota", "1.5", "--repeats", "1", "-m", "glibc"),
        *("-m", "mimalloc", "-o", "r", "--", compile_c(TOUCH), "30"),
    )
    assert done.returncode == 0, done.stderr
    records = read_records(tmp_path / "r")
    assert [record.run.manager for record in records] == ["glibc", "mimalloc"]
    for record in records:
        values = record.outcome.values
        assert 30 * MIB < values[HIGH] < 45 * MIB
        assert 0 < values[LOW] < values[HIGH]
        near = {each.multiple: each for each in record.outcome.details_as(Details).near}
        assert near.keys() == {*MULTIPLES, NO_LIMIT, NO_QUOTA}
        ended = [len(each.timed) + each.killed + each.failed for each in near.values()]
        assert ended == [RUNS] * len(near)
        trials = record.outcome.details["trials"]
        # One that is just large enough can be so slow, for its pages go and come, that it counts
        # as too small.
        too_small = {status for size, status, _ in trials if size <= values[LOW]}
        assert too_small
        assert too_small <= {"out-of-memory", "timeout"}
        assert {status for size, status, _ in trials if size < 30 * MIB} <= {"out-of-memory"}
    results = load_results(tmp_path / "r")
    (section, *_) = build_report(results).sections
    assert "The least memory limit is that of" in section.findings[0]
    assert "has the time of 1.5 processors" in " ".join(section.findings)
    limits, near_it, trials_table = section.tables
    assert [column.title for column in limits.columns][-1] == "without quota"
    assert len(near_it.rows) == len(trials_table.rows) == 2
    assert section.figures
    assert "Least limits" in render_page(build_report(results))
    assert not (tmp_path / "r/trials.jsonl").exists()


@needs_containers
def test_a_program_that_fails_anyway_is_not_searched_for(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    done = tare("minheap", "--container", "-m", "glibc", "-o", "r", "--no-page", "--", "false")
    assert done.returncode == 1
    (record,) = read_records(tmp_path / "r")
    assert record.outcome.status is Status.FAILED
    assert "trials" not in record.outcome.details


@needs_containers
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_whatever_ends_tare_leaves_no_group(tmp_path: Path, number: signal.Signals) -> None:
    words = ["minheap", "--container", "-m", "glibc", "-o", "r", "--", "sh", "-c"]
    script = f"echo > {tmp_path}/runs; exec sleep 600"
    process = subprocess.Popen([*TARE, *words, script], cwd=tmp_path, stderr=subprocess.PIPE)
    while not (tmp_path / "runs").exists():
        assert process.poll() is None
        time.sleep(0.02)
    assert any(f"tare-{process.pid}-" in group for group in groups())
    os.kill(process.pid, number)
    process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 130)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--quota", "0.5"], "add --container"),
        (["--container", "--quota", "0"], "--quota 0"),
        (["--container", "--step", "1"], "at least a page"),
        (["--container", "--slow", "1"], "--slow 1"),
    ],
)
def test_wrong_usage(tare: Callable[..., Completed], words: list[str], said: str) -> None:
    done = tare("minheap", "-m", "glibc", *words, "--", "true")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_who_may_make_no_group_is_told(tmp_path: Path) -> None:
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        pytest.skip("only root with setpriv (package util-linux) can become another user")
    words = ["minheap", "--container", "-m", "glibc", "--", "true"]
    nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run(
        [*nobody, *TARE, *words],
        cwd="/",
        env={**os.environ, "HOME": "/"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "No module" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip("another user cannot read this installation")
    assert done.returncode == 3, done.stderr
    assert "no container can be made here" in done.stderr
    assert "run as root" in done.stderr
