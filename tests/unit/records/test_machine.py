"""Settings of a machine that add noise, and what `tare doctor --fix` does to them."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from tare import __main__ as main
from tare.base.documents import converted
from tare.cli import doctor
from tare.records import machine, stalls
from tare.records.header import Machine
from tare.records.machine import Warning_, describe_machine, noise_warnings, set_quiet
from tare.records.stalls import Stalls

QUIET = {
    **describe_machine(),
    "load_average": 0.0,
    "cores": 2,
    "frequency_governor": "performance",
    "turbo": "off",
    "transparent_huge_pages": "madvise",
    "swap": False,
    "hypervisor": False,
}


def warnings_of(**changes: Any) -> list[Warning_]:
    return noise_warnings(converted({**QUIET, **changes}, Machine))


def kernel_file(root: Path, name: str, text: str) -> Path:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    return path


def test_a_quiet_machine_has_no_warning() -> None:
    assert warnings_of() == []


@pytest.mark.parametrize(
    ("setting", "value", "can_be_set"),
    [
        ("load_average", 1.1, False),
        ("frequency_governor", "powersave", True),
        ("turbo", "on", True),
        ("transparent_huge_pages", "always", True),
        ("swap", True, False),
        ("hypervisor", True, False),
    ],
)
def test_a_noisy_setting_is_named(setting: str, value: Any, can_be_set: bool) -> None:
    (warning,) = warnings_of(**{setting: value})
    assert warning.effect
    assert warning.mend
    assert bool(warning.files) is can_be_set


def test_every_file_of_a_setting_is_written(tmp_path: Path) -> None:
    names = [f"/sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor" for n in (0, 1)]
    files = [kernel_file(tmp_path, name, "powersave") for name in names]
    (warning,) = warnings_of(frequency_governor="powersave")
    changes = set_quiet(warning, tmp_path)
    assert [change.file for change in changes] == files
    for file, change in zip(files, changes, strict=True):
        assert (change.before, change.now, change.trouble) == ("powersave", "performance", "")
        assert file.read_text() == "performance"


def test_a_choice_in_brackets_is_what_was_chosen(tmp_path: Path) -> None:
    name = "/sys/kernel/mm/transparent_hugepage/enabled"
    kernel_file(tmp_path, name, "[always] madvise never")
    (warning,) = warnings_of(transparent_huge_pages="always")
    (change,) = set_quiet(warning, tmp_path)
    assert (change.before, change.now) == ("always", "madvise")


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "setting").mkdir()  # root may write any file, and no folder
    warning = Warning_("a setting", "noise", "nothing", ("setting",), "quiet")
    (change,) = set_quiet(warning, tmp_path)
    assert "cannot be written" in change.trouble


def test_nothing_is_touched_that_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "describe_machine", lambda: QUIET)
    assert main.run(["doctor", "--fix"]) == 0
    assert "nothing to set" in capsys.readouterr().out


def test_fix_says_what_it_did_and_how_to_undo_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "/sys/devices/system/cpu/cpufreq/boost"
    file = kernel_file(tmp_path, name, "1")
    (tmp_path / "folder").mkdir()
    warnings = [
        Warning_("turbo on", "noise", "fix", (name,), "0"),
        Warning_("another", "noise", "fix", ("folder",), "0"),
    ]
    monkeypatch.setattr(doctor, "noise_warnings", lambda _machine: warnings[:1])
    monkeypatch.setattr(doctor, "set_quiet", lambda each: machine.set_quiet(each, tmp_path))
    (finding,) = doctor.fix()
    assert finding.state == "set"
    assert finding.detail.startswith("1 → 0")
    assert finding.mend == f"to undo: echo 1 > {file}"
    assert main.run(["doctor", "--fix"]) == 0
    assert "set" in capsys.readouterr().out
    assert file.read_text() == "0"
    monkeypatch.setattr(doctor, "noise_warnings", lambda _machine: warnings)
    assert main.run(["doctor", "--fix"]) == 4


def test_stalls_are_what_the_clock_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.accumulate(itertools.cycle([2e-3, *[2e-5] * 900]))  # stalls take a tenth
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    usable = os.sched_getaffinity(0)
    found = stalls.measure_stalls()
    assert found.share == pytest.approx(0.1, abs=0.01)
    assert found.longest_seconds == pytest.approx(2e-3)
    assert os.sched_getaffinity(0) == usable


def test_doctor_says_which_latencies_are_the_machines() -> None:
    assert doctor.finding_of(Stalls(0.0009, 0.0002)).state == "works"
    finding = doctor.finding_of(Stalls(0.0069, 0.0055))
    assert finding.state == "noise"
    assert finding.detail == (
        "they took 0.7% of a busy thread's time, the longest 5.50 ms: "
        "latencies above p99.31 are the machine's"
    )


def test_clocks_are_those_that_the_kernel_tells(tmp_path: Path) -> None:
    assert machine.frequencies_mhz(tmp_path) is None
    for number, text in enumerate(("2100000", "3400000", "")):
        kernel_file(tmp_path, f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_cur_freq", text)
    clocks = machine.frequencies_mhz(tmp_path)
    assert clocks is not None
    assert clocks[0] == 2100
