"""What `tare compare` adds to each run, on the shortest program there is."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from bench.row import Row, in_seconds, seconds_row
from tare.base.statistics import Interval, median_interval
from tare.memory_managers.catalogue import load_recipes, object_path
from tare.memory_managers.manager import default_managers
from tare.records.results import read_records
from tare.records.runs import Record

TRIES = 7
RUNS = 10
MANAGERS = 6
BAR_SECONDS = 0.01
SEED = 1


def rows() -> list[Row]:
    """Whole commands less the program's own time, divided by the runs, warm-up included."""
    installed = [
        recipe.name
        for recipe in load_recipes().values()
        if recipe.kind != "classic" and object_path(recipe) is not None
    ]
    managers = list(dict.fromkeys([*default_managers(), *installed]))[:MANAGERS]
    with_page: list[float] = []
    without_page: list[float] = []
    running: list[float] = []
    counted = 0
    for _ in range(TRIES):
        for page, costs in ((True, with_page), (False, without_page)):
            whole, records = _one_command(managers, page)
            counted = len(records)
            own = sum(record.outcome.values["wall_seconds"] for record in records)
            costs.append((whole - own) / counted)
            if not page:
                running.append((_span(records) - own) / counted)
    what = f"compare, {len(managers)} managers x {RUNS} runs of true, {counted} in all"
    return [
        Row(f"{what}: starting and accounting, a run", in_seconds(_interval(running))),
        Row(f"{what}: the command without its page, a run", in_seconds(_interval(without_page))),
        seconds_row(f"{what}: the whole command, a run", _interval(with_page), BAR_SECONDS),
    ]


def _interval(seconds: list[float]) -> Interval:
    interval = median_interval(seconds, SEED)
    assert interval is not None
    return interval


def _one_command(managers: list[str], page: bool) -> tuple[float, list[Record]]:
    options = [option for manager in managers for option in ("-m", manager)]
    options += [] if page else ["--no-page"]
    with tempfile.TemporaryDirectory() as folder:
        command = ["compare", "-n", str(RUNS), "-o", f"{folder}/r", *options, "--", "true"]
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tare", *command], check=True, capture_output=True)
        return time.perf_counter() - begun, read_records(Path(folder) / "r")


def _span(records: list[Record]) -> float:
    """Seconds from the start of the first run to that of the last."""
    first, last = (datetime.fromisoformat(records[i].started) for i in (0, -1))
    return (last - first).total_seconds()
