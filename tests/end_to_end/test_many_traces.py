"""Many heap traces at once: here, on a cluster, and interrupted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.base.errors import TareError, UsageError
from tare.campaign import many_traces
from tare.campaign.many_traces import Analyse
from tare.campaign.watching import Watcher
from tare.heap_traces.residence import analyse, processes_of
from tare.heap_traces.trace import open_trace
from tare.records.metrics import Status
from tare.records.results import Results, read_records
from tare.records.runs import Outcome, Record, Run
from tare.studies.drag.question import drag_of_traces
from tare.studies.space import observe as space_run
from tare.studies.space.question import space_of_traces
from tests.conftest import Completed
from tests.end_to_end.dask_processes import processes
from tests.support.traces import (
    many_objects,
    objects_frame,
    regular_objects,
    regular_totals,
    write_regular_trace,
    write_trace_folder,
)


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    """Of one program twice, of another, and one that cannot be analysed."""
    folders = [tmp_path / f"{name}.tare" for name in ("first", "second", "other", "useless")]
    for seed, folder in enumerate(folders[:2]):
        write_trace_folder(folder, many_objects(2000, seed))
    other = {"name": "other", "argv": ["other"], "executable": "/bin/other"}
    write_trace_folder(folders[2], many_objects(500, 2), program=other)
    write_trace_folder(folders[3], objects_frame([{"birth": 1, "size": 8}]), observed=["sites"],
                       program=other, manager="mimalloc")  # fmt: skip
    return folders


def found(records: Sequence[Record]) -> dict[tuple[str, str], tuple[Status, dict[str, Any]]]:
    """All but the time that an analysis took."""
    return {
        (record.run.program, record.run.manager): (
            record.outcome.status,
            {**record.outcome.values, **record.outcome.details, "analysis_seconds": 0},
        )
        for record in records
    }


def test_each_trace_is_analysed_as_by_itself(traces: list[Path], tmp_path: Path) -> None:
    results = drag_of_traces(traces, folder=tmp_path / "results")
    together = found(read_records(results.folder))
    assert list(together) == [
        ("prog (first)", "glibc"),
        ("prog (second)", "glibc"),
        ("other", "glibc"),
        ("other", "mimalloc"),
    ]
    for path, answer in zip(traces[:3], together.values(), strict=False):
        alone = api.drag_of_trace(path, folder=tmp_path / f"{path.stem}-alone")
        assert answer in found(read_records(alone.folder)).values()
    useless = read_records(results.folder)[3].outcome
    assert useless.status is Status.FAILED
    assert "no last uses" in useless.reason
    assert [each.name for each in results.run.programs] == [
        "prog (first)", "prog (second)", "other",
    ]  # fmt: skip


def test_an_interrupted_analysis_goes_on(
    traces: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = found(read_records(drag_of_traces(traces, folder=tmp_path / "whole").folder))
    analysed, done = many_traces.analysed, list[Path]()

    def interrupted(path: Path, analyse: Analyse) -> Outcome:
        done.append(path)
        if len(done) == 3:
            raise KeyboardInterrupt
        return analysed(path, analyse)

    monkeypatch.setattr(many_traces, "analysed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        drag_of_traces(traces, folder=tmp_path / "results")
    assert len(read_records(tmp_path / "results")) == 2
    drag_of_traces(traces, folder=tmp_path / "results")
    assert done == [*traces[:3], *traces[2:]]
    assert found(read_records(tmp_path / "results")) == whole


def test_a_cluster_gives_the_same(traces: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the Python package distributed is missing")
    here = found(read_records(drag_of_traces(traces, folder=tmp_path / "here").folder))
    with processes() as dask:
        scheduler = dask.scheduler()
        for name in ("one", "two"):
            dask.worker(name, scheduler)
        dask.kill("one")
        results = drag_of_traces(traces, scheduler=scheduler, folder=tmp_path / "there")
    assert found(read_records(results.folder)) == here


def test_a_scheduler_that_goes_keeps_what_is_done(traces: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the Python package distributed is missing")
    whole = found(read_records(drag_of_traces(traces, folder=tmp_path / "whole").folder))
    with processes() as dask:
        scheduler = dask.scheduler()
        dask.worker("one", scheduler)

        class Kill(Watcher):
            def run(self, _run: Run, record: Record | None) -> None:
                if record is not None and "scheduler" in dask.pids:
                    dask.kill("scheduler")

        with pytest.raises(TareError, match=f"{scheduler} is gone") as gone:
            drag_of_traces(traces, scheduler=scheduler, folder=tmp_path / "kept", watcher=Kill())
        assert "with -o and the results folder" in gone.value.hint
        kept = found(read_records(tmp_path / "kept"))
        assert 1 <= len(kept) < len(whole)
        again = dask.scheduler()
        dask.worker("two", again)
        results = drag_of_traces(traces, scheduler=again, folder=tmp_path / "kept")
    assert found(read_records(results.folder)) == whole


def test_the_command(traces: list[Path], tare: Callable[..., Completed], tmp_path: Path) -> None:
    done = tare("drag", "-o", "results", "--no-page", *traces[:3])
    assert done.returncode == 0, done.stderr
    assert "prog (second)" in done.stdout
    assert tare("drag", "-o", "more", "--quiet", *traces).returncode == 1
    refused = tare("drag", "--scheduler", "tcp://127.0.0.1:1", "--", "true")
    assert refused.returncode == 2
    assert "--scheduler applies only to traces" in refused.stderr


# ---- where memory goes ----


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Where the memory of one program goes under two managers, with its traces kept."""
    command = ["perl", "-e", "my @kept = map { 'x' x $_ } 1 .. 2000"]
    folder = tmp_path_factory.mktemp("space") / "looked"
    return api.space(command, ["glibc", "mimalloc"], keep_trace=True, folder=folder)


