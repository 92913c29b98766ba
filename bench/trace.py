"""What recording the lives of objects costs, beside the tools that see as much of a program."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.programs import OPTIONS, VALGRIND, commands, medians
from bench.row import Row
from tare.base.errors import MissingError
from tare.observers import instrument

BARS = (
    ("uses", "cachegrind", 0.35),
    ("uses", "dhat", 0.25),
    ("uses and sites", "cachegrind", 0.6),
)
"""What is recorded, the tool beside it, and the most that the first may take of the second."""


def rows() -> list[Row]:
    """Each program under each tool in turn; the ratios of medians."""
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
        for program, command in commands(folder).items():
            recording.mkdir()
            took = medians(tools, command)
            shutil.rmtree(recording)  # some hundred MiB
            for what, other, most in BARS:
                ratio = took[what] / took[other]
                slower, of_other = (took[tool] / took["native"] for tool in (what, other))
                found.append(
                    Row(
                        f"trace of {program} with {what}, beside {other}",
                        f"{ratio:.2f}x (trace {slower:.1f}x, {other} {of_other:.1f}x of native)",
                        f"at most {most}x",
                        ratio <= most,
                    )
                )
    return found
