"""What looking at resident pages adds to a recorded run, in processor time."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.programs import commands, in_turns
from bench.row import Row
from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.observers import recorder
from tare.studies.space.observe import SNAPSHOTS_VARIABLE

PROGRAMS = ("gawk", "sqlite3", "a C++ map")


def rows() -> list[Row]:
    """Each program recorded with and without snapshots in turn."""
    try:
        preload = str(native_file(recorder.OBJECT))
    except MissingError as error:
        return [Row("space", error.message)]
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        installed = commands(folder)
        for program, command in ((name, installed[name]) for name in PROGRAMS if name in installed):

            def recorded(command: Sequence[str], snapshots: bool) -> float:
                with tempfile.TemporaryDirectory(dir=folder) as recording:
                    variables = {"LD_PRELOAD": preload, recorder.FOLDER_VARIABLE: recording}
                    if snapshots:
                        variables[SNAPSHOTS_VARIABLE] = recording
                    return _processor_seconds(command, {**os.environ, **variables})

            took = in_turns(
                {
                    "recorded": partial(recorded, command, False),
                    "with snapshots": partial(recorded, command, True),
                }
            )
            ratio = took.ratio("with snapshots", "recorded")
            found.append(
                Row(
                    f"snapshots of {program}, beside recording alone",
                    f"{ratio.median:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})",
                )
            )
    return found


def _processor_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=dict(environment), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
