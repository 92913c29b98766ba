"""What a signal's handler allocates that interrupts the recorder itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import polars as pl
import pytest

from tare.records.metrics import Status
from tests.native.recorder import recorder_programs
from tests.native.recorder.recorder_programs import compile_cpp, record


@pytest.mark.parametrize("sites", [True, False])
def test_no_event_of_a_handler_is_missed(tmp_path: Path, sites: bool) -> None:
    # The C library's malloc may not be called by a handler.
    safe = compile_cpp(
        tmp_path,
        recorder_programs.SAFE_MALLOC,
        "-shared",
        "-fPIC",
        "-fno-builtin",
        name="safe.so",
    )
    program = compile_cpp(tmp_path, recorder_programs.HANDLER, "-fno-builtin")
    outcome, trace = record(tmp_path, program, tmp_path / "out", manager=str(safe), sites=sites)
    assert outcome.status is Status.OK
    made, handled = map(int, (tmp_path / "out").read_text().split())
    assert handled >= 5000
    assert trace.meta["complete"] is True, trace.meta["reason"]
    objects = trace.objects().collect()
    of_handlers = objects.filter(pl.col("size") == 3000)
    of_the_rest = objects.filter(pl.col("size") < 80)
    assert of_handlers.height == handled
    assert of_the_rest.height >= made
    assert of_handlers["free_bytes"].null_count() == 0
    assert of_the_rest["thread"].unique().to_list() == [1]
    assert trace.processes[0]["threads"] == 1
    assert trace.processes[0]["unknown_frees"] == 0
    if sites:  # only where it interrupted who writes a stack, its own is not known
        assert objects["site"].null_count() <= objects.height / 100
        named = {
            trace.frames_of(0, site)[0]["function"] for site in of_handlers["site"].drop_nulls()[:9]
        }
        assert named == {"nest(int)"}


def test_the_program_alone_does_the_same(tmp_path: Path) -> None:
    safe = compile_cpp(
        tmp_path, recorder_programs.SAFE_MALLOC, "-shared", "-fPIC", "-fno-builtin", name="safe.so"
    )
    program = compile_cpp(tmp_path, recorder_programs.HANDLER, "-fno-builtin")
    subprocess.run([program, tmp_path / "out"], env={"LD_PRELOAD": str(safe)}, check=True)
    assert int((tmp_path / "out").read_text().split()[1]) >= 5000
