"""What counting instructions costs over running under Valgrind's core at all."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.programs import OPTIONS, VALGRIND, commands, times
from bench.row import Row, ratio_row
from tare.base.errors import MissingError
from tare.observers import instrument

MOST = {"a C++ map": 1.15}
MOST_OF_OTHERS = 1.08


def rows() -> list[Row]:
    """Each program under Valgrind's none tool and under ours in turn."""
    try:
        ours = str(instrument.launcher())
    except MissingError as error:
        return [Row("count", error.message)]
    if shutil.which(VALGRIND) is None:
        return [Row("count", "the package valgrind, to compare with, is missing")]
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = {
            "native": [],
            "none": [VALGRIND, "--tool=none", *OPTIONS],
            "count": [ours, "--tool=tareinst", *OPTIONS, f"--count-folder={folder}"],
        }
        for program, command in commands(folder).items():
            took = times(tools, command)
            none, counted = (took.ratio(tool, "native").median for tool in ("none", "count"))
            found.append(
                ratio_row(
                    f"count of {program}, slowdown over Valgrind's none",
                    took.ratio("count", "none"),
                    MOST.get(program, MOST_OF_OTHERS),
                    f"none {none:.1f}x, count {counted:.1f}x of native",
                )
            )
    return found
