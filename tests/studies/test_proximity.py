"""Events close to a collection: simulated machines, and a real program."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.answers.building import build_report
from tare.base.errors import UsageError
from tare.records.metrics import Status
from tare.records.results import Results
from tare.records.runs import Outcome
from tare.studies.proximity import question as command
from tare.studies.proximity.analysis import (
    KINDS,
    Events,
    Halts,
)
from tare.studies.proximity.observe import InJvm, Seen
from tests.support.java import event_agent
from tests.unit.studies.test_proximity import COLLECTION_NS, simulated

Pretended = Callable[..., Results]


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pretended:
    """The whole study over pairs of runs whose events and stops are made up: ``plain`` and
    ``paused`` are what the two runs of an invocation show."""

    def study_of(plain: tuple[Events, Halts], paused: tuple[Events, Halts], runs: int = 1) -> Any:
        def run(prepared: Any, *_: Any) -> tuple[Outcome, Seen]:
            events, stops = paused if prepared.keywords["pauses"].every else plain
            seen = Seen(events, stops, 0, "made up")
            return Outcome(Status.OK, output_sha256="same"), seen

        monkeypatch.setattr(command, "timed_run", run)
        monkeypatch.setattr(InJvm, "seen", lambda _self, left: left)
        monkeypatch.setattr(command, "agent_jar", lambda _report: Path("/dev/null"))
        monkeypatch.setattr("tare.memory_managers.suitable.check", lambda *_, **__: None)
        return command.proximity(
            ["true"], ["A.b"], ["jvm.serial"], runs=runs, folder=tmp_path / "out"
        )

    return study_of


def with_kind(made: tuple[Events, Halts], kind: str) -> tuple[Events, Halts]:
    events, stops = made
    return events, replace(stops, kind=np.full(len(stops), KINDS.index(kind)))


def told(results: Results) -> str:
    (section,) = build_report(results).sections
    return " ".join(section.findings)


def test_what_any_pause_does_is_no_doing_of_a_collection(pretended: Pretended) -> None:
    results = pretended(simulated(), with_kind(simulated(seed=4), "park"))
    said = told(results)
    assert "the first event after a collection takes 1.7" in said
    assert "costs the next event no more than any pause does" in said
    assert "The null" in said
    values = {row["metric"]: row["value"] for row in results.measurements.to_dicts()}
    assert values["after_1_ratio"] == pytest.approx(1.7, rel=0.03)
    assert values["after_20_ratio"] == pytest.approx(1.0, rel=0.03)
    assert values["after_1_cpu_ratio"] == pytest.approx(1.7, rel=0.03)
    assert values["interrupted_events"] == 0


def test_what_no_pause_does_is_of_the_collection(pretended: Pretended) -> None:
    results = pretended(simulated(), with_kind(simulated(factors=(1.1,)), "stop"))
    assert "comes from the collection itself" in told(results)


def test_nothing_is_told_as_nothing(pretended: Pretended) -> None:
    results = pretended(simulated(factors=()), with_kind(simulated(factors=()), "spin"), runs=2)
    assert "no effect of a collection on the next event was seen" in told(results)


def test_too_few_pauses_are_the_only_reason_that_is_given(pretended: Pretended) -> None:
    events, stops = with_kind(simulated(seed=4), "park")
    few = replace(
        stops, **{column.name: getattr(stops, column.name)[:2] for column in fields(stops)}
    )
    said = told(pretended(simulated(), (events, few)))
    assert "Too few events follow pauses" in said
    assert "left open." in said
    assert "as long" not in said


def test_a_pause_of_another_length_is_no_control(pretended: Pretended) -> None:
    events, stops = with_kind(simulated(factors=(3.0,)), "stop")
    longer = replace(stops, start=stops.end - 5 * COLLECTION_NS)
    said = told(pretended(simulated(), (events, longer)))
    assert "only pauses about as long" in said
    assert "left open" in said
    assert "less than a pause" not in said


def test_collections_that_are_too_close(pretended: Pretended) -> None:
    close = simulated(every=12)
    assert "nothing can be said" in told(pretended(close, with_kind(close, "spin")))


def test_too_few_collections_fail(pretended: Pretended) -> None:
    few = simulated(count=1000, every=400)
    results = pretended(few, few)
    assert results.measurements["status"].to_list() == ["failed"]
    assert "only 2 pauses" in str((results.folder / "runs.jsonl").read_text())


def test_a_damaged_folder_is_said_to_be_one(pretended: Pretended) -> None:
    results = pretended(simulated(), with_kind(simulated(), "spin"))
    log = results.folder / "runs.jsonl"
    log.write_text(log.read_text().replace('"curves"', '"other"'))
    with pytest.raises(UsageError, match="damaged"):
        build_report(results)


# ---- the real thing ----

ALLOCATING = """
public class Main {
    static Object[] kept = new Object[1000];
    static long query(int key) {
        long sum = 0;
        for (int i = 0; i < 20 + key; i++) {
            byte[] some = new byte[200];
            kept[(i * 31 + key) % kept.length] = some;
            sum += some.length;
        }
        return sum;
    }
    public static void main(String[] a) {
        long sum = 0;
        for (int i = 0; i < 60_000; i++) sum += query(i * 31 % 64);
        System.out.println(sum);
    }
}
"""


def test_a_real_program(tmp_path: Path, tare: Any) -> None:
    event_agent()
    (tmp_path / "Main.java").write_text(ALLOCATING)
    subprocess.run(["javac", "-d", tmp_path, tmp_path / "Main.java"], check=True)
    java = ("--", "java", "-cp", str(tmp_path), "Main")
    options = ("-m", "jvm.serial(period=4MiB)", "-n", "1", "--seed", "3")
    done = tare(
        *("proximity", "-e", "Main.query", *options, "-o", "out", "--json", "r.json", *java)
    )
    assert done.returncode == 0, done.stderr
    assert "the first event after a collection takes" in done.stdout
    made = json.loads((tmp_path / "r.json").read_text())
    values = {row["metric"]: row["value"] for row in made["measurements"]}
    assert 29_000 < values["events"] <= 30_001  # the second half
    # 30,000 queries of 51 arrays of 216 bytes each.
    assert values["pauses"] == pytest.approx(30_000 * 51.5 * 216 / (4 << 20), rel=0.1)
    assert 0 < values["interrupted_events"] < 1000
    assert values["after_1_ratio"] > 0
    page = (tmp_path / "out" / "report.html").read_text()
    for words in ("By distance in time", "a stop of all", "Where the fastest and the slowest 5%"):
        assert words in page
    missing = tare("proximity", "-e", "Main.play", *options, "-o", "none", *java)
    assert missing.returncode == 1
    assert "no class of the program has the method Main.play" in missing.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-e", "query"], "is not a method"),
        (["-e", "a.b", "-m", "glibc"], "is not a collector of a JVM"),
        (["-e", "a.b", "-n", "0"], "0 runs"),
        ([], "--event"),
        (["-e", "a.b", "--collections", "few"], "give numbers"),
    ],
)
def test_wrong_usage(words: list[str], said: str, tmp_path: Path, tare: Any) -> None:
    done = tare("proximity", *words, "-o", str(tmp_path / "out"), "--", "java", "-version")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
