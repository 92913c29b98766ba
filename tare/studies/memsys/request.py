"""`tare memsys`: misses and stall cycles in simulated memory systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.studykit.request import AgainstBaseline, option


@dataclass(frozen=True)
class Memsys(AgainstBaseline):
    """Misses and stall cycles of PROGRAM in simulated memory systems, in and outside the manager.

    The program runs under Valgrind's core, 10 to 40 times slower than alone, once under each
    manager; with --curves several times slower still.
    """

    ANSWERED_BY: ClassVar[str] = "question.memsys"
    EXAMPLES: ClassVar[str] = """\
  tare memsys -- gawk -f report.awk words.txt
  tare memsys -m glibc -m mimalloc --curves -- ./server --selftest
  tare memsys --model host --model decstation-5000-200 -- perl job.pl
  tare memsys --model ./mine.toml -- ./program
"""

    _: KW_ONLY
    models: Sequence[str] = option(
        (),
        "--model",
        multiple=True,
        metavar="NAME|FILE",
        help="A memory system; can be repeated, 8 times at most. A path needs a slash. Default: "
        "host, this machine's caches.",
    )
    curves: bool = option(False, help="Also find the misses of caches of all sizes.")


REQUESTS = (Memsys,)
