"""Results folders of campaigns that never ran, for tests: their rows are drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tare.records.results import MEASUREMENTS_FILE, RUN_FILE, measurement_schema
from tare.records.runs import Record

MACHINE = {
    "processor": "Some Processor",
    "cores": 2,
    "memory_bytes": 1 << 34,
    "load_average": 0.1,
    "frequency_governor": "performance",
    "turbo": "off",
    "transparent_huge_pages": "madvise",
    "swap": False,
    "hypervisor": False,
}
METRICS: Mapping[str, tuple[str, float]] = {
    "wall_seconds": ("s", 1.5),
    "user_seconds": ("s", 1.2),
    "system_seconds": ("s", 0.04),
    "peak_resident_bytes": ("B", 8e7),
    "minor_faults": ("", 21_000),
}


def write_campaign(
    folder: Path,
    programs: Sequence[str],
    managers: Sequence[str],
    runs: int,
    *,
    study: str = "compare",
    metrics: Mapping[str, tuple[str, float]] = METRICS,
    failing: tuple[str, str] = ("", ""),
    records: Sequence[Record] = (),
) -> Path:
    """A results folder, in which every run of the pair ``failing`` timed out."""
    generator = np.random.default_rng(7)
    rows: list[tuple[Any, ...]] = []
    for program in programs:
        size = float(np.exp(generator.normal()))
        factors = {name: np.exp(0.12 * generator.normal(size=len(managers))) for name in metrics}
        for run in range(runs):
            for number, manager in enumerate(managers):
                bad = (program, manager) == failing
                for name, (unit, typical) in metrics.items():
                    if bad and name != "wall_seconds":
                        continue
                    factor = 1.0 if number == 0 else factors[name][number]
                    value = typical * size * factor * (1 + 0.01 * generator.normal())
                    judged = (None, unit, "timeout") if bad else (float(value), unit, "ok")
                    rows.append(
                        (study, program, manager, run, len(rows), name, *judged, "executed")
                    )
    folder.mkdir(parents=True)
    frame = pl.DataFrame(rows, schema=measurement_schema(), orient="row")
    if records:
        (folder / "runs.jsonl").write_text("".join(f"{each.to_line()}\n" for each in records))
    (folder / RUN_FILE).write_text(json.dumps(described(study, programs, managers)))
    frame.write_parquet(folder / MEASUREMENTS_FILE)
    return folder


def described(study: str, programs: Sequence[str], managers: Sequence[str]) -> dict[str, Any]:
    """What run.json holds of a campaign."""
    return {
        "tare": "0.1.0",
        "schema": 1,
        "study": study,
        "command": ["tare", "suite", "run", "papers"],
        "started": "2026-11-22T10:00:00.000+00:00",
        "finished": "2026-11-22T11:00:00.000+00:00",
        "machine": MACHINE,
        "programs": [
            {
                "name": name,
                "argv": [name],
                "executable": f"/usr/bin/{name}",
                "executable_sha256": "0" * 64,
                "ignore_output": False,
                "output_sha256": "",
            }
            for name in programs
        ],
        "managers": {
            name: {"version": "1", "object": None, "environment": {}} for name in managers
        },
        "baseline": managers[0],
        "seed": 1,
    }
