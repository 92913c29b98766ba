"""What to do about a program's memory management: each action with what it brings, and how sure
that is. `tare weigh --json` writes them as ``actions``; see docs/commands/weigh.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

MOST_ACTIONS = 5


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
    whether it came true."""

    kind: Kind
    text: str
    gain: Gain
    certainty: Certainty
    verify: str
    place: Place | None = None


def ranked(actions: Iterable[Action], most: int = MOST_ACTIONS) -> Sequence[Action]:
    """By the share of its metric that each saves at least, the most first."""

    def least_share(action: Action) -> float:
        gain = action.gain
        share = 1 - gain.ratio
        return share * gain.low / gain.value if gain.value else share

    return sorted(actions, key=least_share, reverse=True)[:most]
