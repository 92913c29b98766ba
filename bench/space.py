"""What looking at resident pages adds to a recorded run, in processor time."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.programs import commands
from bench.row import Row
from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.observers import recorder
from tare.studies.space.observe import SNAPSHOTS_VARIABLE

TRIES = 3
PROGRAMS = ("gawk", "sqlite3", "a C++ map")


def rows() -> list[Row]:
    """Each program recorded with and without snapshots in turn; the ratio of medians."""
    try:
        preload = str(native_file(recorder.OBJECT))
    except MissingError as error:
        return [Row("space", error.message)]
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        installed = commands(folder)
        for program, command in ((name, installed[name]) for name in PROGRAMS if name in installed):
            took: dict[str, list[float]] = {"recorded": [], "with snapshots": []}
            for _ in range(TRIES):
                for what, seconds in took.items():
                    with tempfile.TemporaryDirectory(dir=folder) as recording:
                        environment = {
                            **os.environ,
                            "LD_PRELOAD": preload,
                            recorder.FOLDER_VARIABLE: recording,
                        }
                        if what != "recorded":
                            environment[SNAPSHOTS_VARIABLE] = recording
                        seconds.append(_processor_seconds(command, environment))
            plain, looking = (statistics.median(seconds) for seconds in took.values())
            found.append(
                Row(
                    f"snapshots of {program}, beside recording alone",
                    f"{looking / plain:.2f}x ({plain:.2f} s, {looking:.2f} s)",
                )
            )
    return found


def _processor_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=dict(environment), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
