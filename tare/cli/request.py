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

COMPARE, SERVE = "compare", "serve"
OTHERS = over_programs()


@dataclass(frozen=True)
class RunSuite(Request):
    """Compare managers over all programs of a suite, or run another study on each.

    Programs whose packages are not installed are skipped and named. With -o, an interrupted
    study in that folder is resumed.
    """

    suite: str = suite_argument("NAME|FILE")
    only: Sequence[str] = only_option()
    study: str = option(
        COMPARE,
        type=click.Choice([COMPARE, *OTHERS]),
        help="The study to run on each program. Default: compare, and serve for servers.",
    )
    managers: Sequence[str] = managers_option()
    baseline: str = baseline_option()
    models: Sequence[str] = option(
        (),
        "--model",
        multiple=True,
        metavar="NAME|FILE",
        help="With --study breakdown or memsys: a memory system to simulate; can be repeated.",
    )
    sites: bool = option(
        False, help="With --study count: also count the operations of each call site."
    )
    runs: int = runs_option(6, "Runs under each manager.")
    warmup: int = warmup_option()
    jar: Path | None = option(
        None,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="Path of your jar of the suite dacapo or renaissance.",
    )
    iterations: int | None = option(
        None,
        type=int,
        metavar="N",
        help="Iterations in each run, for a suite with --jar. Default: 5.",
    )
    scheduler: str = scheduler_option()
