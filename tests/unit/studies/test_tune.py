"""`tare tune` on simulated machines: what it tries, what it confirms, and what it never claims."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from msgspec import to_builtins

from tare.answers.building import build_report
from tare.answers.exports.formats import to_json
from tare.answers.summaries import summary
from tare.base.documents import converted
from tare.memory_managers.catalogue import load_recipes
from tare.memory_managers.manager import parse_name
from tare.programs.program import Program
from tare.records.header import Header
from tare.records.metrics import Status
from tare.records.results import Results, load
from tare.records.runs import Outcome, Record, Run
from tare.studies.tune import report
from tare.studies.tune.plan import SEARCH, STUDY, Tuning, next_round
from tare.studies.tune.question import can_be, of_its_runtime
from tare.studies.tune.seen import Bounds, Seen, failed, front
from tare.studies.tune.settings import settings
from tare.studies.tune.space import setting, space_of, values_in
from tare.studykit import adoption
from tests.support.campaigns import described, write_campaign

MANAGERS = ("glibc", "jemalloc", "mimalloc", "tcmalloc")
BYTES = 100 << 20
WELL = Outcome(Status.OK, values={"wall_seconds": 1.0, "peak_resident_bytes": BYTES})
World = Callable[[str], tuple[float, float]]
"""Time and memory of a setting, relative to the baseline's."""


def machine(
    world: World,
    folder: Path,
    *,
    run_seconds: float = 10.0,
    seconds: float = 900.0,
    noise: float = 0.03,
    seed: int = 1,
    bounds: Bounds = Bounds(),  # noqa: B008
    failing: Callable[[str], bool] = lambda _name: False,
    slowed: Callable[[float], float] = lambda _clock: 1.0,
) -> tuple[Results, list[Record], float]:
    """What a machine shows whose speed drifts and whose runs vary; and what that took."""
    chance = random.Random(seed)
    tuning = Tuning("p", "glibc", space_of(MANAGERS), seconds, seed, bounds)
    records: list[Record] = []
    clock, drift = 0.0, 0.0
    while runs := next_round(tuning, records):
        for run in runs:
            time, memory = world(run.manager)
            drift = 0.9 * drift + chance.gauss(0, noise / 3)
            took = run_seconds * time * (1 + drift + abs(chance.gauss(0, noise))) * slowed(clock)
            began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock)
            clock += took + 0.08
            outcome = Outcome(
                Status.OK,
                values={
                    "wall_seconds": took,
                    "processor_seconds": took,
                    "user_seconds": took,
                    "system_seconds": 0.0,
                    "peak_resident_bytes": BYTES * memory * (1 + chance.gauss(0, 0.002)),
                },
            )
            if failing(run.manager):
                outcome = Outcome(Status.FAILED, "it crashed")
            records.append(Record(run, outcome, began.isoformat()))
    names = ["glibc", *{record.run.manager for record in records} - {"glibc"}]
    write_campaign(folder, ["p"], names, 0, study=STUDY, records=records)
    (folder / "measurements.parquet").unlink()
    results = load(folder)
    asked = {"slower_by": bounds.slower_by, "memory_limit": bounds.memory_limit}
    document = {**results.document, "request": {"seconds": seconds, **asked}}
    return replace(results, document=document), records, clock


def planted(name: str) -> tuple[float, float]:
    """jemalloc is small when it returns memory at once and has one arena; mimalloc is quick."""
    manager, options = parse_name(name)
    time, memory = {
        "glibc": (1.0, 1.0),
        "jemalloc": (0.97, 1.1),
        "mimalloc": (0.85, 1.3),
        "tcmalloc": (0.95, 1.2),
    }[manager]
    if manager == "jemalloc":
        time += 0.15 if options.get("tcache") == "false" else 0.0
        memory *= 0.75 if options.get("decay") == "0" else 1.0
        memory *= 0.9 if options.get("arenas") == "1" else 1.0
    return time, memory


def nothing_matters(_name: str) -> tuple[float, float]:
    return 1.0, 1.0


def studies_of(records: Sequence[Record]) -> set[str]:
    return {record.run.study for record in records}


# ---- what it finds ----


