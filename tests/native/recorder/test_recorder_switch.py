"""Recording that goes on and off while the program runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tare.heap_traces.trace import Trace
from tare.observers import recording_switch as trace_switch
from tare.records.metrics import Status
from tests.conftest import Completed
from tests.native.recorder import recorder_programs
from tests.native.recorder.recorder_programs import compile_cpp, record

PLAIN = ("-O0", "-fno-builtin")


def recorded_sizes(trace: Trace) -> dict[int, int]:
    """How many objects there are of each size of the program's parts."""
    sizes = trace.objects().filter(pl.col("size") >= 1000).group_by("size").len().collect()
    return dict(sizes.filter(pl.col("size") < 10000).sort("size").rows())


def power(trace: Trace, process: int = 0) -> list[str]:
    """The kinds of the events of a process."""
    return trace.events().filter(pl.col("process") == process).collect()["kind"].to_list()


def test_a_signal_turns_it_on_and_off_in_all_processes(tmp_path: Path) -> None:
    program = compile_cpp(tmp_path, recorder_programs.SWITCHED, *PLAIN)
    outcome, trace = record(tmp_path, program, paused=True, signal_number=signal.SIGUSR2)
    assert outcome.status is Status.OK
    assert trace.meta["complete"] is True
    assert trace.meta["switched"] is True
    assert recorded_sizes(trace) == {1002: 200, 1003: 1, 1004: 50, 1007: 400, 1008: 1}
    assert power(trace, 0) == ["start", "off", "on", "off", "on", "off", "on", "off", "end"]
    assert power(trace, 1) == ["start", "on", "off", "on", "end"]
    left = trace.objects().filter(pl.col("free_bytes").is_null()).collect()
    assert left.filter(pl.col("size").is_between(1000, 1009))["size"].to_list() == [1003]
    # What was born while it was off, and freed while it was on, is no fault.
    assert sum(process["unknown_frees"] for process in trace.processes) == 0
    assert trace.processes[0]["inherited_frees"] == 1
    times = trace.events().filter(pl.col("process") == 0).collect()["nanoseconds"].to_list()
    assert times == sorted(times)


def test_the_clock_of_bytes_stands_while_it_is_off(tmp_path: Path) -> None:
    program = compile_cpp(tmp_path, recorder_programs.SWITCHED, *PLAIN)
    _, trace = record(tmp_path, program, paused=True, signal_number=signal.SIGUSR2)
    objects = trace.objects().filter(pl.col("process") == 0).collect()
    assert trace.processes[0]["allocated_bytes"] == objects["size"].sum()
    assert objects["birth_bytes"].to_list() == objects["size"].cum_sum().to_list()


def test_that_begins_on_is_turned_off(tmp_path: Path) -> None:
    program = compile_cpp(tmp_path, recorder_programs.SWITCHED, *PLAIN)
    _, trace = record(tmp_path, program, signal_number=signal.SIGUSR2)
    assert recorded_sizes(trace) == {1000: 1, 1001: 100, 1005: 50, 1006: 300, 1009: 1}
    assert power(trace)[:3] == ["start", "on", "off"]
    # When recording began again the object of before was not known any more.
    assert trace.objects().filter(pl.col("size") == 1000).collect()["free_bytes"].null_count() == 1


def test_of_a_sample_each_free_is_seen(tmp_path: Path) -> None:
    program = compile_cpp(tmp_path, recorder_programs.SWITCHED, *PLAIN)
    _, trace = record(tmp_path, program, sample_bytes=1, paused=True, signal_number=signal.SIGUSR2)
    sizes = recorded_sizes(trace)
    assert set(sizes) == {1002, 1003, 1004, 1007, 1008}
    assert sizes[1007] == 400
    assert trace.objects().filter(pl.col("size") == 1003).collect()["free_bytes"].null_count() == 0


@pytest.mark.parametrize("sites", [True, False])
def test_a_control_file_turns_it_on_and_off(
    tmp_path: Path, sites: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compile_cpp(tmp_path, recorder_programs.WAITS_FOR_FILES, *PLAIN)
    control = tmp_path / "control"
    obey = trace_switch._obey
    obeyed = threading.Semaphore(0)

    def obey_and_tell(
        pipe: int, waker: int, switch: trace_switch.Switch, note: Callable[[str], None]
    ) -> None:
        def tell(line: str) -> None:
            note(line)
            obeyed.release()

        obey(pipe, waker, switch, tell)

    monkeypatch.setattr(trace_switch, "_obey", obey_and_tell)

    def steer() -> None:
        for size, word in ((2001, "on"), (2002, "off"), (2003, "unheard of")):
            while not (tmp_path / f"done{size}").exists():
                time.sleep(0.001)
            control.write_text(f"{word}\n")
            assert obeyed.acquire(timeout=900)
            (tmp_path / f"go{size}").touch()

    steering = threading.Thread(target=steer)
    steering.start()
    _, trace = record(tmp_path, program, tmp_path, sites=sites, paused=True, control=control)
    steering.join()
    assert recorded_sizes(trace) == {2002: 100}
    assert power(trace) == ["start", "off", "on", "off", "end"]
    assert not control.exists()


def test_a_control_file_that_is_no_pipe_is_refused(
    tmp_path: Path, tare: Callable[..., Completed]
) -> None:
    control = tmp_path / "control"
    control.write_text("mine")
    done = tare("trace", "--control", control, "-o", tmp_path / "t.tare", "--", "true")
    assert done.returncode == 2
    assert f"the control file {control} exists and is not a named pipe" in done.stderr
    assert control.read_text() == "mine"


def test_the_command_says_what_it_cannot_do(tmp_path: Path, tare: Callable[..., Completed]) -> None:
    target = tmp_path / "t.tare"
    for options, words in {
        ("--signal", "NONE"): "there is no signal NONE",
        ("--signal", "SIGKILL"): "no program can handle the signals KILL and STOP",
        ("--paused", "--last-use"): "the instrument cannot be turned off",
    }.items():
        done = tare("trace", *options, "-o", target, "--", "true")
        assert done.returncode == 2
        assert words in done.stderr
        assert not target.exists()


def test_the_command_begins_paused_and_says_so(
    tmp_path: Path, tare: Callable[..., Completed]
) -> None:
    program = compile_cpp(tmp_path, recorder_programs.SWITCHED, *PLAIN)
    done = tare("trace", "--paused", "-o", tmp_path / "t.tare", "--", program)
    assert done.returncode == 0, done.stderr
    assert "Recording could be turned on and off" in done.stdout
