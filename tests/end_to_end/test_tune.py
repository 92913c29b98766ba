"""`tare tune` on programs that run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tare.memory_managers.manager import resolve
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import read_records, read_run
from tare.records.runs import Limits
from tare.studies.tune.observe import Impatient
from tests.end_to_end.test_cli import Tare, start, wait_until

Found = tuple[Path, str, dict[str, Any]]
BASELINE = "delay(glibc, size=64MiB)"
"""It keeps what the program frees, so plain glibc needs less memory, whatever else runs here."""
CHURN = "for i in range(40000): x = bytearray(2000); x[0] = 1"
PROGRAM = ("--", sys.executable, "-c", CHURN)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("tune")
    words = ["--time", "40s", "-m", "glibc", "--baseline", BASELINE, "-o", str(folder / "r")]
    command = [sys.executable, "-m", "tare", "tune", *words, "--json", str(folder / "t.json")]
    done = subprocess.run([*command, *PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "r", done.stdout, json.loads((folder / "t.json").read_text())


def test_what_needs_less_memory_is_found_and_confirmed(
    found: Found,
) -> None:
    _, shown, document = found
    assert 1 <= len(document["settings"]) <= 3
    smallest = min(document["settings"], key=lambda each: each["memory_ratio"])
    assert smallest["memory_high"] < 0.8
    for setting in document["settings"]:
        assert setting["manager"].startswith("glibc")
        assert setting["manager"] in shown.split("Confirmed by fresh runs")[0]
    assert "Confirmed by fresh runs" in shown
    assert "tare compare -m" in shown


def test_each_setting_is_described_with_its_variables(
    found: Found,
) -> None:
    run = read_run(found[0])
    ran = {record.run.manager for record in read_records(found[0])}
    assert ran <= run.managers.keys()
    assert all(run.managers[name].environment for name in ran if name.startswith("glibc(")), (
        "options are carried by variables"
    )


def test_a_page_and_a_later_report_show_the_same(tare: Tare, found: Found) -> None:
    assert (found[0] / "report.html").exists()
    again = tare("report", str(found[0]))
    first = found[1].split("The best settings found")[1].split("Time and memory")[0]
    assert first.splitlines()[1] in again.stdout


@pytest.mark.parametrize("runs", [2, 5])  # of the baseline alone, and of others
def test_an_interrupted_search_goes_on(tmp_path: Path, tare: Tare, runs: int) -> None:
    folder = tmp_path / "r"
    words = ["tune", "--time", "1h", "-m", "glibc", "-o", str(folder), "--no-page", "--"]
    words += ["sh", "-c", "sleep 0.2; test ! -e ended"]
    process = start(*words, cwd=tmp_path)
    seen = folder / "runs.jsonl"
    wait_until(lambda: seen.exists() and len(read_records(folder)) >= runs, "runs")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    kept = read_records(folder)
    assert "the search was interrupted" in tare("report", str(folder)).stdout
    (tmp_path / "ended").touch()  # each further run fails, so that it ends soon
    tare(*words)
    later = read_records(folder)
    assert later[: len(kept)] == kept
    assert len(later) > len(kept)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slower-by", "much"], "write it like 2%"),
        (["--slower-by", "-3%"], "give a share from 0% to"),
        (["--slower-by", "nan"], "give a share from 0% to"),
        (["--time", "soon"], "write it like 90s"),
        (["-m", "jemalloc(decy=0)"], "did you mean decay?"),
        (["-m", "jemaloc"], "did you mean jemalloc?"),
        (["-m", "jemalloc(tcache-max=1GiB)"], "must be up to 32KiB"),
        (["-m", "jvm.g1(heap=2x)"], "multiples of the minimum heap"),
        (["-m", "immix"], "a collector for replays"),
    ],
)
def test_bad_input(tare: Tare, words: list[str], message: str) -> None:
    done = tare("tune", *words, "--", "true")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_baseline_that_fails_is_told_of(tare: Tare, tmp_path: Path) -> None:
    done = tare("tune", "--time", "5s", "-m", "glibc", "-o", str(tmp_path / "r"), "--", "false")
    assert done.returncode == 1
    assert "a run under glibc did not succeed" in done.stdout


def test_a_run_that_takes_far_too_long_is_ended(tmp_path: Path) -> None:
    observe = Impatient()
    quick, slow = (Program("p", ("sleep", seconds)) for seconds in ("0.1", "3600"))
    assert observe(quick, resolve("own"), Limits(), tmp_path).status is Status.OK
    assert observe(slow, resolve("own"), Limits(), tmp_path).status is Status.TIMEOUT
