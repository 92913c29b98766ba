"""Start-up time of the command line."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from bench.row import Row
from tare.base.units import format_seconds

TRIES = 9
COMMANDS = (
    ("python, doing nothing", ["-c", "pass"]),
    ("import tare", ["-c", "import tare"]),
    ("tare --version", ["-m", "tare", "--version"]),
    ("tare compare --help", ["-m", "tare", "compare", "--help"]),
    ("tare managers", ["-m", "tare", "managers"]),
)


def rows() -> list[Row]:
    """Median wall time of each command, tries interleaved."""
    times: dict[str, list[float]] = {name: [] for name, _ in COMMANDS}
    for _ in range(TRIES):
        for name, arguments in COMMANDS:
            begun = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            times[name].append(time.perf_counter() - begun)
    return [Row(f"start-up: {n}", format_seconds(statistics.median(t))) for n, t in times.items()]
