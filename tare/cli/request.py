"""What `tare suite run` asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tare.studies import over_programs
from tare.studykit.request import (
    Request,
    baseline_option,
    managers_option,
    only_option,
    option,
    runs_option,
    scheduler_option,
    suite_argument,
    warmup_option,
)

COMPARE = "compare"
OTHERS = over_programs()


@dataclass(frozen=True)
class RunSuite(Request):
    """Compare managers over all programs of a suite, or do another study of each.

    Programs whose packages are not installed are skipped and named. A folder given with -o is
    resumed where it was interrupted.
    """

    suite: str = suite_argument("NAME|FILE")
    only: Sequence[str] = only_option()
    study: str = option(
        COMPARE,
        type=click.Choice([COMPARE, *OTHERS]),
        help="What to do with each program: the command of that name. Default: compare.",
    )
    managers: Sequence[str] = managers_option()
    baseline: str = baseline_option()
    models: Sequence[str] = option(
        (),
        "--model",
        multiple=True,
        metavar="NAME|FILE",
        help="With --study breakdown or memsys: a memory system to simulate; repeat it.",
    )
    sites: bool = option(
        False, help="With --study count: tell the operations apart by the calls that led to them."
    )
    runs: int = runs_option(6, "Runs under each manager.")
    warmup: int = warmup_option()
    jar: Path | None = option(
        None,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Your jar of the suite dacapo or renaissance.",
    )
    iterations: int | None = option(
        None,
        type=int,
        metavar="N",
        help="Iterations in each run, for a suite with --jar. Default: 5.",
    )
    scheduler: str = scheduler_option()
