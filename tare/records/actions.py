"""What to do about a program's memory management: each action with what it brings, and how sure
that is. `tare weigh --json` writes them as ``actions``; see docs/commands/weigh.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from tare.base.text import shortened

MOST_ACTIONS = 5
LONGEST_FUNCTION = 48
"""Characters of a function's name where it stands among other words."""


class Kind(StrEnum):
    ALLOCATOR = "allocator"
    OPTION = "option"
    FREE_EARLIER = "free-earlier"
    LEAK = "leak"
    PINNED = "pinned"
    RESERVE = "reserve"
    SHORT_LIVED = "short-lived"
    NEVER_USED = "never-used"
    UNTOUCHED = "untouched"
    CROSS_THREAD = "cross-thread"
    COLLECTOR = "collector"


class Certainty(StrEnum):
    """``MEASURED``: runs of both; ``REPLAYED``: the changed trace was replayed; ``PREDICTED``:
    computed from the changed trace."""

    MEASURED = "measured"
    REPLAYED = "replayed"
    PREDICTED = "predicted"


class Place(Struct, frozen=True):
    """The line to change: the first frame of the program's own code. ``file`` and ``line`` are
    empty and 0 without debug information."""

    function: str
    file: str = ""
    line: int = 0
    module: str = ""

    @property
    def name(self) -> str:
        """``read_orders (hold.cpp:32)``, with the module where there is no file: what it is called
        wherever a reader meets it."""
        function = shortened(self.function, LONGEST_FUNCTION)
        where = self.file.rpartition("/")[2] + (f":{self.line}" if self.line else "")
        module = self.module.rpartition("/")[2]
        if not self.file:
            # A function without a name is called by its place in the module already.
            where = "" if self.function.partition("+0x")[0] == module else module
        return f"{function} ({where})" if where else function


class Gain(Struct, frozen=True):
    """``value``, ``low`` and ``high`` are what is saved, in ``unit``, with the bounds that the
    evidence leaves; ``ratio`` is ``metric`` afterwards divided by before."""

    metric: str
    value: float
    low: float
    high: float
    unit: str
    ratio: float


class Action(Struct, frozen=True):
    """``text`` is a sentence that says what to do and why; ``verify`` a shell command that shows
    whether it came true. ``others`` are places whose objects belong to those of ``place``; JSON has
    them in the words of ``text`` alone."""

    kind: Kind
    text: str
    gain: Gain
    certainty: Certainty
    verify: str
    place: Place | None = None
    others: tuple[Place, ...] = ()


def ranked(actions: Iterable[Action], most: int = MOST_ACTIONS) -> Sequence[Action]:
    """By the share of its metric that each saves at least, the most first."""

    def least_share(action: Action) -> float:
        gain = action.gain
        share = 1 - gain.ratio
        return share * gain.low / gain.value if gain.value else share

    return sorted(actions, key=least_share, reverse=True)[:most]
