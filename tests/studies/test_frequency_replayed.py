"""`tare frequency` for traces: contrasts, answers that are known beforehand, and real replays."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
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
from tare.studies.frequency.replayed import ample_heap, default_periods, frequency_replayed
from tare.studies.frequency.replayed_report import CONTRASTS, Setting
from tare.studykit import replayer
from tests.native.replay.test_mmtk import tangled, write_trace
from tests.studies.test_minheap import known

KIB, MIB = 1 << 10, 1 << 20
PERIODS = (64 * KIB, 128 * KIB, 256 * KIB)
SETTINGS = [
    Setting(f"c{period}/{rate}", "c", period, rate) for period in PERIODS for rate in (1, 4)
]


def test_a_setting_is_held_against_what_differs_in_one_thing() -> None:
    found = {
        contrast.identifier: {
            (each.period, each.reclaim): (other.period, other.reclaim)
            for each in SETTINGS
            if (other := contrast.reference(each, SETTINGS)) is not None
        }
        for contrast in CONTRASTS
    }
    short, middle, long = PERIODS
    assert found == {
        "period": {(period, rate): (short, rate) for period in (middle, long) for rate in (1, 4)},
        "reclaiming": {(period, 4): (period, 1) for period in PERIODS},
        # 4 traces of 64 KiB reclaim as often as one of 256 KiB; the others have no such partner.
        "tracing": {(short, 4): (long, 1)},
    }


@pytest.mark.parametrize(
    ("allocated", "shortest"),
    [(10 << 30, 8 * MIB), (512 * MIB, 8 * MIB), (122 * MIB, MIB), (MIB, 16 * KIB), (0, 4 * KIB)],
)
def test_periods_fit_the_trace(allocated: int, shortest: int) -> None:
    found = default_periods(allocated)
    assert found == (shortest, 2 * shortest, 4 * shortest, 8 * shortest)
    assert shortest <= 4 * KIB or allocated // found[-1] >= 8


# ---- answers that are known ----


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Results]:
    """The study over replays whose mutator time a function of period and reclaim gives."""

    def study(mutator: Callable[[int, int], float]) -> Results:
        draw = random.Random(1)

        def pretend(_program: Program, manager: Manager, _limits: Limits, *_: Any) -> Outcome:
            words = manager.replayer
            option = {
                name: int(words[words.index(f"--{name}") + 1]) if f"--{name}" in words else 1
                for name in ("period", "reclaim")
            }
            seconds = mutator(option["period"], option["reclaim"]) * draw.uniform(0.999, 1.001)
            values = {
                "mutator_seconds": seconds,
                "collector_seconds": 0.25,
                "collections": 12.0,
                "nursery_collections": 10.0,
                "pauses": 10.0,
                "max_pause_seconds": 0.1,
                "peak_reserved_bytes": 1e6,
            }
            return Outcome(Status.OK, values=values, output_sha256="same")

        monkeypatch.setattr(replayer, "run_once", pretend)
        return frequency_replayed(
            known(tmp_path / "t.tare", count=1000),
            ["immix"],
            periods=PERIODS,
            reclaim=(4,),
            runs=8,
            folder=tmp_path / "out",
        )

    return study


def section_of(results: Results) -> Section:
    (section,) = build_report(results).sections
    return section


def ratios(section: Section) -> dict[tuple[str, str], list[str]]:
    """By period and reclaim: against the shortest, each reclaiming, fewer traces."""
    (table,) = (t for t in section.tables if t.identifier == "table-frequency-replayed")
    return {(row[1].text, row[2].text): [cell.text for cell in row[4:7]] for row in table.rows}


def near(text: str, value: float) -> bool:
    return float(text) == pytest.approx(value, rel=0.003)


def test_late_reclamation_is_told_from_tracing(pretended: Callable[..., Results]) -> None:
    """What reclaims after 256 KiB is slower by a tenth, however often it traces."""
    section = section_of(pretended(lambda period, rate: 1.1 if period * rate >= 256 * KIB else 1.0))
    found = ratios(section)
    assert near(found["256KiB", "1"][0], 1.1)
    assert near(found["64KiB", "4"][1], 1.1)
    assert near(found["64KiB", "4"][2], 1.0)
    told = " ".join(section.findings)
    assert "Tracing more often, but reclaiming as often: no difference in mutator time" in told
    assert "more mutator time" in told
    assert "Share of the replay in collections" in told
    assert section.obtained == "replayed"


def test_tracing_is_told_from_late_reclamation(pretended: Callable[..., Results]) -> None:
    """A trace each 64 KiB makes the mutator slower by a fifth, whenever it reclaims."""
    found = ratios(section_of(pretended(lambda period, _: 1.2 if period == 64 * KIB else 1.0)))
    assert near(found["64KiB", "4"][1], 1.0)
    assert near(found["64KiB", "4"][2], 1.2)
    assert near(found["256KiB", "1"][0], 1 / 1.2)
    assert found["128KiB", "4"][2] == "–"


def test_collections_are_told(pretended: Callable[..., Results]) -> None:
    section = section_of(pretended(lambda *_: 0.75))
    (table,) = (t for t in section.tables if t.identifier.endswith("-collections"))
    titles = [column.title for column in table.columns]
    line = dict(zip(titles, (cell.text for cell in table.rows[0]), strict=True))
    assert (line["full"], line["minor"], line["share"]) == ("2", "10", "25%")
    assert line["mean pause"] == "25.0 ms"


def test_a_damaged_folder_is_said_to_be_one(pretended: Callable[..., Results]) -> None:
    results = pretended(lambda *_: 1.0)
    results.document["settings"] = [{"manager": 3}]
    with pytest.raises(UsageError, match="damaged"):
        build_report(results)


# ---- the real thing ----


def test_nothing_but_the_period_collects_the_whole_heap(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.tare", *tangled(20_000, seed=5))
    period = 256 * KIB
    results = frequency_replayed(
        trace,
        ["immix", "semispace", "genimmix"],
        periods=[period, 4 * period],
        reclaim=[4],
        runs=1,
        warmup=0,
        folder=tmp_path / "out",
    )
    ended = {r.run.manager: r.outcome for r in read_records(results.folder)}
    assert {outcome.status for outcome in ended.values()} == {Status.OK}
    allocated = results.document["schedule"]["allocated_bytes"]
    full: dict[int, set[float]] = {}
    for setting in results.document["settings"]:
        values = ended[setting["manager"]].values
        counted = values["collections"] - values["nursery_collections"]
        full.setdefault(setting["period"], set()).add(counted)
    # A large object ends a period early, under any collector.
    assert all(len(counts) == 1 for counts in full.values()), full
    assert all(max(full[each]) >= allocated // each for each in full)
    assert min(full[period]) > 3 * max(full[4 * period])
    peaks = {
        (s["period"], s["reclaim"]): ended[s["manager"]].values["peak_reserved_bytes"]
        for s in results.document["settings"]
        if s["collector"] == "semispace"
    }
    assert peaks[period, 4] > peaks[period, 1]


def test_the_heap_has_room_for_what_is_held() -> None:
    counted = {"objects": 1000, "allocated_bytes": 1 << 30, "peak_bytes": 1 << 28}
    assert 3 * ((1 << 28) + MIB) <= ample_heap(counted, MIB) < 3.1 * ((1 << 28) + MIB)
    # No more than all that is ever allocated.
    assert ample_heap(counted, 1 << 40) < 3.1 * (1 << 30)


def test_the_command_takes_a_trace(tmp_path: Path, tare: Any) -> None:
    trace = write_trace(tmp_path / "t.tare", *tangled(2_000, seed=3))
    done = tare(
        *("frequency", "-m", "immix", "--every", "32KiB,128KiB", "--reclaim", "4", "-n", "2"),
        *("-o", str(tmp_path / "out"), "--json", str(tmp_path / "r.json"), str(trace)),
    )
    assert done.returncode == 0, done.stderr
    assert "How often to collect, replayed" in done.stdout
    made = json.loads((tmp_path / "r.json").read_text())
    assert made["study"] == "frequency-replayed"
    assert len({row["manager"] for row in made["measurements"]}) == 5
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Mutator time against tracing more often" in page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-m", "glibc"], "not a collector of replays"),
        (["-m", "immix(period=1MiB)"], "set its period"),
        (["--reclaim", "0"], "reclaim at some collections"),
        (["-i", "words.txt"], "leave out -i"),
    ],
)
def test_wrong_usage(options: list[str], words: str, tmp_path: Path, tare: Any) -> None:
    trace = known(tmp_path / "t.tare", count=10)
    (tmp_path / "words.txt").write_text("word\n")
    done = tare("frequency", *options, "-o", str(tmp_path / "out"), str(trace))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_trace_that_is_not_there(tmp_path: Path, tare: Any) -> None:
    done = tare("frequency", str(tmp_path / "none.tare"))
    assert done.returncode == 2
    assert "does not exist" in done.stderr
