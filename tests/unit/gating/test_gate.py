"""`tare gate`: which runs it asks for, and what it says of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest

import tare as api
from tare.base.errors import UsageError
from tare.gating.changes import (
    IMPROVEMENT,
    NO_FIGURE,
    REGRESSION,
    SAME,
    UNTOLD,
    changes,
)
from tare.gating.plan import Plan, next_round, planned_runs
from tare.gating.report import findings, first_changes, is_broken, sites_of, to_markdown
from tare.heap_traces.frames import Frame
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, load, measurement_schema
from tare.records.runs import Outcome, Record, Run
from tare.studykit.changed_sites import SiteChange, difference_figures
from tests.support.campaigns import described, write_campaign

PLAN = Plan("own", ("count", "time"), 6, 1)
Ends = Callable[[Run], Outcome]


def well(run: Run) -> Outcome:
    return Outcome(Status.OK, values={"wall_seconds": 1.0, "peak_resident_bytes": 1 << 20})


def carried_out(plan: Plan, ends: Ends = well) -> list[Record]:
    records: list[Record] = []
    while runs := next_round(plan, records):
        records += [Record(run, ends(run), "2026-01-01T00:00:00+00:00") for run in runs]
    return records


# ---- the runs ----


def test_the_two_take_turns_and_base_runs_twice_a_round() -> None:
    records = carried_out(PLAN)
    assert len(records) == planned_runs(PLAN)
    assert [record.run.order for record in records] == list(range(1, len(records) + 1))
    timed = [r.run for r in records if r.run.study == "compare" and not r.run.warmup]
    for number in range(6):
        a_round = timed[3 * number : 3 * number + 3]
        assert Counter(run.program for run in a_round) == {"base": 2, "head": 1}
    assert len({tuple(run.program for run in timed[3 * n : 3 * n + 3]) for n in range(6)}) > 1
    counted = [(r.run.program, r.run.invocation) for r in records if r.run.study == "count"]
    assert counted == [("base", 0), ("head", 0), ("base", 1), ("head", 1)]


@pytest.mark.parametrize("done", range(0, 26, 3))
def test_an_interrupted_gate_goes_on_as_it_would_have(done: int) -> None:
    whole = [record.run for record in carried_out(PLAN)]
    records = [Record(run, well(run), "") for run in whole[:done]]
    while runs := next_round(PLAN, records):
        records += [Record(run, well(run), "") for run in runs]
    assert Counter((r.run.study, r.run.program) for r in records) == Counter(
        (run.study, run.program) for run in whole
    )


def test_what_fails_is_not_run_again() -> None:
    def failing(run: Run) -> Outcome:
        return Outcome(Status.FAILED, "exit code 1") if run.program == "head" else well(run)

    assert len(carried_out(PLAN, failing)) == 2


def test_a_part_can_be_left_out() -> None:
    counted = carried_out(Plan("own", ("count",), 6, 1))
    assert [r.run.study for r in counted] == ["compare"] * 2 + ["count"] * 4
    timed = carried_out(Plan("own", ("time",), 6, 1))
    assert {r.run.study for r in timed} == {"compare"}
    assert len(timed) == 2 + 18


# ---- the verdicts ----


def results_of(rows: Sequence[tuple[str, str, str, Sequence[float]]], **asked: object) -> Results:
    """Of (study, program, metric, values)."""
    places = 2  # base runs twice in a round
    frame = pl.DataFrame(
        [
            (study, program, "own", number, number * places, metric, float(value),
             METRICS[metric].unit, "ok", "executed")
            for study, program, metric, values in rows
            for number, value in enumerate(values)
        ],
        schema=measurement_schema(),
        orient="row",
    )  # fmt: skip
    document = {**described("gate", ["base", "head"], ["own"]), "request": asked}
    return Results(Path("none"), document, frame)


def verdict(metric: str, base: Sequence[float], head: Sequence[float], **asked: object) -> str:
    study = "count" if metric in ("instructions", "objects", "max_live_bytes") else "compare"
    (found,) = changes(
        results_of([(study, "base", metric, base), (study, "head", metric, head)], **asked)
    )
    return found.verdict


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ([1000, 1000], [1011, 1011], REGRESSION),
        ([1000, 1000], [1009, 1009], SAME),
        ([1000, 1000], [980, 980], IMPROVEMENT),
        ([1000, 1002], [1012, 1014], UNTOLD),
        ([1000, 1002], [1030, 1032], REGRESSION),
        ([1000, 1050], [1060, 1060], UNTOLD),
        ([0, 0], [5, 5], REGRESSION),
        ([0, 0], [0, 0], SAME),
        ([1000, 1000], [], NO_FIGURE),
    ],
)
def test_counts_decide_where_their_own_spread_allows(
    base: Sequence[float], head: Sequence[float], expected: str
) -> None:
    assert verdict("instructions", base, head) == expected


def test_the_threshold_is_the_users() -> None:
    assert verdict("objects", [1000] * 2, [1040] * 2, threshold=0.05) == SAME
    assert verdict("objects", [1000] * 2, [1004] * 2, threshold=0.001) == REGRESSION


def test_time_needs_rounds_enough() -> None:
    assert verdict("wall_seconds", [1.0] * 4, [2.0] * 2) == UNTOLD
    assert verdict("wall_seconds", [1.0, 1.01] * 10, [1.5] * 10) == REGRESSION
    assert verdict("wall_seconds", [1.0, 1.01] * 10, [0.5] * 10) == IMPROVEMENT
    assert verdict("wall_seconds", [1.0, 1.001] * 10, [1.0005] * 10) == SAME


def gates(slower: float, number: int) -> list[list[str]]:
    """The verdicts of so many gates on a machine whose speed drifts and whose runs vary."""
    found = []
    for seed in range(number):
        chance = random.Random(seed)
        drift = 0.0
        times: dict[str, list[float]] = {"base": [], "head": []}
        for _ in range(10):
            a_round = ["base", "base", "head"]
            chance.shuffle(a_round)
            for program in a_round:
                drift = 0.9 * drift + chance.gauss(0, 0.01)
                noise = abs(chance.gauss(0, 0.03))
                times[program].append((slower if program == "head" else 1) * (1 + drift + noise))
        rows = [
            ("compare", program, metric, [value * scale for value in values])
            for program, values in times.items()
            for metric, scale in (("wall_seconds", 1.0), ("processor_seconds", 0.9))
        ]
        rows += [
            ("compare", program, "peak_resident_bytes",
             [(10 << 20) * (1 + chance.gauss(0, 0.004)) for _ in values])
            for program, values in times.items()
        ]  # fmt: skip
        rows += [
            ("count", program, "instructions", [1e9 * (1 + chance.gauss(0, 0.002)) for _ in "ab"])
            for program in times
        ]
        found.append([each.verdict for each in changes(results_of(rows))])
    return found


@pytest.mark.thorough
def test_a_program_beside_itself_is_called_worse_in_at_most_a_twentieth_of_a_thousand() -> None:
    alarms = sum(REGRESSION in verdicts for verdicts in gates(1.0, 1000))
    assert alarms <= 50


@pytest.mark.thorough
def test_a_tenth_more_time_is_seen() -> None:
    assert sum(REGRESSION in verdicts for verdicts in gates(1.12, 50)) >= 40


# ---- what it says ----


def frames(line: int, function: str = "copy") -> list[dict[str, object]]:
    return [
        {"function": "main", "object": "/b/p", "file": "p.c", "line": 99},
        {"function": function, "object": "/b/p", "file": "p.c", "line": line},
    ]


def counted_with_sites(calls: int, size: int, line: int, function: str = "copy") -> Ends:
    def ends(run: Run) -> Outcome:
        if run.study != "count":
            return Outcome(Status.OK, values={"wall_seconds": 1.0}, output_sha256=str(size))
        sites = {
            "frames": frames(line, function),
            "sites": [[0, 0], [1, 1]],
            "costs": [[2, "malloc", False, calls, calls * 50, calls * size]],
            "all_costs": 1,
        }
        values = {"instructions": 1_000_000, "objects": calls, "allocated_bytes": calls * size}
        details = {"operations": {}, "call_sites": sites}
        return Outcome(Status.OK, values=values, details=details, output_sha256=str(size))

    return ends


def by_program(base: Ends, head: Ends) -> Ends:
    return lambda run: base(run) if run.program == "base" else head(run)


def gated(folder: Path, ends: Ends) -> tuple[Results, list[Record]]:
    records = carried_out(PLAN, ends)
    write_campaign(folder, ["base", "head"], ["own"], 0, study="gate", records=records)
    (folder / "measurements.parquet").unlink()
    return load(folder), records


def test_the_call_site_is_found_where_its_line_moved(tmp_path: Path) -> None:
    both = by_program(counted_with_sites(1000, 32, 6), counted_with_sites(1000, 64, 16))
    results, records = gated(tmp_path / "r", both)
    (site,) = first_changes(sites_of(records))
    assert (site.more("calls"), site.more("bytes")) == (0, 32_000)
    said = findings(results, records, [site])
    assert said[0] == "Regression: 100% more bytes allocated (31.2 KiB → 62.5 KiB)."
    assert (
        "The call site that changed most: copy (p.c:16) ← main, malloc: 31.2 KiB more asked for."
        in said
    )
    assert "What the two print differs." in said
    assert is_broken(results)
    markdown = to_markdown(results)
    assert markdown.startswith("**Regression: 100% more bytes allocated")
    assert "| `copy (p.c:16) ← main: malloc` | 1.00 k → 1.00 k | 31.2 KiB → 62.5 KiB |" in markdown


def test_a_call_site_that_is_new_or_gone_has_nothing_on_the_other_side(tmp_path: Path) -> None:
    both = by_program(counted_with_sites(1000, 32, 6), counted_with_sites(1000, 32, 6, "fresh"))
    results, records = gated(tmp_path / "r", both)
    assert {tuple(site.base.values()) for site in first_changes(sites_of(records))} == {
        (0, 0, 0),
        (1000, 50_000, 32_000),
    }
    assert not is_broken(results)


def test_what_is_asked_for_more_is_drawn_where_several_call_sites_do() -> None:
    def site(function: str, before: int, after: int) -> SiteChange:
        frames: list[Frame] = [
            {"function": name, "object": "p", "file": "p.c", "line": 1, "offset": 0}
            for name in (function, "main")
        ]
        base: dict[str, float] = {"calls": 1, "instructions": 9, "bytes": before}
        return SiteChange("malloc", frames, base, {**base, "bytes": after})

    changed = [site("parse", 10, 40), site("index", 5, 15), site("render", 30, 10)]
    (figure,) = difference_figures("p", changed)
    assert figure.title == "Where more is asked for"
    told = str(figure.spec)
    assert "parse (p.c:1): 30 B, 75%" in told
    assert "index (p.c:1): 10 B, 25%" in told
    assert "render" not in told


def test_a_newly_failing_head_is_no_good(tmp_path: Path) -> None:
    def crashes(run: Run) -> Outcome:
        return Outcome(Status.FAILED, "killed by signal 11")

    results, records = gated(tmp_path / "r", by_program(well, crashes))
    assert findings(results, records, [])[0] == (
        "Newly failing: head (killed by signal 11), and base does not."
    )
    assert is_broken(results)
    results, records = gated(tmp_path / "s", crashes)
    assert findings(results, records, [])[0] == "Base failed: killed by signal 11."


def test_bad_requests_say_what_is_right() -> None:
    for wrong in ({"threshold": 2.0}, {"skip": ("x",)}, {"skip": ("count", "time")}, {"runs": 0}):
        with pytest.raises(UsageError):
            api.gate(["true"], ["true"], **wrong)
    with pytest.raises(UsageError, match="list of words"):
        api.gate("true", ["true"])
