"""`tare trace`: what is recorded, and kept when a run ends badly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tare as api
from bench.reading import OWN_PEAK_BYTES
from tare.__main__ import run as tare_command
from tare.base.errors import UsageError
from tare.heap_traces.invariants import violations
from tare.heap_traces.trace import TABLES, Trace, open_trace
from tare.memory_managers.manager import resolve
from tare.observers import asked, tracing
from tare.observers.asked import Asked
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.support.recordings import lively_program, write_process
from tests.unit.heap_traces.conftest import recorder, small
from tests.unit.heap_traces.recorded import FACTS, Recorder, converted, edit_meta, lively

__all__ = ["recorder", "small"]


VERSION_1 = {
    "objects": "process id operation thread site region size usable_size alignment resized_from "
    "birth_instructions birth_bytes lag_instructions lag_bytes use_instructions use_bytes "
    "rest_instructions rest_bytes reach_instructions reach_bytes",
    "sites": "process site caller function object file line address offset",
    "pointers": "process instructions source offset target",
    "events": "process instructions bytes kind live_objects live_bytes reachable_objects "
    "reachable_bytes",
}
"""The columns of the files when traces were of version 1."""
NEW_IN_2 = {
    "objects": ["address", "free_thread", "free_site"]
    + [f"{m}_nanoseconds" for m in ("birth", "first_use", "last_use", "unreachable", "free")],
    "sites": [],
    "pointers": [],
    "events": ["nanoseconds"],
}
VERSION_2 = {
    "objects": "process id operation thread site region size usable_size alignment resized_from "
    "address free_thread free_site birth_instructions birth_nanoseconds birth_bytes "
    "lag_instructions lag_nanoseconds lag_bytes use_instructions use_nanoseconds use_bytes "
    "rest_instructions rest_nanoseconds rest_bytes reach_instructions reach_nanoseconds "
    "reach_bytes",
    "sites": VERSION_1["sites"],
    "pointers": VERSION_1["pointers"],
    "events": "process instructions nanoseconds bytes kind live_objects live_bytes "
    "reachable_objects reachable_bytes",
}
"""The same for version 2."""
VERSION_3 = {
    **VERSION_2,
    "objects": VERSION_2["objects"].replace("free_site", "free_site free_operation"),
}
VERSION_4 = {
    **VERSION_3,
    "objects": VERSION_3["objects"]
    .replace("usable_size", "usable_size touched")
    .replace("reach_bytes", "reach_bytes need_instructions need_nanoseconds need_bytes"),
}
NEW = {
    2: NEW_IN_2,
    3: {"objects": ["free_operation"]},
    4: {"objects": ["touched"]},
    5: {"sites": ["calls", "instructions"]},
}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_trace_of_an_older_version_is_read_as_it_was(tmp_path: Path, version: int) -> None:
    recording = tmp_path / "recording"
    recording.mkdir()
    write_process(recording, **lively_program(2000))
    now = converted(recording)
    files = {1: VERSION_1, 2: VERSION_2, 3: VERSION_3, 4: VERSION_4}[version]
    news = [columns for since, columns in NEW.items() if since > version]
    before = {name: getattr(now, name)().collect() for name in files}
    for name, columns in files.items():
        path = now.folder / f"{name}.parquet"
        pq.write_table(pq.read_table(path, columns=columns.split()), path)
    meta = json.loads((now.folder / "meta.json").read_text())
    del meta["files"]
    (now.folder / "meta.json").write_text(json.dumps({**meta, "version": version}))
    if version < 3:
        (now.folder / "regions.parquet").unlink()
    then = open_trace(now.folder)
    assert not violations(then)
    for name, whole in before.items():
        read = getattr(then, name)().collect()
        assert read.columns == whole.columns
        new = [column for each in news for column in each.get(name, [])]
        assert read.drop(new).equals(whole.drop(new))
        assert all(read[column].null_count() == read.height for column in new)
    assert before["sites"]["address"].null_count() == 0
    regions = then.regions().collect()
    assert regions.height == 0
    assert regions.columns == list(TABLES["regions"])


# ---- many objects ----

CONVERT_AND_MEASURE = f"""
import json, sys
from pathlib import Path
from tare.heap_traces.conversion import convert
import polars, pyarrow.parquet, numpy
start = {OWN_PEAK_BYTES}
convert(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
print({OWN_PEAK_BYTES} - start)
"""


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """The rows of two million objects are 320 MB; what the conversion may take is less."""
    lively(tmp_path, 2_000_000)
    folder = tmp_path / "t.tare"
    folder.mkdir()
    grown = subprocess.check_output(
        [
            *(sys.executable, "-c", CONVERT_AND_MEASURE),
            *(tmp_path / "recording", folder, json.dumps(FACTS)),
        ],
        text=True,
    )
    assert int(grown) < 300e6
    trace = open_trace(folder)
    assert trace.meta["objects"] == 2_000_000
    # Every clock of this program has noise of its own; real programs repeat themselves more.
    assert trace.size_bytes() / 2_000_000 < 24
    assert violations(trace) == {}


@pytest.mark.parametrize("has_digests", [True, False])
def test_data_that_is_damaged_inside_is_told(small: Trace, has_digests: bool) -> None:
    if not has_digests:  # as before there were any
        edit_meta(small, files=None)
    assert violations(open_trace(small.folder)) == {}
    path = small.folder / "objects.parquet"
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises(UsageError, match="was changed after it was written"):
        violations(open_trace(small.folder))


def record(tmp_path: Path, *argv: str, **limits: float) -> tuple[Outcome, Trace]:
    target = tmp_path / "r" / "t.tare"
    outcome = tracing.run_once(
        Program("test", argv),
        resolve("glibc"),
        Limits(**limits),  # type: ignore[arg-type]
        wanted=tracing.Wanted(target, asked.Asked(last_use=True)),
    )
    assert os.listdir(target.parent) == ["t.tare"]  # nothing else is left
    return outcome, open_trace(target)


@pytest.mark.usefixtures("recorder")
def test_a_good_run(tmp_path: Path) -> None:
    outcome, trace = record(tmp_path, "true")
    assert outcome.status is Status.OK
    assert outcome.values["max_live_bytes"] == 77
    assert outcome.details["trace"] == trace.meta
    assert trace.meta["complete"] is True
    assert trace.meta["status"] == "ok"
    assert trace.meta["max_live_bytes"] == 77
    assert trace.meta["wall_seconds"] == 1.5
    assert trace.meta["server"].endswith("libc.so.6") or "libc-2" in trace.meta["server"]
    assert trace.meta["program"]["argv"] == ["true"]
    words = "free sites first_use last_use teardown touched usable_size"
    assert set(trace.meta["observed"]) == set(words.split())


@pytest.mark.usefixtures("recorder")
@pytest.mark.parametrize(
    ("argv", "limits", "status", "reason"),
    [
        (["false"], {}, Status.FAILED, "it ended with exit status 1"),
        (["sh", "-c", "kill -9 $$"], {}, Status.FAILED, "it was killed by SIGKILL"),
        (["sleep", "60"], {"timeout_seconds": 0.3}, Status.TIMEOUT, "still running at the time"),
    ],
)
def test_a_bad_run_leaves_its_trace(
    tmp_path: Path, argv: list[str], limits: dict[str, float], status: Status, reason: str
) -> None:
    outcome, trace = record(tmp_path, *argv, **limits)
    assert outcome.status is status
    assert outcome.values == {}
    assert trace.meta["complete"] is False
    assert reason in trace.meta["reason"]
    assert trace.meta["status"] == status
    assert trace.meta["max_live_bytes"] is None
    assert trace.objects().collect().height == 500


def test_a_run_of_which_nothing_was_recorded(
    tmp_path: Path, recorder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorder, "objects", 0)
    outcome, trace = record(tmp_path, "true")
    assert outcome.status is Status.FAILED
    assert outcome.reason == trace.meta["reason"] == "the instrument wrote no recording"


@pytest.mark.usefixtures("recorder")
@pytest.mark.parametrize("signal", ["INT", "TERM"])
def test_what_was_recorded_before_an_interruption_is_kept(tmp_path: Path, signal: str) -> None:
    target = tmp_path / "t.tare"
    notes = []

    class Watcher(api.Watcher):
        def note(self, text: str) -> None:
            notes.append(text)

    interrupt = ["sh", "-c", f"kill -{signal} {os.getpid()}; sleep 60"]
    with pytest.raises(KeyboardInterrupt):
        api.trace(interrupt, what=Asked(last_use=True), folder=target, watcher=Watcher())
    assert notes[-1] == f"what was recorded so far is in {target}"
    trace = open_trace(target)
    assert trace.meta["complete"] is False
    assert trace.meta["reason"] == "the recording was interrupted"
    assert trace.objects().collect().height == 500
    assert os.listdir(tmp_path) == ["t.tare"]


@pytest.mark.usefixtures("recorder")
def test_the_options_reach_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Listener(Recorder):
        def __init__(self, *options: str) -> None:
            super().__init__(*options)
            seen[:] = options[1:]

    monkeypatch.setattr(tracing, "Instrument", Listener)
    target = str(tmp_path / "t.tare")
    line = "--last-use --pointers --no-sites --reachability 64KiB --quiet -m own -- true"
    assert tare_command(["trace", "-o", target, *line.split()]) == 0
    assert seen == [
        "--last-use=yes",
        "--sites=no",
        "--usable-size=call",
        "--pointers=yes",
        "--reachability=65536",
    ]
    line = "--force --last-use --quiet -- true"
    assert tare_command(["trace", "-o", target, *line.split()]) == 0
    assert seen == [
        "--last-use=yes",
        "--sites=yes",
        "--usable-size=glibc",
    ]


@pytest.mark.usefixtures("recorder")
def test_the_command_says_what_it_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "t.tare")
    assert tare_command(["trace", "-o", target, "--last-use", "--", "true"]) == 0
    output = capsys.readouterr().out
    assert "500" in output
    assert "last uses" in output
    assert f"trace: {target}" in output
    assert tare_command(["trace", "-o", target, "--", "true"]) == 2
    assert "--force" in capsys.readouterr().err
    assert tare_command(["trace", "-o", target, "--force", "--", "false"]) == 1
    output, error = capsys.readouterr()
    assert "not complete: it ended with exit status 1" in output
    assert "failed: it ended with exit status 1" in error
    assert open_trace(target).meta["status"] == "failed"


@pytest.mark.usefixtures("recorder")
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_what_is_no_trace_is_never_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], force: list[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("dear")
    for name in ("mine", "file"):
        target = str(tmp_path / name)
        assert tare_command(["trace", "-o", target, *force, "--", "true"]) == 2
        assert "is not a heap trace" in capsys.readouterr().err
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    assert (tmp_path / "file").read_text() == "dear"
    (tmp_path / "empty").mkdir()
    assert tare_command(["trace", "-o", str(tmp_path / "empty"), *force, "--", "true"]) == 0


@pytest.mark.usefixtures("recorder")
def test_a_disk_without_room_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    line = ["trace", "-o", str(tmp_path / "t.tare"), "--last-use", "--", "true"]
    assert tare_command(line) == 4
    assert "No space left on device" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
