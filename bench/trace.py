"""What recording the lives of objects costs, beside the tools that see as much of a program."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.programs import OPTIONS, VALGRIND, commands, times
from bench.row import Row, ratio_row
from tare.base.errors import MissingError
from tare.observers import instrument

BARS = (
    ("uses", "cachegrind", 0.2),
    ("uses", "dhat", 0.25),
    ("uses and sites", "cachegrind", 0.3),
)
"""What is recorded, the tool beside it, and the most that the first may take of the second."""
SHARE = 1 / 3
ONCE = "dhat"
"""Takes longer than all others together: beside the first program only."""


def rows() -> list[Row]:
    """Each program under each tool in turn."""
    try:
        ours = str(instrument.launcher())
    except MissingError as error:
        return [Row("trace", error.message)]
    if shutil.which(VALGRIND) is None:
        return [Row("trace", "the package valgrind, to compare with, is missing")]
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recording = folder / "recording"
        # By the words that glibc keeps: what a trace of a program under glibc asks for.
        trace = [ours, "--tool=tareinst", *OPTIONS, f"--trace-folder={recording}",
                 "--usable-size=glibc"]  # fmt: skip
        tools = {
            "native": [],
            "uses": [*trace, "--sites=no"],
            "uses and sites": [*trace, "--sites=yes"],
            "cachegrind": [VALGRIND, "--tool=cachegrind", *OPTIONS,
                           "--cachegrind-out-file=/dev/null", "--log-file=/dev/null"],
            "dhat": [VALGRIND, "--tool=dhat", *OPTIONS, "--dhat-out-file=/dev/null"],
        }  # fmt: skip
        for program, command in commands(folder, SHARE).items():
            recording.mkdir()
            took = times(tools, command)
            shutil.rmtree(recording)  # some hundred MiB
            for what, other, most in BARS:
                if other not in tools:
                    continue
                slower, of_other = (took.ratio(each, "native").median for each in (what, other))
                found.append(
                    ratio_row(
                        f"trace of {program} with {what}, beside {other}",
                        took.ratio(what, other),
                        most,
                        f"trace {slower:.1f}x, {other} {of_other:.1f}x of native",
                    )
                )
            tools.pop(ONCE, None)
    return found
