"""What `tare check` asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

from tare.studykit.request import Request, only_option, option, runs_option, suite_argument


@dataclass(frozen=True)
class Check(Request):
    """Check that the programs of FILE keep their limits; exit code 1 when one does not.

    FILE is a suite whose programs have limits for time, memory, pauses, or the instructions and
    bytes that memory management costs. Only metrics with a limit are measured.
    """

    EXAMPLES: ClassVar[str] = """\
  tare check limits.toml
  tare check limits.toml --markdown $GITHUB_STEP_SUMMARY
  tare check limits.toml -p report -n 20 --strict
"""

    suite: str | Path = suite_argument("FILE")
    only: Sequence[str] = only_option()
    _: KW_ONLY
    runs: int = runs_option(10, "Runs of each program for time and memory.")
    warmup: int = option(1, help="Warm-up runs of each program, which are not counted.")
    report: Callable[[str], None] = print
