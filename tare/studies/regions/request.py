"""`tare regions`: what a program's own regions are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.studykit import options
from tare.studykit.request import (
    OfPrograms,
    managers_option,
    option,
    runs_option,
    warmup_option,
)


@dataclass(frozen=True)
class Regions(OfPrograms):
    """Time and memory of PROGRAM with its regions, and with these served in other ways.

    A program that allocates from APR's pools, talloc or glibc's obstacks runs unchanged, with their
    objects served by malloc one by one, by plain regions, or by reaps, which are regions whose
    objects can also be freed singly.
    """

    ANSWERED_BY: ClassVar[str] = "question.regions"
    EXAMPLES: ClassVar[str] = """\
  tare regions -- svnadmin dump -q repository
  tare regions -m glibc -m mimalloc -n 20 -- svnlook tree repository
  tare regions --no-drag -- ldbsearch -H directory.ldb
"""

    managers: Sequence[str] = managers_option(help=options.ALLOCATORS_HELP)
    _: KW_ONLY
    runs: int = runs_option(10, "Runs of each way; twice as many of the program as it is.")
    warmup: int = warmup_option()
    drag: bool = option(True, "--no-drag", help="Do not look for unused memory in the regions.")


REQUESTS = (Regions,)
