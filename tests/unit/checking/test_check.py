"""`tare check`: limits as they are written, what is measured for them, and the verdicts."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tare as api
from tare.base.errors import UsageError
from tare.checking.limits import (
    DERIVED,
    KEPT,
    NO_FIGURE,
    OVER,
    UNSETTLED,
    judged,
    most_of,
)
from tare.records.metrics import METRICS, WITH_LIMITS
from tare.records.results import Results
from tests.support.campaigns import described


def write(
    folder: Path, limits: str, more: str = "", command: str = '["sort", "{suite}/x"]'
) -> Path:
    (folder / "x").write_text("b\na\n" * 1000)
    path = folder / "limits.toml"
    path.write_text(
        'schema = 1\nname = "mine"\ndescription = "limits"\n[[program]]\nname = "one"\n'
        f'description = "a program"\ncommand = {command}\n{more}\n[program.limits]\n{limits}\n'
    )
    return path


def test_metrics_are_known_and_each_has_one_study() -> None:
    names = [name for metrics in WITH_LIMITS.values() for name in metrics]
    assert len(set(names)) == len(names)
    assert set(names) <= set(METRICS)
    assert {part for parts in DERIVED.values() for part in parts} <= set(names)


@pytest.mark.parametrize(
    ("metric", "given", "most"),
    [
        ("peak_resident_bytes", "24MiB", 24 << 20),
        ("peak_resident_bytes", 1000, 1000),
        ("wall_seconds", "300ms", 0.3),
        ("wall_seconds", "2 min", 120),
        ("wall_seconds", 1.5, 1.5),
        ("drag_ratio", "1.25", 1.25),
        ("instructions", "5M", 5e6),
        ("instructions", "1.5e9", 1.5e9),
        ("manager_instructions_share", "15%", 0.15),
        ("lag_share", 0.5, 0.5),
    ],
)
def test_a_limit_may_have_its_unit(metric: str, given: str | float, most: float) -> None:
    assert most_of(metric, given) == pytest.approx(most)


@pytest.mark.parametrize(
    ("metric", "given", "word"),
    [
        ("peak_resident_bytes", "24 apples", "not a size"),
        ("wall_seconds", "24MiB", "write it like 300ms"),
        ("wall_seconds", "", "write it like 300ms"),
        ("instructions", "-5", "write it like"),
        ("instructions", -5.0, "not negative"),
        ("wall_seconds", float("nan"), "not negative"),
        ("wall_second", 1.0, "wall_seconds"),
        ("zzz", 1.0, "known:"),
        ("graph_digest", 1.0, "not a metric that can have a limit"),
    ],
)
def test_what_is_no_limit_is_refused(metric: str, given: str | float, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        most_of(metric, given)
    assert word in f"{caught.value.message} {caught.value.hint}"


def results_of(folder: Path, values: list[float], most: float) -> Results:
    """Results with runs of one metric, and a limit of it."""
    schema = {
        **dict.fromkeys(("study", "program", "manager", "metric", "status"), pl.String),
        "order": pl.Int64,
        "value": pl.Float64,
    }
    rows = [
        ("compare", "one", "glibc", "wall_seconds", "ok", order, value)
        for order, value in enumerate(values)
    ]
    document = described("check", ["one"], ["glibc"])
    document["request"] = {"limits": [["one", "glibc", "wall_seconds", most]]}
    return Results(folder, document, pl.DataFrame(rows, schema=schema, orient="row"))


@pytest.mark.parametrize(
    ("values", "most", "verdict"),
    [
        ([1.0, 1.1, 1.2], 1.2, KEPT),
        ([1.0, 1.1, 1.2], 1.15, UNSETTLED),
        ([1.0, 1.1, 1.2], 0.99, OVER),
        ([1.0], 1.0, KEPT),
        ([], 1.0, NO_FIGURE),
    ],
)
def test_verdicts(tmp_path: Path, values: list[float], most: float, verdict: str) -> None:
    results = results_of(tmp_path, values, most)
    (row,) = judged(results)
    assert row.verdict == verdict
    assert row.runs == len(values)
    assert api.limits_broken(results) == (verdict in (OVER, NO_FIGURE))
    assert api.limits_broken(results, strict=True) == (verdict != KEPT)


REQUESTS: tuple[object, ...] = (
    *(None, [], {}),
    *({"limits": given} for given in (1, [["a", "b", "wall_seconds"]], [["a", "b", "rm", 1]])),
    *({"limits": [["a", 2, "wall_seconds", 1]]}, {"limits": [["a", "b", "wall_seconds", "1"]]}),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_a_run_file_from_elsewhere_is_checked(tmp_path: Path, request_: object) -> None:
    results = results_of(tmp_path, [1.0], 2.0)
    results.document["request"] = request_
    with pytest.raises(UsageError):
        judged(results)


def test_only_a_program_with_limits_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        api.check(write(tmp_path, "wall_seconds = 1"), ["another"])
