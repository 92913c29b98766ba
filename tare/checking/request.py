"""What `tare check` asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

from tare.studykit.request import Request, only_option, option, runs_option, suite_argument


@dataclass(frozen=True)
class Check(Request):
    """Whether the programs of FILE keep their limits: exit code 1 when one is not kept.

    FILE is a suite whose programs have limits of time, memory, pauses, and of instructions and
    bytes that memory management costs. Only what has a limit is measured.
    """

    EXAMPLES: ClassVar[str] = """\
  tare check limits.toml
  tare check limits.toml --markdown $GITHUB_STEP_SUMMARY
  tare check limits.toml -p report -n 20 --strict
"""

    suite: str | Path = suite_argument("FILE")
    only: Sequence[str] = only_option()
    _: KW_ONLY
    runs: int = runs_option(10, "Runs for time and memory.")
    warmup: int = option(1, help="Runs that are not counted.")
    report: Callable[[str], None] = print