def traces_of(results: Results) -> list[Path]:
    return sorted((results.folder / "traces").iterdir())


def test_kept_traces_say_where_memory_went(looked: Results, tmp_path: Path) -> None:
    again = space_of_traces(traces_of(looked), folder=tmp_path / "again")
    measured, analysed = (found(read_records(each.folder)) for each in (looked, again))
    assert [manager for _, manager in sorted(analysed)] == ["glibc", "mimalloc"]
    for key, (status, facts) in analysed.items():
        assert status is Status.OK
        assert facts["growth"]["never_freed_objects"] > 0
        traces = [Path(facts.pop("trace")), looked.folder / measured[key][1].pop("trace")]
        assert traces[0] == traces[1].resolve()
        assert facts == measured[key][1]


def test_a_cluster_says_the_same_of_memory(looked: Results, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the Python package distributed is missing")
    here = space_of_traces(traces_of(looked), folder=tmp_path / "here")
    with processes() as dask:
        scheduler = dask.scheduler()
        for name in ("one", "two"):
            dask.worker(name, scheduler)
        there = space_of_traces(traces_of(looked), scheduler=scheduler, folder=tmp_path / "there")
    assert found(read_records(there.folder)) == found(read_records(here.folder))


def test_the_command_reads_kept_traces(
    looked: Results, tare: Callable[..., Completed], tmp_path: Path
) -> None:
    useless = write_trace_folder(tmp_path / "useless.tare", many_objects(100, 1))
    paths = traces_of(looked)
    done = tare("space", "-o", "results", "--no-page", paths[0], useless)
    assert done.returncode == 1
    assert "has no snapshots of resident memory" in done.stdout
    assert "Resident memory at the peak" in done.stdout
    for wrong in (["-m", "glibc", paths[0]], ["--keep-trace", paths[0]]):
        assert "its program does not run again" in tare("space", *wrong).stderr
    refused = tare("space", "--scheduler", "tcp://127.0.0.1:1", "--", "true")
    assert refused.returncode == 2
    assert "--scheduler applies only to traces" in refused.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"manager_files": [1]},
        {"observer_files": None},
        {"collects": "no"},
        {"wall_seconds": float("nan")},
        {"kernel_peak_bytes": -1},
    ],
)
def test_facts_beside_snapshots_are_checked(
    looked: Results, tmp_path: Path, change: dict[str, Any]
) -> None:
    trace = tmp_path / "changed.tare"
    shutil.copytree(traces_of(looked)[0], trace)
    facts = trace / space_run.SNAPSHOTS_FOLDER / "run.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | change))
    with pytest.raises(UsageError, match=next(iter(change))):
        space_run.analysed(open_trace(trace))


# ---- the generated trace of the long test ----


def test_sums_of_a_regular_trace_are_known(tmp_path: Path) -> None:
    count = 20_000
    folder = write_regular_trace(tmp_path / "regular.tare", count, rows_at_once=7000)
    whole = write_trace_folder(tmp_path / "whole.tare", regular_objects(0, count, count),
                               end_instructions=100 * count + 1)  # fmt: skip
    traces = [open_trace(path) for path in (folder, whole)]
    analyses = [analyse(trace, processes_of(trace)) for trace in traces]
    assert analyses[0] == analyses[1]
    totals = analyses[0]["totals"]
    assert {name: totals[name] for name in regular_totals(count)} == regular_totals(count)
