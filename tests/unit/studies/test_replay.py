"""`tare replay`: what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.heap_traces.schedule import How, check
from tare.heap_traces.trace import Trace, open_trace
from tare.memory_managers.manager import Manager
from tare.studies.replay.question import replay
from tare.studykit.replayer import heap_of
from tests.support.traces import objects_frame, write_trace_folder

LIVES = (
    {"birth": 10, "size": 100, "first": 12, "last": 30, "free": 50},
    {"birth": 20, "size": 8, "free": 25},
    {"birth": 30, "size": 7, "first": 31, "last": 31, "gone": 45},
    {"birth": 40, "size": 0, "first": 41, "last": 60, "gone": 70, "free": 80},
)
"""Four objects: dragged, never used, never freed, and one of no bytes."""


def test_the_layer_of_regions_chooses_the_back_end() -> None:
    heaps = {
        name: heap_of(Manager(name, layer_name="regions"))
        for name in ("regions(glibc)", "regions(glibc, as=reap)", "regions(glibc, as=original)")
    }
    assert list(heaps.values()) == ["malloc", "reap", "malloc"]
    assert heap_of(Manager("glibc")) == "malloc"


def test_regions_that_were_not_recorded_are_refused(tmp_path: Path) -> None:
    trace = write_trace_folder(tmp_path / "t.tare", objects_frame(LIVES))
    with pytest.raises(UsageError, match="has no regions"):
        replay(trace, ["regions(glibc, as=reap)"], how=How(regions="trace"))


def test_a_trace_without_what_is_asked_is_refused(tmp_path: Path) -> None:
    trace = open_trace(write_trace_folder(tmp_path / "t.tare", objects_frame(LIVES), observed=()))
    with pytest.raises(UsageError, match="--death unreachable"):
        check(trace, How("unreachable"))
    with pytest.raises(UsageError, match="--touch uses"):
        check(trace, How("free", "uses"))
    with pytest.raises(UsageError, match="no process 1"):
        check(trace, How(process=1))
    sampled = Trace(trace.folder, {**trace.meta, "sample_bytes": 1000})
    with pytest.raises(UsageError, match="sample"):
        check(sampled, How())


def test_frees_of_a_program_that_has_none_are_refused(tmp_path: Path) -> None:
    made = write_trace_folder(tmp_path / "t.tare", objects_frame(LIVES), observed=["unreachable"])
    trace = open_trace(made)
    with pytest.raises(UsageError, match="no frees") as caught:
        check(trace, How())
    assert "--death unreachable" in caught.value.hint
    assert check(trace, How("unreachable")) == 0


@pytest.mark.parametrize("option", ["free=honour", "heap=64MiB", "markers=2", "verify=yes"])
def test_options_that_only_programs_have_are_refused(tmp_path: Path, option: str) -> None:
    trace = write_trace_folder(tmp_path / "t.tare", objects_frame(LIVES))
    with pytest.raises(UsageError, match="a replay has no option"):
        replay(trace, [f"marksweep(glibc, {option})"])
