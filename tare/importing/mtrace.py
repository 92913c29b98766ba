"""The log of glibc's mtrace: MALLOC_TRACE, mtrace() and libc_malloc_debug.so.

A line is an operation, with where it was called from before it, if that is known:

    @ OBJECT:(FUNCTION+0xOFFSET)[0xADDRESS] OPERATION
    @ OBJECT:[0xADDRESS] OPERATION
    @ [0xADDRESS] OPERATION

    + 0xPOINTER 0xSIZE      an allocation
    - 0xPOINTER             a free
    < 0xPOINTER             what a realloc frees, and
    > 0xPOINTER 0xSIZE      what it gives for it
    ! 0xPOINTER 0xSIZE      a realloc that failed

It has no times: the clock of nanoseconds counts operations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.libraries import NDArray, np
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import LONGEST_NAME, unfold
from tare.importing.events import MOST_BYTES, Events, Facts, RecordingWriter
from tare.importing.lines import Lines, Numbers, Places, Source, read_all
from tare.importing.stacks import write_sites

TITLE = "glibc's mtrace"
_NO_TIMES = "mtrace records no times: values in nanoseconds are counts of its operations."
_OPENING = re.compile(rb"= Start\n|(@ [^\n]*\] )?[-+<>!] (0x|\(nil\))")
_WHERE = re.compile(
    r"(?P<object>.*?):?"
    r"(?:\((?P<function>[^()]*(?:\(.*\))?)[+-](?:0x)?[0-9a-f]+\))?"
    r"\[0x(?P<address>[0-9a-f]{1,16})\]"
)
_MOST_SITES = 1 << 20
_HIGHEST_OFFSET = 1 << 40
"""Older versions of glibc write addresses in memory, which lie above; others, places in files."""


def recognises(head: bytes) -> bool:
    """Whether a file that begins so is one."""
    return _OPENING.match(head) is not None


def read(source: Source, writer: RecordingWriter) -> Facts:
    """Put all of ``source`` into ``writer``. It is read twice: for the call sites, and for what
    happened."""
    sites = _Sites()
    ending = read_all(source, sites.parse, sites.take)
    events = _Events(writer, sites.write(writer, source.path.parent), sites.numbers)
    damage = read_all(source, events.parse, events.take, ending).damage
    missing = f"the end of {source.path.name} is missing: {damage}" if damage else ""
    return Facts(
        observer="mtrace",
        command="",
        executable="",
        missing=missing,
        has_addresses=True,
        notes=(_NO_TIMES,),
    )


@dataclass(frozen=True)
class _Operations:
    """Of a block: the ``lines`` with an operation, its letter, and where the operation is, and from
    where to where the text is that says who called."""

    lines: Places
    letters: NDArray[np.uint8]
    place_starts: Places
    place_ends: Places

    @classmethod
    def of(cls, lines: Lines) -> _Operations:
        text = lines.text
        first = text[lines.starts]
        at = np.flatnonzero((first != ord("=")) & (first != ord("\n")))
        starts = lines.starts[at]
        one, one_end = lines.word(at, 1)
        two, two_end = lines.word(at, 2)
        is_free = (one_end == one + 1) & ((text[one] == ord("-")) | (text[one] == ord("<")))
        operation = np.where(is_free, one, two)
        letters = text[operation]
        is_birth = (two_end == two + 1) & np.isin(letters, list(b"+>!"))
        has_place = operation > starts
        ends = np.where(has_place, operation - 1, starts)
        good = (is_free | is_birth) & (operation >= starts)
        good &= ~has_place | ((text[starts] == ord("@")) & (text[ends - 1] == ord("]")))
        lines.demand(at, good)
        return cls(at, letters, np.where(has_place, starts + 2, starts), ends)


class _Sites:
    """The different places that call. They are told apart by a hash of 64 bits of their texts."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self.numbers: dict[int, int] = {}

    def parse(self, lines: Lines) -> dict[int, bytes]:
        """The places that are new, by hash."""
        found = _Operations.of(lines)
        hashes, first = np.unique(
            hashed(lines.text, found.place_starts, found.place_ends), return_index=True
        )
        return {
            key: lines.text[found.place_starts[line] : found.place_ends[line]].tobytes()
            for key, line in zip(hashes.tolist(), first.tolist(), strict=True)
            if key not in self.numbers
        }

    def take(self, places: dict[int, bytes]) -> None:
        for key, text in places.items():
            self._texts.append(text)
            self.numbers[key] = len(self._texts)
        if len(self._texts) > _MOST_SITES:
            raise UsageError("the file has more call sites than Tare reads")

    def write(self, writer: RecordingWriter, folder: Path) -> Numbers:
        """The site of each place, by its number."""
        matches = [_WHERE.fullmatch(text.decode("utf-8", "replace")) for text in self._texts]
        plain = [_frame(match) for match in matches]
        there = [replace(frame, object=_path(folder, frame.object)) for frame in plain]
        frames = [[Frame()]] + [
            [frame] if named == [place] else named
            for frame, place, named in zip(plain, there, unfold(there), strict=True)
        ]
        places = np.arange(1, len(plain) + 1, dtype=np.uint64)
        addresses = [0, *(int(match["address"], 16) if match else 0 for match in matches)]
        known = np.array([0, *(bool(text) for text in self._texts)], np.uint64)
        sites = write_sites(
            writer, places, np.zeros_like(places), frames, np.array(addresses, np.uint64)
        )
        return sites * known


