"""Events and phases of a program, as a file names them: read, checked, and written for the tool.

docs/events.md documents the file. The same language carries what a manager's recipe says of its
collector, under names that no user's file can hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from tare.base.errors import UsageError
from tare.base.text import shortened, visible
from tare.memory_managers.manager import Manager

Effect = Literal["count", "begin", "end", "during"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
NAME_BYTES = 63
MOST_NAMES = 1000
MOST_LINES = 5_000
MOST_AT_A_PLACE = 16
"""Each is code in the translation of that place, for which Valgrind's core has bounded room."""
_MOST_BYTES = 4 << 20
_MOST_ADDRESS = (1 << 64) - 1
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,20}", re.ASCII)
_RESERVED = "tare."
COLLECTION = "tare.collection"
"""The phase, and the event, of a manager's collector."""
_SPACE = re.compile(r"[ \t]+")
_PLACES = "SYMBOL, SYMBOL+OFFSET, OBJECT!SYMBOL, OBJECT!+ADDRESS or ADDRESS"


@dataclass(frozen=True)
class Event:
    """What happens (``effect``) when control reaches a place.

    ``object_end`` is the end of an object's path, empty for any object. Without a ``symbol`` the
    ``offset`` is an address: in the object's file, or in the process.
    """

    effect: Effect
    name: str
    object_end: str
    symbol: str
    offset: int

    def place(self) -> str:
        if not self.object_end and not self.symbol:
            return hex(self.offset)
        start = f"{self.object_end}!" if self.object_end else ""
        offset = f"+{self.offset:#x}" if self.offset or not self.symbol else ""
        return f"{start}{self.symbol}{offset}"


Events = tuple[Event, ...]


def read_events(path: Path) -> Events:
    """The events of a file. UsageError, with the number of the line, for one that is wrong."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the events in {path} cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{path} is larger than {_MOST_BYTES >> 20} MiB: not a file of events")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content.count(b"\n", 0, error.start)
        raise _wrong(path, before + 1, "is not UTF-8 text") from None
    events: list[tuple[int, Event]] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = _without_comment(_SPACE.split(line.removesuffix("\r").strip(" \t")))
        if not words:
            continue
        if len(events) == MOST_LINES:
            raise _wrong(path, number, f"is beyond the {MOST_LINES:,} lines allowed")
        try:
            events.append((number, _read_event(words)))
        except ValueError as error:
            raise _wrong(path, number, str(error)) from None
    _check_together(path, events)
    return tuple(event for _, event in events)


def _without_comment(words: Sequence[str]) -> Sequence[str]:
    comment = next((i for i, word in enumerate(words) if word[:1] in ("", "#")), len(words))
    return words[:comment]


def _wrong(path: Path, line: int, why: str) -> UsageError:
    return UsageError(
        f"{path}, line {line}: {why}",
        "a line has three words: count, begin, end or during; a name; " + _PLACES,
    )


def _check_together(path: Path, events: Sequence[tuple[int, Event]]) -> None:
    if not events:
        raise UsageError(
            f"{path} has no events",
            "write lines like: count parses parse_line",
        )
    names: set[tuple[bool, str]] = set()
    for number, event in events:
        names.add((event.effect == "count", event.name))
        if len(names) > MOST_NAMES:
            raise _wrong(path, number, f"exceeds the {MOST_NAMES:,} names allowed")
    at_places: Counter[str] = Counter()
    for number, event in events:
        at_places[event.place()] += 1
        if at_places[event.place()] > MOST_AT_A_PLACE:
            raise _wrong(path, number, f"exceeds the {MOST_AT_A_PLACE} lines allowed for one place")
    begun = {event.name for _, event in events if event.effect in ("begin", "during")}
    for number, event in events:
        if event.effect == "end" and event.name not in begun:
            raise _wrong(path, number, f"ends the phase {event.name}, which no line begins")


def _read_event(words: Sequence[str]) -> Event:
    """One line, in words. ValueError says what is wrong with it."""
    if words[0] not in EFFECTS:
        raise ValueError(f"begins with {_shown(words[0])}, not with {', '.join(EFFECTS)}")
    if len(words) != 3:
        raise ValueError(f"has {len(words)} words, not three")
    effect, name, place = words
    if not name.isprintable() or len(name.encode()) > NAME_BYTES:
        raise ValueError(
            f"the name {_shown(name)} is not printable text of at most {NAME_BYTES} bytes"
        )
    if name.startswith(_RESERVED):
        raise ValueError(f"the name {_shown(name)}: names with {_RESERVED} are reserved for Tare")
    return Event(cast(Effect, effect), name, *_read_place(place))


def _shown(word: str) -> str:
    return repr(shortened(visible(word)))


def _read_place(text: str) -> tuple[str, str, int]:
    """End of the object's path, symbol and offset."""
    if not text.isprintable():
        raise ValueError(f"the place {_shown(text)} is not printable text")
    object_end, mark, rest = text.rpartition("!")
    if mark and not object_end:
        raise ValueError(f"the place {_shown(text)} lacks the object before its !")
    if "!" in object_end:
        raise ValueError(f"the place {_shown(text)} has more than one !")
    symbol, plus, offset = rest.rpartition("+")
    if not plus:
        symbol, offset = rest, "0"
    if not mark and _NUMBER.fullmatch(rest):
        return "", "", _number(rest)
    if symbol[:1].isdigit():
        hint = f"; write {object_end}!+{rest}" if mark and _NUMBER.fullmatch(rest) else ""
        raise ValueError(f"the place {_shown(text)}: a symbol cannot begin with a digit{hint}")
    if not symbol and not (mark and plus):
        raise ValueError(f"the place {_shown(text)} is none of {_PLACES}")
    return object_end, symbol, _number(offset)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(
            f"{_shown(text)} is not a number: write it in decimal, or in hexadecimal after 0x"
        )
    value = int(text, 16 if text.startswith("0x") else 10)
    if value > _MOST_ADDRESS:
        raise ValueError(f"{_shown(text)} is larger than an address can be")
    return value


def collector_events(manager: Manager) -> Events:
    """What shows the collections of a manager; none where it has no collector."""
    if manager.collector is None or manager.server is None:
        return ()
    where = manager.server.resolve().name  # as the process's maps show it
    return (
        Event("count", COLLECTION, where, manager.collector.collection, 0),
        *(Event("during", COLLECTION, where, symbol, 0) for symbol in manager.collector.work),
    )


def as_text(events: Iterable[Event]) -> str:
    """The events as the tool reads them."""
    return "".join(f"{event.effect} {event.name} {event.place()}\n" for event in events)


# ---- what the tool found ----


def merged_events(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Times of events in several processes as in one."""
    result: dict[str, int] = {}
    for events in several:
        for name, times in events.items():
            result[name] = result.get(name, 0) + times
    return result


def merged_phases(several: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Phases of several processes as of one, without what the probe did in them."""
    result: dict[str, dict[str, Any]] = {}
    for phases in several:
        for name, one in phases.items():
            sum_ = result.setdefault(name, {"times": 0, "instructions": 0, "by_operation": {}})
            operations = dict(one["by_operation"])
            sum_["times"] += one["times"]
            sum_["instructions"] += one["instructions"] - operations.pop("proof", 0)
            sum_["by_operation"] = merged_events([sum_["by_operation"], operations])
    return result


def in_manager(phase: Mapping[str, Any]) -> int:
    """Instructions of a phase that were part of an operation of the manager."""
    return sum(phase["by_operation"].values())