@pytest.mark.parametrize("seed", range(3))
def test_fifteen_minutes_find_and_confirm_what_was_planted(tmp_path: Path, seed: int) -> None:
    results, _, took = machine(planted, tmp_path / "r", seed=seed)
    assert took <= 900 * 1.03
    found = {each.manager: each for each in settings(results)}
    quick = min(found.values(), key=lambda each: each.time_ratio)
    assert quick.manager.startswith("mimalloc")
    assert quick.time_low <= 0.85 <= quick.time_high < 1 < quick.memory_low
    small = min(found.values(), key=lambda each: each.memory_ratio)
    assert small.manager.startswith("jemalloc(")
    assert "decay=0" in small.manager
    assert small.memory_ratio < 0.84


@pytest.mark.parametrize("slower", [1.0, 1.35])
def test_the_time_is_kept_where_the_baseline_is_slowest_and_others_use_the_machine(
    tmp_path: Path, slower: float
) -> None:
    def slow_baseline(name: str) -> tuple[float, float]:
        return (1.0 if name.startswith("glibc") else 0.4), 1.0

    results, _, took = machine(
        slow_baseline, tmp_path / "r", run_seconds=12.0, slowed=lambda at: slower if at > 540 else 1
    )
    assert took <= 900
    assert settings(results)


def test_options_are_combined(tmp_path: Path) -> None:
    results, records, took = machine(planted, tmp_path / "r", run_seconds=1.0)
    assert took < 900, "a program that is done soon takes less than it may"
    assert "jemalloc(decay=0, arenas=1)" in {each.manager for each in settings(results)}
    assert 30 < len({record.run.manager for record in records}) <= 121


def test_an_answer_sets_nothing_that_does_nothing(tmp_path: Path) -> None:
    for seed in range(2):
        results, *_ = machine(planted, tmp_path / str(seed), run_seconds=1.0, seed=seed)
        for found in settings(results):
            manager, options = parse_name(found.manager)
            assert manager != "mimalloc" or not options, found.manager
            assert set(options) <= {"decay", "arenas", "tcache"}, found.manager


@pytest.mark.thorough
def test_where_options_do_nothing_nothing_is_recommended_twenty_times(tmp_path: Path) -> None:
    for seed in range(20):
        results, *_ = machine(nothing_matters, tmp_path / str(seed), seed=seed)
        assert settings(results) == [], seed
        assert report.section(results).findings[0].startswith("Nothing to recommend"), seed


# ---- bounds ----


def test_no_answer_is_slower_than_allowed(tmp_path: Path) -> None:
    def slow(name: str) -> tuple[float, float]:
        return (1.3, 0.5) if name.startswith("jemalloc") else (1.0, 1.0)

    free, *_ = machine(slow, tmp_path / "a", run_seconds=1.0)
    assert [each.manager for each in settings(free)] == ["jemalloc"]
    assert "For less memory, jemalloc: 50% less memory" in report.section(free).findings[0]
    bound, records, _ = machine(slow, tmp_path / "b", run_seconds=1.0, bounds=Bounds(0.05))
    assert settings(bound) == []
    assert not any(r.run.manager == "jemalloc" for r in records if r.run.study == STUDY)


def test_with_a_limit_of_memory_the_baseline_may_be_above_it(tmp_path: Path) -> None:
    def large(name: str) -> tuple[float, float]:
        return (1.1, 0.4) if name == "tcmalloc(release=10)" else (0.9, 0.8)

    limit = BYTES // 2
    results, *_ = machine(large, tmp_path / "r", run_seconds=1.0, bounds=Bounds(None, limit))
    assert [each.manager for each in settings(results)] == ["tcmalloc(release=10)"]


def test_runs_that_are_too_long_for_the_time_are_told_of(tmp_path: Path) -> None:
    results, records, _ = machine(planted, tmp_path / "r", run_seconds=60.0, seconds=600.0)
    assert len(records) == 1
    (finding, *_) = report.section(results).findings
    assert finding.startswith("Nothing was tried: with runs of this length it takes 25 min 23 s")
    assert "Give --time 26min" in finding


# ---- failures ----