def _frame(match: re.Match[str] | None) -> Frame:
    """What the text of a place itself says."""
    if match is None:
        return Frame()
    offset = max(int(match["address"], 16) - 1, 0)  # a return address: of the next instruction
    return Frame(
        function=(match["function"] or "")[:LONGEST_NAME],
        object=match["object"][:LONGEST_NAME],
        offset=offset if offset < _HIGHEST_OFFSET else 0,
    )


def _path(folder: Path, name: str) -> str:
    return str((folder / name).resolve()) if name and "\0" not in name else ""


class _Events:
    def __init__(self, writer: RecordingWriter, sites: Numbers, numbers: dict[int, int]) -> None:
        self._writer = writer
        self._hashes = np.array(sorted(numbers), np.uint64)
        self._sites = sites[[numbers[key] for key in sorted(numbers)]]
        self._count = 0
        self._last = 0

    def parse(self, lines: Lines) -> tuple[Events, int]:
        """Also the last operation's letter."""
        found = _Operations.of(lines)
        letters = found.letters
        sized = (letters != ord("-")) & (letters != ord("<"))
        keys, sizes = np.zeros(len(letters), np.uint64), np.zeros(len(letters), np.uint64)
        keys[sized] = _numbers(lines, found.lines[sized], 1)
        sizes[sized] = _numbers(lines, found.lines[sized], 0)
        keys[~sized] = _numbers(lines, found.lines[~sized], 0)
        lines.demand(found.lines, (sizes < MOST_BYTES) | (letters == ord("!")) | (keys == 0))
        hashes = hashed(lines.text, found.place_starts, found.place_ends)
        places = np.searchsorted(self._hashes, hashes)
        lines.demand(found.lines, places < len(self._hashes))
        lines.demand(found.lines, self._hashes[places] == hashes)
        sites = self._sites[places]
        times = self._count + 1 + np.arange(len(letters), dtype=np.uint64)
        happened = (keys != 0) & (letters != ord("!"))
        births = sized & happened
        before = np.concatenate(([self._last], letters))
        moved = (letters == ord(">")) & (before[:-1] == ord("<"))
        events = Events(
            births=births[happened],
            keys=keys[happened],
            sizes=sizes[happened] * births[happened],
            sites=sites[happened] * births[happened],
            moved=moved[happened],
            addresses=keys[happened],
            times=times[happened],
        )
        return events, int(before[-1])

    def take(self, found: tuple[Events, int]) -> None:
        events, self._last = found
        if len(events):
            self._count = int(events.times[-1])
        self._writer.add_events(events, self._count)


def _numbers(lines: Lines, at: Places, from_end: int) -> Numbers:
    """The numbers that these words are: of C's %p and %#lx, which have 0x before all but 0."""
    starts, ends = lines.word(at, from_end)
    text = lines.text
    prefixed = (text[starts] == ord("0")) & (text[starts + 1] == ord("x"))
    none = text[starts] == ord("(")
    values, good = lines.hexadecimal(starts + 2 * prefixed, ends)
    zero = (text[starts] == ord("0")) & (ends == starts + 1)
    lines.demand(at, (good & (prefixed | zero)) | (none & (ends == starts + 5)))
    return np.where(none, np.uint64(0), values)


_MIXERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def hashed(text: NDArray[np.uint8], starts: Places, ends: Places) -> Numbers:
    """A hash of each of these parts of ``text``."""
    first, second = map(np.uint64, _MIXERS)
    words = np.ndarray(len(text) - 7, "<u8", text.data, strides=(1,))
    result = (ends - starts).astype(np.uint64)
    left = ends - starts
    place = ends.copy()
    rows = np.flatnonzero(left > 0)
    while len(rows):
        place[rows] -= 8
        word = words[place[rows]]
        word &= ~np.uint64(0) << (8 * np.maximum(8 - left[rows], 0)).astype(np.uint64)
        # The end of splitmix64: every bit of the word has an effect on every bit of the hash.
        word += result[rows] * first
        word = (word ^ word >> np.uint64(30)) * first
        word = (word ^ word >> np.uint64(27)) * second
        result[rows] = word ^ word >> np.uint64(31)
        left[rows] -= 8
        rows = rows[left[rows] > 0]
    return result
