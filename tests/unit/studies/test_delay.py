"""`tare delay`: its plan, and its figures on records whose answer is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tare as api
from tare.answers.building import build_report
from tare.answers.diff import diff
from tare.base.errors import UsageError
from tare.records.metrics import Status
from tare.records.results import Results, Store, measurement_schema
from tare.records.runs import Outcome, Record, Run
from tare.report.model import Section, Table
from tare.studies.delay import report as study
from tare.studies.delay import weigh as weigh_section
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting
from tare.studykit.published import published
from tare.studykit.sweep_tables import effect, merged
from tare.studykit.sweeps import Variant, size_text, sizes_of, variant
from tests.support.campaigns import described
from tests.support.timed_plans import timed

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, MIB)
NAMES = [each.name for each in study.variants(["glibc", "fast"], SIZES, {})]
LIVE = 2 * MIB
Measure = Callable[[Run], Outcome]

# ---- names and sizes ----


def test_sizes_are_written_as_managers_have_them() -> None:
    assert sizes_of("1MiB, 1,4KiB,4096") == (1, 4 * KIB, MIB)
    assert [size_text(size) for size in (1, 1000, 4 * KIB, 1536 * KIB, MIB, 1 << 30)] == [
        "1B",
        "1000B",
        "4KiB",
        "1536KiB",
        "1MiB",
        "1GiB",
    ]


@given(st.integers(1, 1 << 30))
def test_a_size_survives_its_text(size: int) -> None:
    assert sizes_of(size_text(size)) == (size,)


@pytest.mark.parametrize("text", ["", ",", "0", "4XB", "1,-2", ",".join(map(str, range(1, 50)))])
def test_wrong_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        sizes_of(text)


def test_variants_and_what_they_are_held_against() -> None:
    assert NAMES == [
        "glibc",
        "delay(glibc, size=1B)",
        "delay(glibc, size=4KiB)",
        "delay(glibc, size=1MiB)",
        "fast",
        "delay(fast, size=1B)",
        "delay(fast, size=4KiB)",
        "delay(fast, size=1MiB)",
    ]
    references = [study.reference_of(name) for name in NAMES[:4]]
    assert references == ["glibc", "glibc", NAMES[1], NAMES[1]]
    scoped = "delay(mimalloc(eager_commit=true), size=64KiB, scope=global)"
    assert variant(scoped).allocator == "mimalloc(eager_commit=true)"
    assert variant(scoped).name == scoped
    assert study.reference_of(scoped) == scoped.replace("64KiB", "1B")


# ---- the plan ----


def plan(runs: int = 4, live: bool = True) -> study.Plan:
    return study.Plan(timed(study, NAMES, runs, 1, seed=3), live)


def walls(run: Run) -> Outcome:
    """fast gets slower and larger with the delay; glibc stays as it is."""
    if run.study == "count":
        return Outcome(Status.OK, values={"max_live_bytes": LIVE, "instructions": 1000.0})
    each = variant(run.manager)
    size = sizes_of(each.option("size"))[0] if each.layer else 0
    slower = {0: 0.95, 1: 1.0, 4 * KIB: 1.1, MIB: 1.2}[size] if each.allocator == "fast" else 1.0
    wiggle = 1 + 0.002 * (run.invocation % 4)
    wall = slower * wiggle
    values = {
        "wall_seconds": wall,
        "cpu_instructions": 1e9 * wall,
        "peak_resident_bytes": 1e6 + size,
    }
    details: dict[str, Any] = {}
    if each.layer:
        collections = max(1, 4 * MIB // size)
        values |= {
            "collections": collections,
            "capacity_collections": 0,
            "volume_collections": collections,
            "pause_seconds": 0.01,
            "max_pause_seconds": 0.002,
            "quarantined_bytes": 4 * MIB,
        }
        histogram = [[1024, 2048, collections - 1], [1 << 20, 1 << 21, 1]]
        details["delay"] = {"pause_histogram": histogram, "max_pause_seconds": 0.002}
    return Outcome(Status.OK, values=values, details=details, output_sha256="same")


def carry_out(
    planned: study.Plan, measure: Measure = walls, stop_after: int = 10_000
) -> list[Record]:
    records: list[Record] = []
    while runs := study.next_round(planned, records):
        for run in runs:
            if len(records) == stop_after:
                return records
            records.append(Record(run, measure(run)))
    return records


def counts(records: list[Record], warmup: bool = False) -> Counter[str]:
    return Counter(
        r.run.manager for r in records if r.run.study == study.STUDY and r.run.warmup == warmup
    )


FULL = {name: 4 if "KiB" in name or "MiB" in name else 8 for name in NAMES}


def test_what_others_are_held_against_runs_twice_a_round() -> None:
    records = carry_out(plan())
    assert counts(records) == FULL
    assert counts(records, warmup=True) == dict.fromkeys(NAMES, 1)
    assert len(records) == study.planned_runs(plan())
    assert [r.run.order for r in records] == list(range(1, len(records) + 1))
    order = [r.run.manager for r in records if not r.run.warmup][:-1]
    a_round = len(order) // 4
    rounds = [order[start : start + a_round] for start in range(0, len(order), a_round)]
    assert all(Counter(each) == Counter(rounds[0]) for each in rounds)
    assert rounds[0] != rounds[1], "always the same order"


def test_the_live_bytes_are_counted_last_and_once() -> None:
    last = carry_out(plan())[-1].run
    assert (last.study, last.manager, last.observer) == ("count", "glibc", "instrument")
    assert all(r.run.study == study.STUDY for r in carry_out(plan(live=False)))


def test_a_run_for_the_live_bytes_that_would_take_too_long_is_left_out() -> None:
    def slow(run: Run) -> Outcome:
        return Outcome(Status.OK, values={"wall_seconds": 100.0, "peak_resident_bytes": 1.0})

    few = study.Plan(timed(study, ["glibc", NAMES[1]], 1, 0, seed=1))
    records = carry_out(few, slow)
    assert {r.run.study for r in records} == {study.STUDY}
    reason = study.live_left_out(records, "p", "glibc")
    assert reason == "a run under the instrument would take about 26 min 41 s"
    many = study.Plan(timed(study, NAMES, 10, 0, seed=1))
    assert carry_out(many, slow)[-1].run.study == "count", "shorter than all the others together"


@given(st.integers(0, 60))
@settings(max_examples=20, deadline=None)
def test_an_interrupted_study_ends_with_the_same_counts(stop: int) -> None:
    records = carry_out(plan(), stop_after=stop)
    while runs := study.next_round(plan(), records):
        records += [Record(run, walls(run)) for run in runs]
    assert counts(records) == FULL


def test_a_delay_that_fails_is_given_up_and_the_others_go_on() -> None:
    def failing(run: Run) -> Outcome:
        return Outcome(Status.FAILED) if run.manager == NAMES[3] else walls(run)

    found = counts(carry_out(plan(), failing))
    assert found[NAMES[3]] == 1
    assert found[NAMES[2]] == 4


# ---- what is said ----


MACHINE = {
    "processor": "x",
    "cores": 2,
    "memory_bytes": 1 << 30,
    "load_average": 0.1,
    "frequency_governor": "performance",
    "turbo": "off",
    "transparent_huge_pages": "never",
    "swap": False,
    "hypervisor": False,
}


def folder(path: Path, records: list[Record], **facts: Any) -> Results:
    program = {
        "name": "p",
        "argv": ["p"],
        "executable": "/bin/p",
        "executable_sha256": "",
        "ignore_output": False,
        "output_sha256": "",
    }
    manager: dict[str, Any] = {"version": "", "object": None, "environment": {}}
    run = {
        "tare": "0",
        "schema": 1,
        "study": study.STUDY,
        "command": ["tare"],
        "started": "2026-01-01T00:00",
        "machine": MACHINE,
        "programs": [program],
        "managers": dict.fromkeys(NAMES, manager),
        "baseline": "glibc",
        "seed": 1,
        "request": {},
        **facts,
    }
    with Store(path, run, key="request") as store:
        for record in records:
            store.append(record)
        return store.finish()


def report_section(results: Results) -> Section:
    (section,) = build_report(results).sections
    return section


def table(section: Section, identifier: str) -> Table:
    (found,) = (each for each in section.tables if each.identifier == identifier)
    return found


def texts(found: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in found.rows]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return folder(tmp_path / "results", carry_out(plan(runs=8)))


def test_each_delay_is_held_against_no_delay(results: Results) -> None:
    rows = {
        (row["manager"], row["metric"]): row for row in api.summary(results).iter_rows(named=True)
    }
    time = {name: rows[name, "wall_seconds"] for name in NAMES}
    assert time["glibc"]["verdict"] == time["fast"]["verdict"] == "baseline"
    assert time["delay(fast, size=1B)"]["ratio"] == pytest.approx(1 / 0.95, rel=0.01)
    assert time["delay(fast, size=4KiB)"]["ratio"] == pytest.approx(1.1, rel=0.01)
    assert time["delay(fast, size=1MiB)"]["ratio"] == pytest.approx(1.2, rel=0.01)
    assert time["delay(fast, size=1MiB)"]["verdict"] == "higher"
    assert time["delay(glibc, size=1MiB)"]["verdict"] == "no difference seen"
    memory = rows["delay(glibc, size=1MiB)", "peak_resident_bytes"]
    assert memory["ratio"] == pytest.approx((1e6 + MIB) / (1e6 + 1))
    assert rows["glibc", "max_live_bytes"]["median"] == LIVE


def test_the_sentences(results: Results) -> None:
    glibc, fast, layer, live = report_section(results).findings
    assert glibc.startswith("Under glibc: no difference in time seen; 105% more memory")
    assert fast.startswith("Under fast a delay hurts: 20% more time (")
    assert "at 1MiB, also at 4KiB; 105% more memory" in fast
    assert layer.startswith("The layer itself, 1B against the bare allocator: fast 5.3% more time")
    assert layer.endswith("; no difference in time seen under the others.")
    assert "1MiB held back is 0.5× of that" in live
    assert "a heap of 1.5× the live memory" in live


def test_threads_hold_back_as_much_each(tmp_path: Path) -> None:
    def threaded(run: Run) -> Outcome:
        outcome = walls(run)
        details = {"delay": {**outcome.details.get("delay", {}), "threads": [{}, {}, {}]}}
        return replace(outcome, details=details)

    live = report_section(folder(tmp_path / "r", carry_out(plan(), threaded))).findings[-1]
    assert "1MiB held back is 0.5× of that, in each of 3 threads." in live
    assert "a heap of 1.5× to 2.5× the live memory" in live


def test_a_delay_can_help(tmp_path: Path) -> None:
    def faster(run: Run) -> Outcome:
        outcome = walls(run)
        if run.manager == "delay(glibc, size=4KiB)":
            better = outcome.values["wall_seconds"] * 0.5
            return replace(outcome, values={**outcome.values, "wall_seconds": better})
        return outcome

    helped = report_section(folder(tmp_path / "r", carry_out(plan(8), faster)))
    assert helped.findings[0].startswith("Under glibc a delay helps: 50% less time (")


def test_the_tables(results: Results) -> None:
    section = report_section(results)
    delays = texts(table(section, "table-delay-1"))
    assert [row[:3] for row in delays[:3]] == [
        ["glibc", "1B", "0×"],
        ["glibc", "4KiB", "0.002×"],
        ["glibc", "1MiB", "0.5×"],
    ]
    assert delays[0][4:6] == ["1", "baseline"]
    assert delays[5][4] == "1.200"
    layer = texts(table(section, "table-layer-1"))
    assert [row[0] for row in layer] == ["glibc", "fast"]
    assert layer[1][3] == "1.053"
    assert texts(table(section, "table-where-1")) == [
        ["glibc", "4KiB", "1.000"],
        ["glibc", "1MiB", "1.000"],
        ["fast", "4KiB", "1.100"],
        ["fast", "1MiB", "1.200"],
    ]
    pauses = texts(table(section, "table-pauses-1"))
    assert pauses[2] == [
        *("glibc", "1MiB", "4", "10.0 ms", "1.0%", "2.50 ms", "2.00 ms", "0", "4.00 MiB")
    ]
    published = texts(table(section, "table-delay-published"))
    assert published[1] == ["fast", "here", "p", "1MiB", "1.200", "2.049"]
    assert [
        "Google's TCMalloc",
        "published",
        "mimalloc-bench",
        "2MiB",
        "1.092",
        "1.247",
    ] in published


def test_published_figures_stand_beside_the_same_allocator() -> None:
    assert "Published for mimalloc" in study._published("mimalloc2")
    assert "9.2% more time" in study._published("google-tcmalloc")
    assert study._published("jemalloc") == ""


def test_published_figures_are_those_of_the_paper() -> None:
    text = [tuple(row.values())[1:] for row in published("delay")]
    assert ("snmalloc", "SPEC CPU2006", 1.010, 1.028) in text
    assert ("mimalloc", "mimalloc-bench", 1.010, 1.274) in text


@pytest.mark.parametrize(
    ("facts", "records", "reason"),
    [
        ({"live_left_out": "it was not asked for"}, plan(live=False), "it was not asked for"),
        ({}, plan(), "the run under the instrument did not complete: failed"),
    ],
)
def test_without_the_live_memory_the_reason_is_told(
    tmp_path: Path, facts: Mapping[str, Any], records: study.Plan, reason: str
) -> None:
    def measure(run: Run) -> Outcome:
        return Outcome(Status.FAILED) if run.study == "count" else walls(run)

    section = report_section(folder(tmp_path / "r", carry_out(records, measure), **facts))
    assert section.findings[-1].endswith(f"are not compared with live memory: {reason}.")
    assert "of live" not in [column.title for column in table(section, "table-delay-1").columns]


def test_no_figure_at_all(tmp_path: Path) -> None:
    records = carry_out(plan(), lambda _run: Outcome(Status.FAILED, reason="it broke"))
    section = report_section(folder(tmp_path / "r", records))
    assert section.findings == ["No run succeeded."]
    assert section.figures == []
    assert {row[2] for row in texts(table(section, "table-failures"))} == {"failed"}


def test_figures_show_every_ratio_and_pause(results: Results) -> None:
    figures = {figure.identifier: figure for figure in report_section(results).figures}
    assert set(figures) == {
        *("delay-wall_seconds", "delay-peak_resident_bytes", "delay-pauses"),
        *("layer-wall_seconds", "layer-peak_resident_bytes"),
    }

    def points(identifier: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = figures[identifier].spec["layer"][-1]["data"]["values"]
        return found

    against_none = points("delay-wall_seconds")
    assert [round(point["ratio"], 2) for point in against_none] == [1, 1, 1, 1, 1.1, 1.2]
    assert sum(point["fill"] == point["colour"] for point in against_none) == 2, "only fast differs"
    against_bare = [round(point["ratio"], 2) for point in points("layer-wall_seconds")]
    assert against_bare == [1, 1, 1, 1, 1, 1.05, 1.16, 1.26]
    bars = figures["delay-pauses"].spec["layer"][3]["data"]["values"]
    assert len(bars) == 6 * 2
    assert all(bar["from"] < bar["to"] and bar["top"] <= bar["bottom"] for bar in bars)


def test_effects_in_words() -> None:
    def row(ratio: float, verdict: str) -> dict[str, Any]:
        return {
            "ratio": ratio,
            "ratio_low": ratio - 0.01,
            "ratio_high": ratio + 0.01,
            "verdict": verdict,
        }

    same, more, less = row(1.0, "no difference seen"), row(1.2, "higher"), row(0.7, "lower")
    assert effect([("a", same)], "time") == "no difference in time seen"
    assert effect([("a", row(1.5, "too few runs"))], "time") == (
        "too few runs to see a difference in time"
    )
    assert effect([("a", more), ("b", row(1.3, "higher")), ("c", more)], "time") == (
        "30% more time (29% to 31%) at b, also at a and c"
    )
    assert effect([("a", more), ("b", less)], "time") == (
        "20% more time (19% to 21%) at a, but 30% less time (29% to 31%) at b"
    )


def test_histograms_of_runs_are_added() -> None:
    assert merged([[[1, 2, 3.0], [4, 8, 1.0]], [[1, 2, 1.0]]]) == [(1, 2, 4.0), (4, 8, 1.0)]


def test_results_can_be_held_against_later_ones(tmp_path: Path, results: Results) -> None:
    def slower(run: Run) -> Outcome:
        outcome = walls(run)
        if run.manager == "delay(glibc, size=1MiB)":
            worse = outcome.values["wall_seconds"] * 2
            return replace(outcome, values={**outcome.values, "wall_seconds": worse})
        return outcome

    later = folder(tmp_path / "later", carry_out(plan(8), slower))
    found = diff(results, later)
    assert found.regressed
    regressed = found.rows.filter(pl.col("verdict") == "regression")
    assert set(regressed["manager"]) == {"delay(glibc, size=1MiB)"}


# ---- the section of `tare weigh` ----


def setting(effort: Effort, pilot: float, share: int = 4) -> Setting:
    return Setting("p", ("glibc", "x"), "glibc", effort, pilot, TOTAL_SECONDS[effort] / share, 1)


def test_the_section_of_weigh_measures_the_baseline_alone() -> None:
    runs = weigh_section.next_runs(setting(Effort.DEFAULT, 0.1), [])
    assert {variant(run.manager).allocator for run in runs} == {"glibc"}
    assert {run.study for run in runs} == {study.STUDY}
    planned = weigh_section.plan(setting(Effort.DEFAULT, 0.1))
    assert planned is not None
    assert [variant(name).option("size") for name in planned.managers[1:]] == [
        "1B",
        "64KiB",
        "1MiB",
    ]


@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.DEFAULT])
@pytest.mark.parametrize("pilot", [0.001, 0.1, 0.3, 1.0, 5.0])
def test_the_section_of_weigh_keeps_to_its_share(effort: Effort, pilot: float) -> None:
    whole = setting(effort, pilot)
    assert weigh_section.expected_seconds(whole) <= whole.budget_seconds
    assert (weigh_section.plan(whole) is None) == (weigh_section.next_runs(whole, []) == [])


def test_a_long_program_is_delayed_only_when_asked() -> None:
    assert weigh_section.plan(setting(Effort.DEFAULT, 10.0)) is None
    assert weigh_section.plan(setting(Effort.THOROUGH, 600.0)) is not None


def test_a_program_that_fails_bare_is_not_delayed() -> None:
    failed = Record(Run("compare", "p", "glibc", 0, 1), Outcome(Status.FAILED))
    assert weigh_section.next_runs(setting(Effort.DEFAULT, 0.1), [failed]) == []


def no_runs(folder: Path, pilot_seconds: float, baseline: str) -> Results:
    document = {
        **described("weigh", ["p"], [baseline]),
        "pilot_seconds": pilot_seconds,
        "request": {"effort": "default"},
    }
    return Results(folder, document, pl.DataFrame(schema=measurement_schema()))


def test_an_allocator_of_the_programs_own_is_not_delayed(tmp_path: Path) -> None:
    own = replace(setting(Effort.DEFAULT, 0.1), baseline="own")
    assert weigh_section.next_runs(own, []) == []
    empty = no_runs(tmp_path, 0.1, "own")
    assert "`tare delay -m own`" in weigh_section.section(empty).findings[0]


def test_why_the_section_of_weigh_ran_nothing(tmp_path: Path) -> None:
    (sentence,) = weigh_section.section(no_runs(tmp_path, 10.0, "glibc")).findings
    assert sentence.startswith(
        "Left out: the runs take about 3 min 10 s, more than is left of the bill's "
    )
    (sentence,) = weigh_section.section(no_runs(tmp_path, 0.01, "glibc")).findings
    assert sentence == "Left out: no run under glibc succeeded."


def test_a_variant_without_a_layer_is_its_allocator() -> None:
    assert variant("./libmine.so") == Variant("./libmine.so")
