"""`tare frequency`: its plan, and its figures on records whose answer is known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tare as api
from tare.answers.building import build_report
from tare.base.errors import UsageError
from tare.records.metrics import Status
from tare.records.results import Results, Store
from tare.records.runs import Outcome, Record, Run
from tare.report.model import Section, Table
from tare.studies.frequency import report as study
from tare.studykit.sweeps import sizes_of, variant
from tests.support.timed_plans import timed
from tests.unit.studies.test_delay import MACHINE

KIB, MIB = 1 << 10, 1 << 20
PERIODS = (256 * KIB, MIB)
NAMES = [each.name for each in study.variants(["glibc"], PERIODS, (4,))]
NEVER = "marksweep(glibc, every=never)"


def collector(every: str, reclaim: int) -> str:
    return f"marksweep(glibc, every={every}, reclaim={reclaim})"


# ---- the plan ----


def test_variants_and_what_they_are_held_against() -> None:
    assert [
        "glibc",
        NEVER,
        *(collector("256KiB", number) for number in (0, 1, 4)),
        *(collector("1MiB", number) for number in (0, 1, 4)),
    ] == NAMES
    assert [study.reference_of(name) for name in NAMES[:5]] == [
        "glibc",
        "glibc",
        NEVER,
        collector("256KiB", 0),
        collector("256KiB", 0),
    ]


def plan(runs: int = 8) -> Any:
    return timed(study, NAMES, runs, 1, seed=3)


def walls(run: Run) -> Outcome:
    """A trace costs the mutator 10% every 256 KiB and nothing every 1 MiB; reclaiming at each of
    them saves half, at one in four a quarter."""
    wiggle = 1 + 0.002 * (run.invocation % 4)
    each = variant(run.manager)
    values = {"wall_seconds": 0.5 * wiggle, "peak_resident_bytes": 1e6}
    details: dict[str, Any] = {}
    if each.layer:
        never = each.option("every") == "never"
        often = each.option("every") == "256KiB"
        reclaim = int(each.option("reclaim") or 0)
        mutator = (1.1 if often else 1.0) * {0: 1.0, 1: 0.5, 4: 0.75}[reclaim] * wiggle
        collections = 0 if never else 16 if often else 4
        pauses = 0.025 * collections
        values = {
            "wall_seconds": mutator + pauses,
            "mutator_seconds": mutator,
            "collector_seconds": pauses,
            "peak_resident_bytes": 1e6 if reclaim == 1 else 4e6,
            "collections": collections,
            "pause_seconds": pauses,
            "max_pause_seconds": 0.05 if collections else 0.0,
            "marked_bytes": 100.0 * collections,
            "swept_bytes": 50.0 * collections if reclaim else 0.0,
        }
        if collections:
            histogram = [[1 << 24, 1 << 25, collections]]
            details["marksweep"] = {"pause_histogram": histogram}
    return Outcome(Status.OK, values=values, details=details, output_sha256="same")


def carry_out(planned: Any, stop_after: int = 10_000) -> list[Record]:
    records: list[Record] = []
    while runs := study.next_round(planned, records):
        for run in runs:
            if len(records) == stop_after:
                return records
            records.append(Record(run, walls(run)))
    return records


def counts(records: list[Record]) -> Counter[str]:
    return Counter(r.run.manager for r in records if not r.run.warmup)


FULL = {name: 16 if name in ("glibc", NEVER) else 8 for name in NAMES}


def test_what_all_are_held_against_runs_twice_a_round() -> None:
    assert counts(carry_out(plan())) == FULL


@given(st.integers(0, 90))
@settings(max_examples=20, deadline=None)
def test_an_interrupted_study_ends_with_the_same_counts(stop: int) -> None:
    records = carry_out(plan(), stop_after=stop)
    while runs := study.next_round(plan(), records):
        records += [Record(run, walls(run)) for run in runs]
    assert counts(records) == FULL


# ---- what is said ----


@pytest.fixture
def results(tmp_path: Path) -> Results:
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
    }
    with Store(tmp_path / "results", run, key="request") as store:
        for record in carry_out(plan()):
            store.append(record)
        return store.finish()


def section_of(results: Results) -> Section:
    (section,) = build_report(results).sections
    return section


def texts(section: Section, identifier: str) -> list[list[str]]:
    (found,) = (each for each in section.tables if each.identifier == identifier)
    return [[cell.text for cell in row] for row in _rows(found)]


def _rows(table: Table) -> list[Any]:
    return list(table.rows)


def test_tracing_is_told_from_reclaiming(results: Results) -> None:
    found = {
        row["manager"]: row
        for row in api.summary(results).iter_rows(named=True)
        if row["metric"] == "mutator_seconds"
    }
    assert found[collector("256KiB", 0)]["ratio"] == pytest.approx(1.1)
    assert found[collector("256KiB", 0)]["verdict"] == "higher"
    assert found[collector("1MiB", 0)]["verdict"] == "no difference seen"
    assert found[collector("256KiB", 1)]["ratio"] == pytest.approx(0.5)
    assert found[collector("1MiB", 4)]["ratio"] == pytest.approx(0.75)


def test_the_sentences(results: Results) -> None:
    told, published = section_of(results).findings
    assert told.startswith(
        "Under glibc, tracing without reclaiming, compared with no collections: "
        "10.0% more mutator time ("
    )
    reclaiming = told.partition("compared with tracing only: ")[2]
    assert reclaiming.startswith("50% less mutator time")
    assert "75% less memory" in reclaiming
    longer = told.partition("compared with the shortest (256KiB), reclaiming at each trace: ")[2]
    assert longer.startswith("9.1% less")
    rarer = told.partition("compared with every trace: ")[2]
    assert rarer.startswith("50% more mutator time")
    assert "× 4" in rarer
    share = "Share of the wall time in collections: 42% every 256KiB, 17% every 1MiB."
    assert told.endswith(share)
    assert published.startswith("Published")


def test_the_tables(results: Results) -> None:
    section = section_of(results)
    lines = texts(section, "table-periods-1")
    assert lines[0][:6] == ["glibc", "never", "–", "1.00 s", "–", "–"]
    assert lines[1][:5] == ["glibc", "256KiB", "0", "1.10 s", "1.100"]
    assert lines[2][:5] == ["glibc", "256KiB", "1", "552 ms", "0.500"]
    assert lines[2][8] == "0.250"
    layer = texts(section, "table-layer-1")
    assert layer[0][:4] == ["glibc", "502 ms", "1.00 s", "2.00"]
    pauses = texts(section, "table-pauses-1")
    assert pauses[1] == [
        *("glibc", "256KiB", "1", "16", "400 ms", "42%", "25.0 ms", "50.0 ms", "1.56 KiB", "800 B")
    ]


def test_figures_show_each_relation(results: Results) -> None:
    figures = {figure.identifier: figure for figure in section_of(results).figures}
    assert set(figures) == {
        *("frequency-tracing", "frequency-reclaiming", "frequency-period"),
        *("frequency-reclamation", "frequency-pauses"),
    }

    def ratios(identifier: str) -> list[float]:
        points = figures[identifier].spec["layer"][-1]["data"]["values"]
        return [round(point["ratio"], 2) for point in points]

    assert ratios("frequency-tracing") == [1.1, 1.0]
    assert ratios("frequency-reclaiming") == [0.5, 0.5]
    assert ratios("frequency-period") == [1.0, 0.91] * 3
    assert ratios("frequency-reclamation") == [1.0, 1.5] * 2


def test_sizes_are_bounded() -> None:
    with pytest.raises(UsageError):
        sizes_of("")
