"""`tare weigh` of a program whose allocations are replayed under collectors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tare as api
from tare.answers.building import build_report
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.studykit.budget import Effort
from tare.weighing import collectors_observe
from tare.weighing.sections import collectors

GAWK = """BEGIN {
  for (i = 0; i < 40000; i++) n[i * 7919 % 2003] = n[i * 7919 % 2003] i
  print length(n)
}"""


def weighed(tmp_path: Path) -> Results:
    return api.weigh(
        ["gawk", GAWK],
        ["glibc"],
        effort=Effort.THOROUGH,
        only=["collectors"],
        folder=tmp_path / "out",
    )


def test_a_program_is_weighed_under_collectors(tmp_path: Path) -> None:
    results = weighed(tmp_path)
    records = [r for r in read_records(results.folder) if r.run.study == collectors.STUDY]
    assert [r.outcome.status for r in records] == [Status.OK] * 4
    counted = records[0].outcome.details["counted"]
    assert counted["objects"] > 40_000
    for each in records[1:]:
        values, details = each.outcome.values, each.outcome.details
        assert 0 <= values["min_heap_low_bytes"] < values["min_heap_high_bytes"]
        assert values["min_heap_high_bytes"] > counted["peak_bytes"]
        assert details["heap_bytes"] == 2 * values["min_heap_high_bytes"]
        assert len(collectors_observe.ratios(details)) == collectors_observe.PAIRS
        assert 0 <= values["collector_seconds"] <= values["replay_seconds"]
    rows = results.measurements
    assert set(rows.filter(rows["study"] == collectors.STUDY)["obtained"]) == {"replayed"}
    assert set(rows["status"]) == {"ok"}
    section = collectors.section(results)
    assert re.match(r"Under \S+ it would need at least ", section.findings[0])
    assert len(section.tables[0].rows) == len(collectors.COLLECTORS)
    assert section.title in [each.title for each in build_report(results).sections]


def test_too_many_objects_are_not_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectors_observe, "MOST_OBJECTS", 1000)
    results = weighed(tmp_path)
    (finding,) = collectors.section(results).findings
    assert "objects, and a bill has time for 1,000" in finding
