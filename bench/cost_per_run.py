"""What `tare compare` adds to each run, on the shortest program there is."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.row import Row
from tare.manager import default_managers
from tare.recipes import load_recipes, object_path
from tare.results import read_records
from tare.units import format_seconds

TRIES = 5
RUNS = 10
MANAGERS = 6
BAR_SECONDS = 0.015


def rows() -> list[Row]:
    """Whole command (start-up, warm-up, statistics, table, page) less the program's own time."""
    installed = [r.name for r in load_recipes().values() if object_path(r) is not None]
    managers = list(dict.fromkeys([*default_managers(), *installed]))[:MANAGERS]
    options = [option for manager in managers for option in ("-m", manager)]
    costs = []
    counted = 0
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as folder:
            command = ["compare", "-n", str(RUNS), "-o", f"{folder}/r", *options, "--", "true"]
            begun = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "tare", *command], check=True, capture_output=True
            )
            whole = time.perf_counter() - begun
            records = read_records(Path(folder) / "r")
            own = sum(record.outcome.values["wall_seconds"] for record in records)
            counted = len(records)
            costs.append((whole - own) / counted)
    cost = statistics.median(costs)
    what = f"compare, {len(managers)} managers x {RUNS} runs of true ({counted} in all): a run adds"
    bar = f"under {format_seconds(BAR_SECONDS)}"
    return [Row(what, format_seconds(cost), bar, cost < BAR_SECONDS)]
