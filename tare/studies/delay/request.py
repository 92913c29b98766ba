"""`tare delay`: what it costs to hold frees back and do them in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import click

from tare.memory_managers.layers import delay as layer
from tare.studykit import options
from tare.studykit.request import (
    OfPrograms,
    managers_option,
    option,
    runs_option,
    warmup_option,
)
from tare.studykit.sweeps import sizes_of


def _of_layer(name: str, help: str) -> Any:
    (known,) = (each for each in layer.RECIPE.options if each.name == name)
    return option(known.default, type=click.Choice(list(known.choices)), help=help, asked=False)


@dataclass(frozen=True)
class Delay(OfPrograms):
    """Time, memory and pauses of PROGRAM when its frees are held back and done in bulk.

    A collector gives memory back late. `tare delay` holds back the frees of a program that was
    written for malloc, by several amounts, under each manager, and compares each with no delay. It
    also shows what the layer that does this costs.
    """

    ANSWERED_BY: ClassVar[str] = "question.delay"
    EXAMPLES: ClassVar[str] = """\
  tare delay -- gawk -f report.awk words.txt
  tare delay -m mimalloc --sizes 64KiB,1MiB,16MiB -n 20 -- perl job.pl
  tare delay -m tcmalloc --scope global --buffer 2MiB -- ./server --selftest
"""

    managers: Sequence[str] = managers_option(help=options.ALLOCATORS_HELP)
    _: KW_ONLY
    sizes: Sequence[int] = option(
        (),
        parse=sizes_of,
        metavar="SIZE,SIZE…",
        help="Bytes to hold back, 1B to 1GiB. Default: 1B,4KiB,64KiB,512KiB,1MiB,2MiB; 1B "
        "always takes part.",
        asked=False,
    )
    scope: str = _of_layer(
        "scope", "Whether SIZE is for each thread, or for all threads together. Default: thread."
    )
    buffer: str = _of_layer(
        "buffer",
        "The size of a thread's list of held objects: grow for no limit; any other list is "
        "released when it is full. Default: grow.",
    )
    order: str = _of_layer(
        "order", "Which object is released first: the oldest or the youngest. Default: fifo."
    )
    quarantine: bool = option(
        False,
        "--quarantine",
        help="Also under marksweep(M, free=quarantine), which gives the memory of a freed object "
        "back once no pointer to it is left.",
    )
    runs: int = runs_option(
        10, "Runs with each size; twice as many of the bare allocator and of 1B."
    )
    warmup: int = warmup_option()
    live: bool = option(True, "--no-live", help="Do not measure the live memory of the program.")


REQUESTS = (Delay,)
