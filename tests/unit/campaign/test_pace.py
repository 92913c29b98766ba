"""Whether two results were measured on the same machine, at the same speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.campaign import canary
from tare.campaign.pace import Pace, compared
from tare.records.metrics import Status
from tare.records.results import Results, measurement_schema
from tare.records.runs import Outcome, Record, Run
from tests.support.campaigns import MACHINE, described


def results(folder: Path, visits: tuple[float, ...] = (), **more: Any) -> Results:
    """A folder whose canary had these visits, at its start and its end."""
    seconds = {
        when: (seconds * 1.3, seconds)
        for when, seconds in zip(("start", "end"), visits, strict=False)
    }
    document = {**described("compare", ["p"], ["glibc"]), "canary_seconds": seconds, **more}
    return Results(folder, document, pl.DataFrame(schema=measurement_schema()))


def with_records(folder: Path, records: Sequence[Record]) -> Results:
    folder.mkdir()
    (folder / "runs.jsonl").write_text("".join(f"{each.to_line()}\n" for each in records))
    return results(folder)


def machine(**changed: Any) -> dict[str, Any]:
    return {"machine": {**MACHINE, **changed}}


def test_a_machine_at_the_same_speed_is_the_same(tmp_path: Path) -> None:
    pace = compared(
        results(tmp_path / "a", (0.05, 0.051)), results(tmp_path / "b", (0.051, 0.0505))
    )
    assert pace.other == ""
    assert pace.has_canary
    assert pace.known == "canary 1.00 vs 1.00"
    assert pace.reason_against(1.2, 1.3) == ""


def test_a_machine_at_another_speed_is_another(tmp_path: Path) -> None:
    pace = compared(results(tmp_path / "a", (0.05, 0.05)), results(tmp_path / "b", (0.061, 0.062)))
    assert pace.other == "the machine ran at another speed: canary 1.00 vs 1.23"
    assert pace.reason_against(5.0, 6.0) == pace.other


def test_what_the_canary_varied_by_within_a_folder_explains_no_more_than_that(
    tmp_path: Path,
) -> None:
    pace = compared(results(tmp_path / "a", (0.05, 0.07)), results(tmp_path / "b", (0.06, 0.06)))
    assert pace.other == ""
    assert "varied as much: canary 1.00 vs 0.86 to 1.20" in pace.reason_against(1.1, 1.15)
    assert pace.reason_against(1.3, 1.4) == ""
    assert pace.reason_against(0.98, 1.02) == "", "no change is none to explain"


def test_visits_during_the_study_count(tmp_path: Path) -> None:
    def with_visits(name: str, seconds: float) -> Results:
        records: list[Record] = []
        for _ in range(canary.FEWEST_VISITS):
            outcome = Outcome(Status.OK, values={"wall_seconds": seconds})
            records += canary.records_of([outcome], "", records, "", "")
            records.append(Record(Run("compare", "p", "glibc", 0, 1), outcome))
        return with_records(tmp_path / name, records)

    steady, slow = with_visits("a", 0.05), with_visits("b", 0.08)
    assert "canary 1.00 vs 1.60" in compared(steady, slow).other
    assert compared(steady, steady).other == ""


def test_old_folders_say_that_they_have_no_canary(tmp_path: Path) -> None:
    old, new = results(tmp_path / "a"), results(tmp_path / "b", (0.05, 0.05))
    pace = compared(old, new)
    assert (pace.other, pace.has_canary) == ("", False)
    assert pace.known.startswith("no canary in old: a change of the machine's speed shows in")
    assert compared(old, old).known.startswith("no canary in old and new:")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"load_average": 1.7}, "another load: load average 0.1 vs 1.7 on 2 cores"),
        ({}, {"load_average": 1.0}, ""),
        ({"load_average": 7.8}, {"load_average": 7.8}, "busy, with a load average of 7.8 on 2"),
        ({}, {"processor": "Other"}, "the machine is another: processor Some Processor vs Other"),
        ({}, {"turbo": "on"}, "the machine is another: turbo off vs on"),
        ({"turbo": ""}, {"turbo": "on"}, "the machine is another: turbo not known vs on"),
    ],
)
def test_what_else_is_recorded_of_a_machine_speaks_too(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    pace = compared(
        results(tmp_path / "a", **machine(**before)), results(tmp_path / "b", **machine(**after))
    )
    assert said in pace.other
    assert bool(pace.other) == bool(said)


def test_a_load_that_the_canary_does_not_feel_is_no_other_speed(tmp_path: Path) -> None:
    old = results(tmp_path / "a", (0.05, 0.05))
    new = results(tmp_path / "b", (0.05, 0.05), **machine(load_average=1.7))
    assert compared(old, new) == Pace("", "canary 1.00 vs 1.00")


def test_a_machine_as_busy_as_before_is_the_same_where_the_canary_says_so(tmp_path: Path) -> None:
    busy = results(tmp_path / "a", (0.05, 0.05), **machine(load_average=2.9))
    assert compared(busy, busy).other == ""
    idle = results(tmp_path / "b", (0.05, 0.05))
    assert "busy, with a load average of 2.9" in compared(idle, busy).other


def test_time_that_the_host_took_speaks_too(tmp_path: Path) -> None:
    def stolen(name: str, share: float) -> Results:
        steal = {"steal": {"seconds": share, "share": share}}
        outcome = Outcome(Status.OK, values={"wall_seconds": 1.0}, details=steal)
        records = [Record(Run("compare", "p", "glibc", n, n), outcome) for n in range(4)]
        return with_records(tmp_path / name, records)

    assert "(steal)" in compared(stolen("a", 0.0), stolen("b", 0.2)).other
    assert compared(stolen("c", 0.2), stolen("d", 0.2)).other == ""
