"""What `tare diff` says of results whose answer is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.answers.diff import VERDICTS, diff
from tare.base.errors import UsageError
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, load, measurement_schema
from tare.records.runs import Outcome, Record, Run
from tests.support import campaigns

METRIC = "wall_seconds"
TRIALS = 40


def make(
    pairs: dict[tuple[str, str], list[float | None]],
    metric: str = METRIC,
    baseline: str = "glibc",
    **run: Any,
) -> Results:
    """Values of one metric by (program, manager), interleaved; None is a run that timed out."""
    rows: list[tuple[Any, ...]] = []
    longest = max(map(len, pairs.values()))
    for invocation in range(longest):
        for (program, manager), values in pairs.items():
            if invocation < len(values):
                value = values[invocation]
                rows.append(
                    (
                        *("compare", program, manager, invocation, len(rows)),
                        METRIC if value is None else metric,
                        value,
                        METRICS[metric].unit,
                        "timeout" if value is None else "ok",
                        "executed",
                    )
                )
    frame = pl.DataFrame(rows, schema=measurement_schema(), orient="row")
    document = {**campaigns.described("compare", ["gawk"], [baseline]), **run}
    return Results(Path("results"), document, frame)


def noisy(seed: int, level: float = 1.0, runs: int = 12, noise: float = 0.01) -> list[float | None]:
    generator = np.random.default_rng(seed)
    return [float(level * (1 + noise * generator.normal())) for _ in range(runs)]


def two(seed: int, factor: float = 1.0, **options: Any) -> Results:
    """A baseline that stays, and a manager at ``factor`` of it."""
    return make(
        {
            ("gawk", "glibc"): noisy(seed, runs=24),
            ("gawk", "mimalloc"): noisy(seed + 5000, 0.9 * factor),
        },
        **options,
    )


def verdict_of(rows: pl.DataFrame, manager: str = "mimalloc", metric: str = METRIC) -> str:
    (row,) = rows.filter((pl.col("manager") == manager) & (pl.col("metric") == metric)).to_dicts()
    return str(row["verdict"])


def test_the_same_against_itself_seldom_regresses() -> None:
    regressed = [diff(two(2 * s), two(2 * s + 1)).regressed for s in range(TRIALS)]
    assert sum(regressed) <= TRIALS * 0.05


def test_a_tenth_more_is_found() -> None:
    for seed in range(TRIALS):
        result = diff(two(seed), two(seed + 900, factor=1.1))
        assert result.regressed
        assert verdict_of(result.rows) == "regression"
        assert verdict_of(result.rows, "glibc") in ("no difference seen", "within threshold")


def test_a_tenth_less_is_an_improvement() -> None:
    result = diff(two(1), two(901, factor=0.9))
    assert not result.regressed
    assert verdict_of(result.rows) == "improvement"
    better, worse = result.report.sections[0].findings[:2]
    assert better.startswith("1 improvement")
    assert worse.startswith("No regression")


def test_the_ratio_is_that_of_the_medians() -> None:
    old, new = two(1), two(2, factor=1.3)
    (row,) = diff(old, new).rows.filter(pl.col("manager") == "mimalloc").to_dicts()
    medians = [
        r.measurements.filter(pl.col("manager") == "mimalloc")["value"].median() for r in (old, new)
    ]
    assert (row["old"], row["new"]) == (medians[0], medians[1])
    assert row["ratio"] == pytest.approx(row["new"] / row["old"])
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]


@settings(max_examples=30, deadline=None)
@given(
    factor=st.floats(0.5, 2.0),
    threshold=st.floats(0.0, 0.5),
    values=st.lists(st.floats(0.5, 2.0), min_size=6, max_size=12),
)
def test_nothing_within_the_threshold_regresses(
    factor: float, threshold: float, values: list[float]
) -> None:
    old = make({("p", "glibc"): [*values]})
    new = make({("p", "glibc"): [value * factor for value in values]})
    result = diff(old, new, threshold=threshold)
    if factor <= 1 + threshold * 0.999:
        assert not result.regressed
    backwards = diff(new, old, threshold=threshold)
    if result.regressed:
        assert not backwards.regressed


def test_a_sure_but_small_change_is_not_called_none() -> None:
    exact = [1.0 + number * 1e-6 for number in range(12)]
    result = diff(
        make({("p", "glibc"): [*exact]}), make({("p", "glibc"): [v * 1.01 for v in exact]})
    )
    assert verdict_of(result.rows, "glibc") == "within threshold"
    assert not result.regressed
    assert diff(
        make({("p", "glibc"): [*exact]}),
        make({("p", "glibc"): [v * 1.01 for v in exact]}),
        threshold=0.005,
    ).regressed


def test_two_runs_are_too_few() -> None:
    result = diff(make({("p", "glibc"): [1.0, 1.01]}), make({("p", "glibc"): [2.0, 2.01]}))
    assert verdict_of(result.rows, "glibc") == "too few runs"
    assert not result.regressed


def test_other_metrics_never_fail() -> None:
    old = make({("p", "glibc"): noisy(1, 1000)}, metric="minor_faults")
    new = make({("p", "glibc"): noisy(2, 9000)}, metric="minor_faults")
    result = diff(old, new)
    assert verdict_of(result.rows, "glibc", "minor_faults") == "higher"
    assert not result.regressed


@pytest.mark.parametrize(
    ("metric", "factor", "verdict", "headline"),
    [
        ("requests_per_second", 0.8, "regression", "fewer requests a second"),
        ("requests_per_second", 1.25, "improvement", "more requests a second"),
        ("latency_p99_seconds", 1.25, "regression", "longer p99"),
        ("latency_p99_seconds", 0.8, "improvement", "shorter p99"),
        ("idle_resident_bytes", 1.25, "regression", "more memory when idle"),
    ],
)
def test_services_are_judged_and_of_requests_more_is_better(
    metric: str, factor: float, verdict: str, headline: str
) -> None:
    old, new = (
        make({("gawk", "glibc"): noisy(seed, level)}, metric=metric)
        for seed, level in ((1, 1.0), (2, factor))
    )
    result = diff(old, new)
    assert verdict_of(result.rows, "glibc", metric) == verdict
    assert result.regressed == (verdict == "regression")
    assert headline in result.report.sections[0].findings[0]


def test_memory_is_judged() -> None:
    old = make({("p", "glibc"): noisy(1, 1e6)}, metric="peak_resident_bytes")
    new = make({("p", "glibc"): noisy(2, 2e6)}, metric="peak_resident_bytes")
    assert diff(old, new).regressed


@pytest.mark.parametrize("runs", [[None, None, None], [1.0, 1.01, 0.99, None, 1.0, 1.02]])
def test_a_new_failure_fails(runs: list[float | None]) -> None:
    good = {("p", "glibc"): noisy(1)}
    result = diff(make({**good, ("p", "scudo"): noisy(3)}), make({**good, ("p", "scudo"): [*runs]}))
    assert verdict_of(result.rows, "scudo") == "newly failing"
    assert result.regressed
    assert "1 new failure: p under scudo" in " ".join(result.report.sections[0].findings)


def test_failures_that_stay_or_end_do_not_fail() -> None:
    good: dict[tuple[str, str], list[float | None]] = {("p", "glibc"): noisy(1)}
    bad: list[float | None] = [None, None]
    old = make({**good, ("p", "stays"): bad, ("p", "ends"): bad})
    new = make({**good, ("p", "stays"): bad, ("p", "ends"): noisy(4)})
    result = diff(old, new)
    assert verdict_of(result.rows, "stays") == "failing"
    assert verdict_of(result.rows, "ends") == "no longer failing"
    assert not result.regressed


def test_an_old_failure_hides_no_regression() -> None:
    old = make({("p", "glibc"): noisy(1), ("p", "m"): [*noisy(2), None]})
    new = make({("p", "glibc"): noisy(3), ("p", "m"): noisy(4, 1.5)})
    result = diff(old, new)
    assert verdict_of(result.rows, "m") == "regression"
    assert result.regressed


def test_what_comes_and_goes_is_shown() -> None:
    good: dict[tuple[str, str], list[float | None]] = {("p", "glibc"): noisy(1)}
    result = diff(make({**good, ("p", "a"): noisy(2)}), make({**good, ("p", "b"): noisy(3)}))
    assert verdict_of(result.rows, "a") == "disappeared"
    assert verdict_of(result.rows, "b") == "appeared"
    assert not result.regressed


def test_values_that_can_be_zero_have_no_ratio() -> None:
    old = make({("p", "glibc"): [0.0, 0.0, 0.01, 0.0]}, metric="system_seconds")
    new = make({("p", "glibc"): [0.01, 0.0, 0.01, 0.02]}, metric="system_seconds")
    assert verdict_of(diff(old, new).rows, "glibc", "system_seconds") == "no ratio"
    assert verdict_of(diff(old, old).rows, "glibc", "system_seconds") == "no difference seen"


def test_other_baselines_or_nothing_in_common_is_refused() -> None:
    with pytest.raises(UsageError, match="baselines differ"):
        diff(two(1), two(1, baseline="jemalloc"))
    with pytest.raises(UsageError, match="in common"):
        diff(make({("p", "glibc"): noisy(1)}), make({("q", "glibc"): noisy(1)}))


def test_warnings_name_what_else_changed() -> None:
    def described(kernel: str, executable: str, version: str) -> dict[str, Any]:
        document = campaigns.described("compare", ["gawk"], ["mimalloc"])
        document["programs"][0]["executable_sha256"] = executable
        document["managers"]["mimalloc"]["version"] = version
        return {
            "machine": {**campaigns.MACHINE, "kernel": kernel, "load_average": float(len(kernel))},
            "environment": {"values": {"GLIBC_TUNABLES": kernel}, "sha256": kernel},
            "programs": document["programs"],
            "managers": document["managers"],
        }

    old = two(1, **described("6.1", "a", "2.5"))
    assert diff(old, two(2, **described("6.1", "a", "2.5"))).report.warnings == ()
    changed = described("6.11", "b", "3.6")
    warnings = diff(old, two(2, **changed)).report.warnings
    assert len(warnings) == 4
    assert "the environment differs in GLIBC_TUNABLES" in warnings
    text = " ".join(warnings)
    assert "kernel: 6.1 → 6.11" in text
    assert "gawk was rebuilt" in text
    assert "mimalloc was 2.5 and is 3.6" in text
    stopped = diff(old, two(2, **changed, finished="")).report.warnings
    assert "results was not finished: only what had been measured is compared" in stopped


def test_a_drifting_machine_is_suspected() -> None:
    old = make({("gawk", "glibc"): noisy(1, 1.0)})
    new = make({("gawk", "glibc"): noisy(2, 1.2)})
    (warning,) = diff(old, new).report.warnings
    assert "the machine may have changed" in warning


def test_the_report_explains_each_verdict_it_gives() -> None:
    result = diff(two(1), two(901, factor=1.1))
    (table,) = result.report.sections[0].tables
    assert table.rows[0][-1].text == "regression"
    for verdict in result.rows["verdict"].unique():
        assert f"{verdict}: {VERDICTS[verdict]}" in table.notes
    assert len(result.report.sections[0].figures) == 1


# ---- a machine that changed ----


def paced(seconds: float) -> dict[str, Any]:
    return {"canary_seconds": {"start": [seconds], "end": [seconds]}}


def test_times_of_a_machine_at_another_speed_are_not_judged_and_do_not_fail() -> None:
    result = diff(two(1, **paced(0.05)), two(2, factor=1.5, **paced(0.07)))
    assert verdict_of(result.rows) == "cannot tell"
    assert not result.regressed
    reason = "the machine ran at another speed: canary 1.00 vs 1.40"
    assert result.rows["reason"].unique().to_list() == [reason]
    (table,) = result.report.sections[0].tables
    assert f"cannot tell: {reason}." in table.notes
    assert any(f"Times are not judged: {reason}" in f for f in result.report.sections[0].findings)
    same = diff(two(1, **paced(0.05)), two(2, factor=1.5, **paced(0.05)))
    assert verdict_of(same.rows) == "regression"


def test_memory_and_counts_are_judged_whatever_the_machine_did() -> None:
    key = ("p", "glibc")
    old = make({key: noisy(1, 1e6)}, metric="peak_resident_bytes", **paced(0.05))
    new = make({key: noisy(2, 2e6)}, metric="peak_resident_bytes", **paced(0.09))
    assert verdict_of(diff(old, new).rows, "glibc", "peak_resident_bytes") == "regression"
    assert diff(counts([1000] * 2, **paced(0.05)), counts([1100] * 2, **paced(0.09))).regressed


def test_without_a_canary_it_is_said_what_times_rest_on() -> None:
    (table,) = diff(two(1), two(2)).report.sections[0].tables
    assert any(note.startswith("no canary in old and new") for note in table.notes)


# ---- counts ----


def counts(values: list[float], metric: str = "allocated_bytes", **run: Any) -> Results:
    results = make({("p", "glibc"): [*values]}, metric=metric, **run)
    return Results(
        results.folder,
        {**results.document, "study": "count"},
        results.measurements.with_columns(study=pl.lit("count")),
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1000, 1000], [1000, 1000], "no difference seen"),
        ([1000, 1000], [1030, 1030], "regression"),
        ([1000, 1000], [1010, 1010], "within threshold"),
        ([1000, 1000], [900, 900], "improvement"),
        ([1000, 1010], [1025, 1030], "cannot tell"),
        ([1000], [1030], "cannot tell"),
        ([1000], [1100], "regression"),
        ([0, 0], [10, 10], "regression"),
        ([0, 5], [10, 10], "no ratio"),
    ],
)
def test_counts_are_judged_by_their_own_spread(
    old: list[float], new: list[float], expected: str
) -> None:
    result = diff(counts(old), counts(new))
    assert verdict_of(result.rows, "glibc", "allocated_bytes") == expected
    assert result.regressed == (expected == "regression")


def test_a_count_that_is_not_judged_never_fails() -> None:
    old, new = (counts([value] * 2, "manager_instructions") for value in (100, 200))
    result = diff(old, new)
    assert verdict_of(result.rows, "glibc", "manager_instructions") == "higher"
    assert not result.regressed


def test_a_metric_of_several_studies_is_compared_within_one() -> None:
    old, new = (counts([value] * 2, "objects") for value in (100, 100))
    drag = new.measurements.with_columns(study=pl.lit("drag"), value=pl.lit(900.0))
    both = Results(new.folder, new.document, pl.concat([new.measurements, drag]))
    assert verdict_of(diff(old, both).rows, "glibc", "objects") == "no difference seen"


def test_threads_of_one_program_say_nothing_of_another(tmp_path: Path) -> None:
    def once(name: str, value: float) -> Results:
        records = [
            Record(
                Run("count", program, "glibc", 0, 1),
                Outcome(
                    Status.OK,
                    values={"objects": value},
                    details={"operations": {}, "threads": threads},
                ),
            )
            for program, threads in (("alone", 1), ("threaded", 4))
        ]
        folder = tmp_path / name
        campaigns.write_campaign(
            folder, ["alone", "threaded"], ["glibc"], 0, study="count", records=records
        )
        (folder / "measurements.parquet").unlink()
        return load(folder)

    rows = diff(once("old", 1000), once("new", 1040)).rows
    assert dict(zip(rows["program"], rows["verdict"], strict=True)) == {
        "alone": "regression",
        "threaded": "cannot tell",
    }


def test_results_without_a_figure_in_common_are_no_pass() -> None:
    with pytest.raises(UsageError, match="no figure in common"):
        diff(counts([100.0], "objects"), counts([100.0], "instructions"))


# ---- call sites ----

Costs = dict[tuple[str, int], tuple[int, int]]


def with_sites(folder: Path, costs: Costs) -> Results:
    """A count of one run, whose costs are calls and bytes by function and line."""
    frames = [
        {"function": name, "object": "/b/p", "file": "p.c", "line": line}
        for name, line in (("main", 9), *costs)
    ]
    sites = [[0, 0], *([1, place] for place in range(1, len(frames)))]
    found = {
        "frames": frames,
        "sites": sites,
        "costs": [
            [place, "malloc", False, calls, calls * 50, size]
            for place, (calls, size) in enumerate(costs.values(), 2)
        ],
        "all_costs": len(costs),
    }
    size = sum(size for _, size in costs.values())
    outcome = Outcome(
        Status.OK,
        values={"instructions": 1000, "allocated_bytes": size},
        details={"operations": {}, "call_sites": found, "threads": 1},
    )
    campaigns.write_campaign(
        folder, ["p"], ["glibc"], 0, study="count",
        records=[Record(Run("count", "p", "glibc", 0, 1), outcome)],
    )  # fmt: skip
    (folder / "measurements.parquet").unlink()
    return load(folder)


OLD: Costs = {("parse", 10): (100, 6000), ("load", 20): (10, 3000), ("keep", 30): (10, 1000)}
NEW: Costs = {("parse", 40): (100, 2500), ("load", 50): (10, 2500), ("keep", 60): (10, 1000)}


def test_the_sites_that_changed_are_told_and_moved_lines_are_no_change(tmp_path: Path) -> None:
    result = diff(with_sites(tmp_path / "old", OLD), with_sites(tmp_path / "new", NEW))
    first, *_ = result.report.sections[0].findings
    assert first == "3.91 KiB fewer bytes asked for (-40%), mostly in parse (p.c:40) ← main."
    table = result.report.sections[0].tables[0]
    assert [row[0].text for row in table.rows] == [
        "parse (p.c:40) ← main",
        "load (p.c:50) ← main",
    ]
    (figure,) = [f for f in result.report.sections[0].figures if "asked for" in f.title]
    assert figure.title == "Where less is asked for"
    assert "parse (p.c:40): 3.42 KiB, 88%" in str(figure.spec)
    assert not result.regressed


def test_json_has_rows_and_sites(tmp_path: Path) -> None:
    result = diff(with_sites(tmp_path / "new", NEW), with_sites(tmp_path / "old", OLD))
    document = json.loads(result.to_json())
    assert document["regressed"] is True
    verdicts = {row["metric"]: row["verdict"] for row in document["changes"]}
    assert verdicts == {"instructions": "no difference seen", "allocated_bytes": "regression"}
    site = document["sites"][0]
    assert (site["study"], site["place"]["function"], site["operation"]) == (
        "count", "parse", "malloc",
    )  # fmt: skip
    assert (site["old"]["bytes"], site["new"]["bytes"]) == (2500, 6000)


def test_code_without_symbols_is_known_by_addresses_and_that_is_said(tmp_path: Path) -> None:
    costs: Costs = {("", 0): (10, 3000), ("keep", 30): (10, 1000)}
    fewer: Costs = {("", 0): (10, 1000), ("keep", 30): (10, 1000)}
    result = diff(with_sites(tmp_path / "old", costs), with_sites(tmp_path / "new", fewer))
    assert any("by their addresses" in note for note in result.report.sections[0].tables[0].notes)
