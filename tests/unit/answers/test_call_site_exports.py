"""Counts by call site in other tools' forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tare.base.errors import UsageError
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run
from tare.studies.count import export as count_export
from tests.support.campaigns import write_campaign
from tests.unit.answers.test_trace_export import SPEEDSCOPE

CALL_SITES = {
    "frames": [
        {"function": name, "object": "/bin/p", "file": "/src/p.c", "line": line, "offset": 0}
        for name, line in (("main", 9), ("make; it", 5), ("xmalloc", 2))
    ],
    "sites": [[0, 0], [1, 1], [2, 2]],
    "costs": [
        [3, "malloc", False, 10, 300, 640],
        [2, "free", False, 8, 80, 0],
        [0, "calloc", False, 1, 40, 16],
        [1, "malloc", True, 2, 20, 32],
    ],
    "all_costs": 7,
}
STACKS = {
    "main;make: it;xmalloc;malloc": (300, 10, 640),
    "main;make: it;free": (80, 8, 0),
    "[unknown];calloc": (40, 1, 16),
    "main;[other stacks];malloc": (20, 2, 32),
}


def results(folder: Path, *programs: str, **details: Any) -> Path:
    """Results of counts of ``programs`` under two managers, of which the baseline has call sites;
    the other has others."""
    other = {**CALL_SITES, "costs": [[1, "malloc", False, 1, 1, 1]]}
    records = []
    for order, program in enumerate(programs):
        for manager, sites in (("mimalloc", other), ("glibc", CALL_SITES)):
            run = Run("count", program, manager, 0, order, observer="instrument")
            found = details or {"operations": {}, "call_sites": sites}
            records.append(Record(run, Outcome(Status.OK, values={}, details=found)))
    managers = ["glibc", "mimalloc"]
    return write_campaign(folder, programs, managers, 1, study="count", records=records)


def collapsed(folder: Path, weight: str) -> dict[str, int]:
    lines = count_export.render(folder, "collapsed", weight).decode().splitlines()
    return {stack: int(number) for stack, number in (line.rsplit(" ", 1) for line in lines)}


@pytest.mark.parametrize(("place", "weight"), [*enumerate(count_export.KINDS)])
def test_collapsed_stacks_of_the_baseline(tmp_path: Path, place: int, weight: str) -> None:
    found = collapsed(results(tmp_path / "r", "p"), weight)
    assert found == {stack: sums[place] for stack, sums in STACKS.items() if sums[place]}


def test_several_programs_are_told_apart(tmp_path: Path) -> None:
    found = collapsed(results(tmp_path / "r", "p", "q;r"), "calls")
    assert found == {
        f"{program};{stack}": calls
        for program in ("p", "q:r")
        for stack, (_, calls, _) in STACKS.items()
    }


def test_speedscope(tmp_path: Path) -> None:
    content = count_export.render(results(tmp_path / "r", "p"), "speedscope", "instructions")
    document = json.loads(content)
    jsonschema.validate(document, SPEEDSCOPE)
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    assert [sum(profile["weights"]) for profile in document["profiles"]] == [440, 21, 688]
    assert [profile["unit"] for profile in document["profiles"]] == ["none", "none", "bytes"]
    deepest = max(document["profiles"][0]["samples"], key=len)
    assert [frames[number] for number in deepest] == ["main", "make; it", "xmalloc", "malloc"]


def test_counts_without_call_sites_and_damaged_ones(tmp_path: Path) -> None:
    plain = results(tmp_path / "plain", "p", operations={})
    with pytest.raises(UsageError, match="no counts by call site"):
        count_export.render(plain, "collapsed", "calls")
    cyclic = {**CALL_SITES, "sites": [[1, 0], [2, 1], [3, 2]]}
    damaged = results(tmp_path / "damaged", "p", operations={}, call_sites=cyclic)
    with pytest.raises(UsageError, match="damaged"):
        count_export.render(damaged, "collapsed", "calls")
