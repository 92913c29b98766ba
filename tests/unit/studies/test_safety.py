"""What temporal safety costs, on records whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run
from tare.report.model import Table
from tare.studies.delay import report as delay
from tare.studykit.safety import quarantined, safety_tables
from tests.unit.studies.test_delay import MIB, folder, texts

NAMES = [each.name for each in delay.variants(["fast"], (MIB,), {}, quarantine=True)]
QUARANTINE = "marksweep(fast, free=quarantine)"
PUBLISHED = ["MarkUs, published", "MineSweeper, published"]
WALLS = {"fast": 1.0, NAMES[1]: 1.0, NAMES[2]: 1.1, QUARANTINE: 1.25}
DETAILS: dict[str, dict[str, Any]] = {
    NAMES[2]: {"delay": {"mean_held_seconds": 0.002}},
    QUARANTINE: {
        "marksweep": {
            "held_bytes": 200_000,
            "ignored_objects": 10,
            "allocated_bytes": 1_000_000,
            "searched_bytes": 6 << 30,
            "mark_nanoseconds": 2_000_000_000,
        }
    },
}


def outcome(manager: str, slower: float) -> Outcome:
    memory = 2e6 if manager == QUARANTINE else 1e6
    values = {"wall_seconds": WALLS[manager] * slower, "peak_resident_bytes": memory}
    return Outcome(Status.OK, values=values, details=DETAILS.get(manager, {}), output_sha256="same")


def tables(path: Path, study: str, names: list[str]) -> list[Table]:
    managers = [(number, name) for number in range(8) for name in names]
    records = [
        Record(Run(study, "p", name, number, order), outcome(name, 1 + 0.001 * number))
        for order, (number, name) in enumerate(managers, 1)
    ]
    described: dict[str, Any] = {"version": "", "object": None, "environment": {}}
    results = folder(path, records, study=study, managers=dict.fromkeys(names, described))
    return safety_tables(results, study, records)


@pytest.mark.parametrize("study", ["delay", "compare"])
def test_what_holds_objects_back_has_a_line_beside_published_ones(
    tmp_path: Path, study: str
) -> None:
    assert NAMES[-1] == quarantined("fast").name == QUARANTINE
    (found,) = tables(tmp_path / "results", study, NAMES)
    titles = [column.title for column in found.columns]
    lines = [dict(zip(titles, row, strict=True)) for row in texts(found)]
    assert [line["manager"] for line in lines] == [NAMES[2], QUARANTINE, *PUBLISHED]
    delayed, quarantine, markus, _ = lines
    assert delayed["comes back when"] == "1MiB are freed"
    assert (delayed["time"], delayed["memory"], delayed["after"]) == ("1.100", "1.000", "2.00 ms")
    assert delayed["searched"] == "–"
    assert quarantine["comes back when"] == "no pointer is left"
    assert (quarantine["time"], quarantine["memory"]) == ("1.250", "2.000")
    assert quarantine["searched"] == "3.00 GiB/s"
    waits = float(quarantine["after"].removesuffix(" ms"))
    assert waits == pytest.approx(20_000 / 1_000_000 * 1250, rel=0.01), "of the run's time"
    assert (markus["time"], markus["memory"]) == ("1.100", "1.160")


def test_managers_that_hold_nothing_back_have_no_table(tmp_path: Path) -> None:
    assert tables(tmp_path / "results", "compare", NAMES[:2]) == []
