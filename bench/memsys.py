"""What simulating a memory system costs, beside cachegrind with the same caches."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bench import count
from bench.row import Row
from tare import instrument, memsys
from tare.errors import MissingError

TRIES = 5
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
        options = ["--command-line-only=yes", "--quiet", "--vgdb=no"]
        theirs = [count.VALGRIND, "--tool=cachegrind", *options, *GEOMETRY,
                  "--cachegrind-out-file=/dev/null", "--log-file=/dev/null"]  # fmt: skip
        ours = [tool, "--tool=tareinst", *options, f"--memsys={models}",
                f"--memsys-folder={folder}"]  # fmt: skip
        for program, command in count._commands(folder).items():
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(TRIES):
                for words, measured in zip((theirs, ours), times, strict=True):
                    measured.append(count._seconds([*words, *command]))
            cachegrind, simulated = map(statistics.median, times)
            native = statistics.median(count._seconds(command) for _ in range(TRIES))
            ratio = simulated / cachegrind
            found.append(
                Row(
                    f"memsys of {program}, two levels, over cachegrind",
                    f"{ratio:.2f}x (cachegrind {cachegrind / native:.1f}x, memsys "
                    f"{simulated / native:.1f}x of native)",
                    f"at most {MOST_RATIO}x",
                    ratio <= MOST_RATIO,
                )
            )
    return found