def test_a_setting_that_fails_is_left_out_and_not_tried_again(tmp_path: Path) -> None:
    results, records, _ = machine(
        planted, tmp_path / "r", run_seconds=1.0, failing=lambda name: "mimalloc" in name
    )
    assert [r.run.manager for r in records if "mimalloc" in r.run.manager].count("mimalloc") == 1
    assert all("mimalloc" not in each.manager for each in settings(results))
    assert not report.failed(results)
    assert any("more with a failed run" in each for each in report.section(results).findings)


def test_a_setting_that_prints_something_else_is_left_out() -> None:
    def printed(name: str, order: int, text: str) -> Record:
        return Record(Run(SEARCH, "p", name, 0, order), replace(WELL, output_sha256=text))

    records = [printed("glibc", 1, "a"), printed("jemalloc", 2, "b"), printed("mimalloc", 3, "a")]
    assert failed(records, "glibc") == {"jemalloc"}
    assert failed([*records, printed("glibc", 4, "c")], "glibc") == set()


def test_the_baseline_alone_has_options_too(tmp_path: Path) -> None:
    tuning = Tuning("p", "glibc", space_of(["glibc"]), 900.0, 1, Bounds())
    done = [Record(Run(SEARCH, "p", "glibc", 0, 1, warmup=True), WELL, "2026-01-01")]
    runs = next_round(tuning, done)
    assert [run.manager for run in runs] == ["glibc", "glibc"]
    done += [Record(run, WELL, "2026-01-01") for run in runs]
    assert any("arenas=" in run.manager for run in next_round(tuning, done))


def test_a_baseline_that_fails_ends_it(tmp_path: Path) -> None:
    results, records, _ = machine(
        planted, tmp_path / "r", failing=lambda name: name == "glibc", run_seconds=1.0
    )
    assert len(records) == 1
    assert report.failed(results)
    assert report.section(results).findings == [
        "Nothing could be compared: a run under glibc did not succeed."
    ]


# ---- its form ----


def test_what_was_interrupted_goes_on_as_it_would_have(tmp_path: Path) -> None:
    _, records, _ = machine(planted, tmp_path / "r", seconds=400.0)
    tuning = Tuning("p", "glibc", space_of(MANAGERS), 400.0, 1, Bounds())
    done: list[Record] = []
    while runs := next_round(tuning, done):
        assert runs == [record.run for record in records[len(done) : len(done) + len(runs)]]
        done = records[: len(done) + len(runs)]
    assert done == records


def test_only_fresh_runs_make_the_answer(tmp_path: Path) -> None:
    results, records, _ = machine(planted, tmp_path / "r")
    assert studies_of(records) == {SEARCH, STUDY}
    confirming = [record.run for record in records if record.run.study == STUDY]
    assert len({run.manager for run in confirming}) <= 4
    assert set(summary(results)["manager"]) == {run.manager for run in confirming}


def test_json_has_the_settings(tmp_path: Path) -> None:
    results, *_ = machine(planted, tmp_path / "r")
    document = to_json(results, summary(results))
    assert document["settings"] == to_builtins(settings(results))
    assert {each["study"] for each in document["measurements"]} == {SEARCH, STUDY}
    (jemalloc,) = (e for e in document["settings"] if e["manager"].startswith("jemalloc"))
    assert jemalloc["link"] == "-ljemalloc"
    assert jemalloc["environment"]["LD_PRELOAD"] == "libjemalloc.so.2"
    assert jemalloc["time_metric"] in ("wall_seconds", "processor_seconds")


def test_the_report_has_the_front(tmp_path: Path) -> None:
    results, records, _ = machine(planted, tmp_path / "r", run_seconds=1.0)
    (section,) = build_report(results).sections
    (figure,) = section.figures
    tables = {each.identifier: each for each in section.tables}
    tried = {record.run.manager for record in records if record.run.study == SEARCH}
    assert {row[0].text for row in tables["table-tried"].rows} == tried
    assert len(tables["table-confirmed"].rows) == len(settings(results)) + 1
    dots = [layer for layer in figure.spec["layer"] if layer["mark"]["type"] == "circle"]
    assert len(dots[0]["data"]["values"]) == len(tried)


def test_front_is_what_nothing_beats() -> None:
    def seen(name: str, time: float, memory: float) -> Seen:
        return Seen(name, time, memory, 1.0, 1)

    found = [seen("a", 1, 1), seen("b", 0.9, 1.1), seen("c", 0.95, 1.2), seen("d", 1.2, 0.8)]
    assert [each.name for each in front(found)] == ["b", "a", "d"]


