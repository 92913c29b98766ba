"""`tare compare --metric`: figures that a program prints itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tare.answers.building import build_report
from tare.records.metrics import Status
from tare.records.results import load, read_records
from tests.conftest import Completed

SCRIPT = """
read ticks _ < /proc/uptime
echo "$ticks"
echo "served 2000 requests/s, slowest 12us"
echo "count 41" >&2
"""
"""Another output each time."""
PATTERNS = (
    *("--metric", r"rps=served (\d+) requests/s"),
    *("--metric", "p99=slowest ([0-9]+us)"),
    *("--metric", "number=count ([0-9]+)"),
)


def test_printed_figures_are_those_of_each_run(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    words = ("-n", "2", "-m", "glibc", "-m", "own", "-o", "r", "--no-page")
    done = tare("compare", *words, *PATTERNS, "--", "sh", "-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    records = read_records(tmp_path / "r")
    assert {record.outcome.status for record in records} == {Status.OK}
    for record in records:
        values = record.outcome.values
        assert values["requests_per_second"] == 2000
        assert values["latency_p99_seconds"] == pytest.approx(12e-6)
        assert values["printed_number"] == 41
        assert values["wall_seconds"] > 0
    (section, *_) = build_report(load(tmp_path / "r")).sections
    (printed,) = (each for each in section.tables if each.identifier == "table-printed")
    titles = [column.title for column in printed.columns]
    assert titles[::3] == ["manager", "95% interval", "95% interval", "95% interval"]
    assert titles[1::3] == ["requests per second", "latency p99", "number"]
    assert [row[0].text for row in printed.rows] == ["glibc", "own"]
    assert printed.rows[1][2].text == "1.000"


def test_without_the_figure_a_run_has_failed(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    words = ("-n", "1", "--warmup", "0", "-m", "glibc", "-o", "r", "--no-page")
    done = tare("compare", *words, "--metric", "rps=([0-9]+) ops", "--", "echo", "hello")
    assert done.returncode == 1
    assert "nothing that --metric finds for requests_per_second" in done.stderr
    (first, *_) = read_records(tmp_path / "r")
    assert first.outcome.status is Status.FAILED
    assert not first.outcome.values


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("rps=(", "no regular expression"),
        ("rps=5", "put the number into a group"),
        ("speed=(.*)", "with a name of rps, p50"),
        ("rps=(hello)", "printed 'hello' where a number was looked for"),
        ("number=(-5)", "printed '-5' where a number was looked for"),
        ("max=(inf)", "printed 'inf' where a number was looked for"),
    ],
)
def test_a_wrong_pattern_is_refused(tare: Callable[..., Completed], metric: str, said: str) -> None:
    words = ("-n", "1", "--warmup", "0", "-m", "glibc", "--no-page", "--metric", metric)
    done = tare("compare", *words, "--", "echo", "hello -5 inf")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
