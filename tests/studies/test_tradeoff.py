"""Time against space: answers that are known beforehand, and real replays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tare.answers.building import build_report
from tare.base.errors import UsageError
from tare.memory_managers.manager import Manager
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Limits, Outcome
from tare.report.model import Section
from tare.studies.tradeoff.question import tradeoff
from tare.studies.tradeoff.report import failed
from tare.studykit import replayer
from tare.studykit.replays import slow
from tests.native.replay.test_mmtk import tangled, write_trace
from tests.studies.test_minheap import known
from tests.support.traces import objects_frame

LIVE = 1000 * 56 + 56
"""The most bytes alive in ``known`` of 1000 objects: those that stay, and one that dies at once."""
HEAPS = (1.25, 2.0, 3.0, 4.0)
Pretended = Callable[..., Results]


def good(mutator: float, collector: float, digest: str = "same") -> Outcome:
    values = {
        "mutator_seconds": mutator,
        "collector_seconds": collector,
        "collections": 1.0,
        "peak_reserved_bytes": 2.0 * LIVE,
    }
    return Outcome(Status.OK, values=values, output_sha256=digest)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pretended:
    """The study over replays whose outcome a function of the collector and of the heap, in times
    the most bytes alive, gives; the heap is 0 without a collector."""

    def study(outcome_of: Callable[[str, float], Outcome], runs: int = 6) -> Results:
        def pretend(_program: Program, manager: Manager, _limits: Limits, *_: Any) -> Outcome:
            words = manager.replayer
            heap = int(words[words.index("--heap") + 1]) / LIVE if words else 0.0
            return outcome_of(manager.name.partition("(")[0], heap)

        monkeypatch.setattr(replayer, "run_once", pretend)
        trace = known(tmp_path / "t.tare", count=1000)
        return tradeoff(trace, ["immix", "glibc"], heaps=HEAPS, runs=runs, folder=tmp_path / "out")

    return study


def as_expected(name: str, heap: float) -> Outcome:
    if name == "glibc":
        return good(1.0, 0.0)
    if heap < 1.9:
        return Outcome(Status.OUT_OF_MEMORY, "the manager ran out of memory")
    return good(0.9, 0.5 if heap < 2.9 else 0.35 if heap < 3.9 else 0.05)


def section_of(results: Results) -> Section:
    (section,) = build_report(results).sections
    return section


def rows_of(section: Section, identifier: str) -> dict[str, list[str]]:
    (table,) = (table for table in section.tables if table.identifier == identifier)
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_known_costs_are_told(pretended: Pretended) -> None:
    results = pretended(as_expected)
    section = section_of(results)
    assert section.obtained == "replayed"
    time = rows_of(section, "table-tradeoff-time")
    mutator = rows_of(section, "table-tradeoff-mutator")
    assert time["immix"] == ["too small", "1.400", "1.250", "0.950"]
    assert mutator["immix"] == ["too small", "0.900", "0.900", "0.900"]
    told = " ".join(section.findings)
    assert "cost more time than glibc: 4 times (immix)" in told
    assert "At 2 times the cheapest is immix: 40% more time than glibc." in told
    assert "At 3 times the cheapest is immix: 25% more time than glibc." in told
    assert "immix fits from 2 times" in told
    assert "mutator time than glibc was seen from 2 times on" in told
    assert rows_of(section, "table-tradeoff-others")["glibc"][-2] == "2.00"
    assert not failed(results)


def test_a_small_heap_that_is_fast_by_chance_is_not_the_answer(pretended: Pretended) -> None:
    def outcome(name: str, heap: float) -> Outcome:
        return good(0.5 if 1.9 < heap < 2.9 else 1.0, 0.5 if heap > 2.9 else 0.0)

    told = " ".join(section_of(pretended(outcome)).findings)
    assert "no collector is as fast as glibc" in told


def test_too_few_runs_give_no_answer(pretended: Pretended) -> None:
    told = " ".join(section_of(pretended(as_expected, runs=1)).findings)
    assert "too few runs" in told
    assert "cheapest" not in told
    assert "immix fits from 2 times." in told


def test_a_heap_that_is_too_slow_says_so(pretended: Pretended) -> None:
    def outcome(name: str, heap: float) -> Outcome:
        slow_one = name == "immix" and heap < 1.5
        return Outcome(Status.TIMEOUT, "too long") if slow_one else as_expected(name, heap)

    results = pretended(outcome)
    assert rows_of(section_of(results), "table-tradeoff-time")["immix"][0] == "too slow"
    assert not failed(results)


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (good(1.0, 0.1, digest="another"), "wrong-output"),
        (Outcome(Status.FAILED, "it crashed"), "failed"),
        (Outcome(Status.NOT_LOADED, "another collector"), "not-loaded"),
    ],
)
def test_what_is_no_matter_of_size_fails(pretended: Pretended, bad: Outcome, word: str) -> None:
    results = pretended(
        lambda name, heap: bad if name == "immix" and heap > 3.9 else as_expected(name, heap)
    )
    section = section_of(results)
    assert rows_of(section, "table-tradeoff-time")["immix"][-1] == word
    assert failed(results)
    assert section.tables[0].identifier == "table-failures"
    assert section.tables[0].essential


def test_a_collector_that_fits_nowhere_fails(pretended: Pretended) -> None:
    results = pretended(
        lambda name, _: as_expected(name, 0.0) if name == "glibc" else as_expected(name, 1.0)
    )
    assert failed(results)
    assert "immix fits into none of the heaps." in section_of(results).findings


def test_a_manager_that_took_no_memory_of_its_own_is_not_drawn(pretended: Pretended) -> None:
    none = good(1.0, 0.0)
    none = replace(none, values={**none.values, "peak_reserved_bytes": 0.0})
    results = pretended(lambda name, heap: none if name == "glibc" else good(0.9, heap * 10))
    assert section_of(results).figures


def test_a_damaged_folder_is_said_to_be_one(pretended: Pretended) -> None:
    results = pretended(as_expected)
    results.document["points"] = [{"manager": 3}]
    with pytest.raises(UsageError, match="damaged"):
        build_report(results)


# ---- the real thing ----


def test_copying_needs_two_heaps(tmp_path: Path) -> None:
    """Each object of 56 bytes has 8 of header, and a copying collector keeps half of its heap free:
    what lives takes 2.29 times its bytes."""
    results = tradeoff(
        known(tmp_path / "t.tare", count=40_000),
        ["semispace", "markcompact", "glibc"],
        heaps=(2.0, 3.0),
        runs=1,
        warmup=0,
        folder=tmp_path / "out",
    )
    ended = {r.run.manager: r.outcome for r in read_records(results.folder)}
    heaps = {(p["collector"], p["heap"]): ended[p["manager"]] for p in results.document["points"]}
    assert heaps["semispace", 2.0].status is Status.OUT_OF_MEMORY
    for fits in (("semispace", 3.0), ("markcompact", 2.0), ("markcompact", 3.0)):
        values = heaps[fits].values
        assert values["replay_seconds"] == pytest.approx(
            values["mutator_seconds"] + values["collector_seconds"]
        )
        assert values["peak_reserved_bytes"] <= fits[1] * 40_001 * 56 * 1.05
    assert results.document["oracles"] == {"free": 40_001 * 56}
    assert not failed(results)


def test_the_command_draws_the_figure(tmp_path: Path, tare: Any) -> None:
    trace = write_trace(tmp_path / "t.tare", *tangled(3_000, seed=11))
    done = tare(
        *("tradeoff", "-m", "immix", "-m", "mimalloc", "--heaps", "1,20", "-n", "2"),
        *("-o", str(tmp_path / "out"), "--json", str(tmp_path / "r.json"), str(trace)),
    )
    assert done.returncode == 0, done.stderr
    assert "too small" in done.stdout
    made = json.loads((tmp_path / "r.json").read_text())
    assert made["study"] == "tradeoff"
    by_status: dict[str, set[str]] = {}
    for row in made["measurements"]:
        by_status.setdefault(row["status"], set()).add(row["manager"])
    # The most bytes alive leave no room for headers.
    assert len(by_status["out-of-memory"]) == 1
    assert len(by_status["ok"]) == 2
    assert {row["metric"] for row in made["summary"]} >= {"replay_seconds", "mutator_seconds"}
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Time against space" in page
    assert "heap, as a multiple of the most bytes alive" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-m", "immix(heap=1MiB)"], "leave out heap="),
        (["-m", "glibc"], "no collector"),
        (["-m", "immix", "--baseline", "semispace"], "is a collector"),
        (["--heaps", "0.5,2"], "multiples"),
        (["--heaps", "nan"], "multiples"),
        (["--heaps", ""], "multiples"),
        (["--heaps", "two"], "not a list of numbers"),
        (["--death", "last-use"], "--last-use"),
    ],
)
def test_wrong_usage(options: list[str], words: str, tmp_path: Path, tare: Any) -> None:
    trace = write_trace(tmp_path / "t.tare", objects_frame([{"birth": 10, "size": 8}]))
    done = tare("tradeoff", *options, "-o", str(tmp_path / "out"), str(trace))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_replay_may_take_its_time() -> None:
    few = slow({"objects": 10, "allocated_bytes": 100})
    many = slow({"objects": 100_000_000, "allocated_bytes": 10_000_000_000})
    assert few < 11
    # 100 ns an object and 0.2 ns a byte are what malloc and free take at most.
    assert many > 20 * (100e-9 * 1e8 + 0.2e-9 * 1e10)
