"""`tare suite run --study`: other studies than a comparison over the programs of a suite."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import TareError
from tare.observers.instrument import launcher
from tare.records.results import read_records
from tare.studies.count.sites import costs
from tests.conftest import Completed

SUITE = """
schema = 1
name = "two"
description = "two small programs"
[[program]]
name = "sorted"
description = "x"
command = ["sort", "{suite}/two.toml"]
[[program]]
name = "said"
description = "x"
command = ["echo", "said"]
timeout_seconds = 5
"""


def run(tare: Callable[..., Completed], folder: Path, *arguments: str) -> Completed:
    (folder / "two.toml").write_text(SUITE)
    return tare("suite", "run", "two.toml", "--no-page", *arguments)


def test_each_program_of_a_suite_is_counted(tare: Callable[..., Completed], tmp_path: Path) -> None:
    try:
        launcher()
    except TareError as error:
        pytest.skip(error.message)
    done = run(tare, tmp_path, "--study", "count", "--sites", "-m", "glibc", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    out = json.loads((tmp_path / "out.json").read_text())
    assert out["study"] == "count"
    counted = {
        row["program"]: row["value"]
        for row in out["measurements"]
        if row["metric"] == "instructions"
    }
    assert set(counted) == {"sorted", "said"}
    assert counted["sorted"] != counted["said"]
    (folder,) = (tmp_path / "tare-results").iterdir()
    for record in read_records(folder):
        every = costs(record.outcome)
        assert sum(cost.calls for cost in every if cost.operation == "malloc") > 0
    assert folder.name.startswith("count-suite-two-")
    asked = json.loads((folder / "run.json").read_text())["programs"]
    assert {each["name"]: each["timeout_seconds"] for each in asked} == {
        "sorted": 6000,
        "said": 500,
    }


@pytest.mark.parametrize("option", ["--runs", "--warmup", "--iterations"])
def test_a_study_refuses_what_is_for_comparisons(
    tare: Callable[..., Completed], tmp_path: Path, option: str
) -> None:
    done = run(tare, tmp_path, "--study", "space", option, "6")
    assert done.returncode == 2
    assert f"{option} does not apply to --study space" in done.stderr
    assert not (tmp_path / "tare-results").exists()


def test_an_option_of_another_study_is_refused(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    for study, option in [("space", ("--sites",)), ("count", ("--model", "two-level"))]:
        done = run(tare, tmp_path, "--study", study, *option)
        assert done.returncode == 2
        assert f"{option[0]} does not apply to --study {study}" in done.stderr
    assert not (tmp_path / "tare-results").exists()
