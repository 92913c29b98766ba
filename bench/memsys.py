"""What simulating a memory system costs, beside Valgrind's own tools with the same caches."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from functools import partial
from pathlib import Path

from bench.programs import OPTIONS, VALGRIND, Times, commands, in_turns, timed
from bench.row import Row, ratio_row
from tare.base.errors import MissingError
from tare.observers import instrument, memory_system

BARS = (
    ("memsys", "cachegrind", 0.5),
    ("all parts", "cachegrind", 0.9),
)
"""What is simulated, the tool beside it, and the most that the first may take of the second's
processor time. All parts together: counts, a trace with last uses and call sites, and the
simulation."""
MOST_WALL = 0.35
"""What the simulation alone may take of cachegrind's wall time, on two processors."""
SHARE = 1 / 3
CACHEGRIND = Path("/usr/libexec/valgrind/cachegrind-amd64-linux")
MODEL = "two-level"
GEOMETRY = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")


def rows() -> list[Row]:
    """Each program under each tool in turn."""
    try:
        tool = str(instrument.launcher())
    except MissingError as error:
        return [Row("memsys", error.message)]
    if not CACHEGRIND.exists():
        return [Row("memsys", "the package valgrind, to compare with, is missing")]
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = folder / "models"
        recording = folder / "recording"
        models.write_text(memory_system.simulator_text(memory_system.how([MODEL], False)))
        tools = {
            "native": [],
            "cachegrind": [VALGRIND, "--tool=cachegrind", *OPTIONS, *GEOMETRY,
                           "--cachegrind-out-file=/dev/null", "--log-file=/dev/null"],
            "memsys": [tool, "--tool=tareinst", *OPTIONS, f"--memsys={models}",
                       f"--memsys-folder={folder}"],
            "all parts": [tool, "--tool=tareinst", *OPTIONS, f"--count-folder={folder}",
                          f"--trace-folder={recording}", "--usable-size=glibc",
                          f"--memsys={models}", f"--memsys-folder={folder}"],
        }  # fmt: skip
        for program, command in commands(folder, SHARE).items():
            recording.mkdir()
            walls: dict[str, list[float]] = {}
            took = in_turns(
                {
                    name: partial(timed, walls, name, [*words, *command])
                    for name, words in tools.items()
                }
            )
            shutil.rmtree(recording)  # some hundred MiB
            for what, other, most in BARS:
                ours, theirs = (took.ratio(each, "native").median for each in (what, other))
                found.append(
                    ratio_row(
                        f"{what} of {program}, two levels, beside {other}",
                        took.ratio(what, other),
                        most,
                        f"{what} {ours:.1f}x, {other} {theirs:.1f}x of native",
                    )
                )
            found.append(
                ratio_row(
                    f"memsys of {program}, two levels, beside cachegrind, wall time",
                    Times(walls).ratio("memsys", "cachegrind"),
                    MOST_WALL,
                    f"memsys {statistics.median(walls['memsys']):.1f} s",
                )
            )
    return found
