"""`tare proximity`: whether events right after a collection are slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.errors import UsageError
from tare.studykit.request import Command, Request, managers_option, option, runs_option


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"--collections {text}: give numbers like 10,100,1000")
    return tuple(int(part) for part in parts)


@dataclass(frozen=True)
class Proximity(Request):
    """How long events of a program take, by how many came since the collection before.

    An event is a call of a method of a Java program, or what another program reports as one, like
    the requests of a server. Each is compared with the median of those that do the same. The
    program runs a second time with pauses as long as the collections', to tell what a collection
    does from what any pause does.
    """

    ANSWERED_BY: ClassVar[str] = "question.proximity"
    EXAMPLES: ClassVar[str] = """\
  tare proximity --event org.example.Search.query -- java -jar search.jar
  tare proximity -m jvm.serial --collections 100,1000 -e @org.example.Timed -- java -jar app.jar
  tare proximity -m 'marksweep(jemalloc, every=1MiB)' -- ./load-test   # includes tare/events.h
"""

    program: Command
    events: Sequence[str] = option(
        (),
        "-e",
        "--event",
        multiple=True,
        metavar="METHOD",
        help="A Java method whose calls are events, like org.example.Search.query, or "
        "@org.example.Timed for all methods with an annotation; a class inside another is "
        "Outer$Inner. Can be repeated, 20 times at most. Other programs report their events by "
        "tare/events.h.",
    )
    managers: Sequence[str] = managers_option(
        help="A collector of a JVM, or marksweep(ALLOCATOR, every=1MiB) for other programs; can be "
        "repeated. Default: jvm.serial and jvm.g1 with --event, marksweep(glibc) without."
    )
    _: KW_ONLY
    collections: Sequence[int] = option(
        (),
        parse=_numbers,
        metavar="N,N…",
        help="Target numbers of collections after the warm-up, six at most, like 10,100,1000. "
        "Each is measured alone.",
    )
    runs: int = runs_option(3, "Pairs of runs for each collector.")


REQUESTS = (Proximity,)
