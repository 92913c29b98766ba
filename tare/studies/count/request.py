"""`tare count`: instructions inside and outside of the memory manager."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

import click

from tare.studykit.request import AgainstBaseline, option


@dataclass(frozen=True)
class Count(AgainstBaseline):
    """Instructions of PROGRAM inside and outside the memory manager, by operation.

    The program runs under Valgrind's core, 10 to 20 times slower than alone, with the manager as it
    is: nothing is replaced. Each manager runs twice, to see whether the count repeats to the
    instruction.
    """

    ANSWERED_BY: ClassVar[str] = "question.count"
    EXAMPLES: ClassVar[str] = """\
  tare count -- gawk -f report.awk words.txt
  tare count -m glibc -m mimalloc -m ./libmine.so -- ./server --selftest
  tare count --sites -- ./server --selftest
  tare count --events parse.events -- ./server --selftest
  tare count --once -m jemalloc --json out.json -- perl job.pl
"""

    _: KW_ONLY
    events: Path | str | None = option(
        None,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Also count the events and the phases that FILE names.",
    )
    sites: bool = option(False, help="Also count the operations of each call site.")
    repeat: bool = option(
        True, "--once", help="Run once under each manager: do not check that counts repeat."
    )


REQUESTS = (Count,)
