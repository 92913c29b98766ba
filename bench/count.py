"""What counting instructions costs over running under Valgrind's core at all."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.programs import OPTIONS, VALGRIND, commands, medians
from bench.row import Row
from tare.base.errors import MissingError
from tare.observers import instrument

MOST_RATIO = 1.15


def rows() -> list[Row]:
    """Each program under Valgrind's none tool and under ours in turn; the ratio of medians."""
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
            took = medians(tools, command)
            ratio = took["count"] / took["none"]
            none, count = (took[tool] / took["native"] for tool in ("none", "count"))
            found.append(
                Row(
                    f"count of {program}, slowdown over Valgrind's none",
                    f"{ratio:.2f}x (none {none:.1f}x, count {count:.1f}x of native)",
                    f"at most {MOST_RATIO}x",
                    ratio <= MOST_RATIO,
                )
            )
    return found
