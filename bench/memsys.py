"""What simulating a memory system costs, beside cachegrind with the same caches."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.programs import OPTIONS, VALGRIND, commands, medians
from bench.row import Row
from tare import instrument, memsys
from tare.errors import MissingError

MOST_RATIO = 0.6
CACHEGRIND = Path("/usr/libexec/valgrind/cachegrind-amd64-linux")
MODEL = "two-level"
GEOMETRY = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")


def rows() -> list[Row]:
    """Each program under cachegrind and under ours in turn; the ratio of medians."""
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
        models.write_text(memsys.simulator_text(memsys.how([MODEL], False)))
        tools = {
            "native": [],
            "cachegrind": [VALGRIND, "--tool=cachegrind", *OPTIONS, *GEOMETRY,
                           "--cachegrind-out-file=/dev/null", "--log-file=/dev/null"],
            "memsys": [tool, "--tool=tareinst", *OPTIONS, f"--memsys={models}",
                       f"--memsys-folder={folder}"],
        }  # fmt: skip
        for program, command in commands(folder).items():
            took = medians(tools, command)
            ratio = took["memsys"] / took["cachegrind"]
            theirs, ours = (took[each] / took["native"] for each in ("cachegrind", "memsys"))
            found.append(
                Row(
                    f"memsys of {program}, two levels, over cachegrind",
                    f"{ratio:.2f}x (cachegrind {theirs:.1f}x, memsys {ours:.1f}x of native)",
                    f"at most {MOST_RATIO}x",
                    ratio <= MOST_RATIO,
                )
            )
    return found