# ---- what may be set ----


def test_names_of_settings_say_what_they_set() -> None:
    name = setting("jemalloc(arenas=2)", {"thp": "always", "decay": "0"})
    assert name == "jemalloc(decay=0, arenas=2, thp=always)"
    assert values_in("jemalloc(arenas=2)", name) == {"decay": "0", "thp": "always"}
    assert values_in("jemalloc", "jemalloc") == {}


def test_what_a_user_has_set_stays(tmp_path: Path) -> None:
    space = space_of(["jemalloc(decay=0)", "delay(glibc, size=64KiB)", "./libmine.so", "snmalloc"])
    assert "decay" not in {choice.option for choice in space["jemalloc(decay=0)"]}
    assert [space[name] for name in list(space)[1:]] == [(), (), ()]


@pytest.mark.parametrize(
    ("manager", "variables"),
    [
        ("go.gogc(gogc=50)", {"GOGC": "50"}),
        ("go.gogc(limit=1MiB)", {"GOGC": "100", "GOMEMLIMIT": "1048576"}),
        ("node.v8(semi=32MiB)", {"NODE_OPTIONS": "--max-semi-space-size=32"}),
        ("ocaml.gc(minor=8MiB)", {"OCAMLRUNPARAM": "s=1048576"}),
        (
            "jvm.serial(heap=64MiB)",
            {"JDK_JAVA_OPTIONS": "-XX:+UseSerialGC -Xms67108864 -Xmx67108864"},
        ),
        ("cpython.gc(threshold=10000)", {}),
        ("cpython.malloc(glibc)", {"PYTHONMALLOC": "malloc"}),
    ],
)
def test_settings_of_runtimes_have_variables(
    monkeypatch: pytest.MonkeyPatch, manager: str, variables: dict[str, str]
) -> None:
    for name in ("GOGC", "GOMEMLIMIT", "NODE_OPTIONS", "OCAMLRUNPARAM", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    run = converted(described(STUDY, ["p"], [manager]), Header)
    assert adoption.environment(run, manager) == variables


def test_what_a_program_must_set_itself_is_said() -> None:
    run = converted(described(STUDY, ["p"], ["glibc"]), Header)
    assert adoption.how(run, "cpython.gc(threshold=200)") == "call gc.set_threshold(200)"
    assert adoption.how(run, "cpython.off").startswith("call gc.disable()")
    assert adoption.how(run, "go.gogc(gogc=50)") == ""


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("/jdk/bin/java", "-jar", "a.jar"), "jvm.own"),  # a path: it need not be installed
        (("node", "a.js"), "node.v8"),
        (("python3", "a.py"), "cpython.gc"),
        (("sh", "-c", "exit"), ""),
    ],
)
def test_a_program_of_a_runtime_has_its_collectors(words: tuple[str, ...], first: str) -> None:
    names, baseline = of_its_runtime(Program("p", words))
    assert (list(names)[:1], baseline) == ([first] if first else [], first)


def test_options_that_the_program_sets_itself_are_left_alone() -> None:
    program = Program("p", ("/jdk/bin/java", "-Xmx64m", "-jar", "a.jar"))
    space = space_of(["jvm.serial"], partial(can_be, program))
    assert {choice.option for choice in space["jvm.serial"]} == {"young"}


def test_what_is_tried_is_not_what_the_manager_does_anyway() -> None:
    for recipe in load_recipes().values():
        for option in recipe.options:
            assert len(set(option.tried)) == len(option.tried)
            for value in option.tried:
                assert recipe.environment({option.name: value}, {}), (recipe.name, option.name)
                assert value not in (option.usual, option.default), (recipe.name, option.name)


def test_the_run_of_a_round_has_the_baseline_twice(tmp_path: Path) -> None:
    _, records, _ = machine(planted, tmp_path / "r")
    runs: list[Run] = [record.run for record in records if not record.run.warmup]
    base = sum(run.manager == "glibc" for run in runs)
    rounds = len({(run.study, run.invocation // 2) for run in runs if run.manager == "glibc"})
    assert base == 2 * rounds
