"""A recording that is text: its lines as arrays, a block at a time, in bounded memory."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from tare.base.errors import UsageError
from tare.base.libraries import NDArray, np, pa

Places: TypeAlias = "NDArray[np.int64]"
Numbers: TypeAlias = "NDArray[np.uint64]"

Part = TypeVar("Part")

_PIECE_BYTES = 8 << 10
"""A piece that cannot be read to its end is lost."""
_PIECES = 32
"""At once: what is made of so many stays in the processor's cache."""
_FIRST_NOTE_SECONDS, _NOTE_SECONDS = 2.0, 10.0
_MOST_LINE_BYTES = 1 << 20
_HEAD_BYTES = 4096
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_NEWLINE, _SPACE = 10, 32
_MOST_DIGITS = 16
_PADDING = b"\n" * _MOST_DIGITS
"""Before every block: no word, and nothing that is read of one, begins before the text."""
_NO_DIGIT = 16
_DIGITS = bytes(
    "0123456789abcdef".find(chr(code)) if chr(code) in "0123456789abcdef" else _NO_DIGIT
    for code in range(256)
)


class MalformedError(Exception):
    """A line that is not of the format, by its number in the block."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class Source:
    """A file, compressed or not. ``blocks`` may be called again and again; ``damage`` then says why
    the lines ended before the end of the file, if they did. ``note`` is told of progress."""

    def __init__(self, path: Path, note: Callable[[str], None] = lambda _: None) -> None:
        self.path = path
        self.damage = ""
        self.note = note
        self._next_note = time.monotonic() + _FIRST_NOTE_SECONDS
        try:
            with path.open("rb") as file:
                magic = file.read(4)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
        if not path.is_file():
            raise UsageError(f"{path} is not a file")
        kinds = (kind for start, kind in _COMPRESSIONS.items() if magic.startswith(start))
        self._compression = next(kinds, None)

    def head(self) -> bytes:
        """The first characters of the text."""
        return next(self._pieces(), b"")[:_HEAD_BYTES]

    def blocks(self) -> Iterator[Lines]:
        """All whole lines, many at a time."""
        self.damage = ""
        rest = b""
        for data in self._pieces():
            text = rest + data
            cut = text.rfind(b"\n") + 1
            rest = text[cut:]
            if cut:
                yield Lines.of(text[:cut])
            if len(rest) > _MOST_LINE_BYTES:
                self.damage = f"it has a line of more than {_MOST_LINE_BYTES:,} characters"
                return
        if rest and not self.damage:
            self.damage = "its last line is cut off"

    def _pieces(self) -> Iterator[bytes]:
        with pa.OSFile(str(self.path)) as file:
            stream = (
                pa.CompressedInputStream(file, self._compression) if self._compression else file
            )
            ended = False
            while not ended:
                pieces: list[bytes] = []
                while len(pieces) < _PIECES and not ended:
                    try:
                        piece = stream.read(_PIECE_BYTES)
                    except (OSError, pa.ArrowException):
                        self.damage, piece = "its compressed data is cut off or damaged", b""
                    pieces.append(piece)
                    ended = not piece
                if block := b"".join(pieces):
                    yield block
                self._tell(file.tell())

    def _tell(self, place: int) -> None:
        if time.monotonic() >= self._next_note:
            self._next_note = time.monotonic() + _NOTE_SECONDS
            share = 100 * place // max(self.path.stat().st_size, 1)
            self.note(f"reading {self.path.name}: {share}% so far")


@dataclass(frozen=True)
class Lines:
    """Whole lines: the ``text`` with a padding before it, and for each line where it ``starts``
    and where its newline is. ``breaks`` are the places of all spaces and newlines, and
    ``line_breaks`` says which of them end a line."""

    text: NDArray[np.uint8]
    starts: Places
    ends: Places
    breaks: Places
    line_breaks: Places

    @classmethod
    def of(cls, text: bytes) -> Lines:
        """``text`` ends with a newline."""
        padded = np.frombuffer(_PADDING + text, np.uint8)
        breaks = np.flatnonzero((padded == _NEWLINE) | (padded == _SPACE))
        line_breaks = np.flatnonzero(padded[breaks] == _NEWLINE)
        ends = breaks[line_breaks]
        pads = len(_PADDING)
        return cls(padded, ends[pads - 1 : -1] + 1, ends[pads:], breaks, line_breaks[pads:])

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, count: int) -> Lines:
        """The lines up to that of number ``count``, which is left out."""
        return Lines(
            self.text,
            self.starts[:count],
            self.ends[:count],
            self.breaks,
            self.line_breaks[:count],
        )

    def letters(self) -> NDArray[np.uint8]:
        """The first character of each line, a newline where it is empty."""
        return self.text[self.starts]

    def demand(self, lines: Places, good: NDArray[np.bool_]) -> None:
        """Raise MalformedError for the first of ``lines`` that is not good."""
        if not good.all():
            raise MalformedError(int(lines[np.argmin(good)]))

    def rest(self, line: int) -> bytes:
        """A line without its first two characters."""
        return self.text[self.starts[line] + 2 : self.ends[line]].tobytes()

    def word(self, lines: Any, from_end: int) -> tuple[Places, Places]:
        """Where a word of each of ``lines`` starts and ends, counted from the end of the line."""
        last = self.line_breaks[lines] - from_end
        return self.breaks[last - 1] + 1, self.breaks[last]

    def numbers(self, lines: Places, count: int) -> list[Numbers]:
        """Of ``lines`` that have a character and then ``count`` hexadecimal numbers, these."""

        found = []
        good = self.breaks[self.line_breaks[lines] - count] == self.starts[lines] + 1
        for field in reversed(range(count)):
            values, sound = self.hexadecimal(*self.word(lines, field))
            found.append(values)
            good &= sound
        self.demand(lines, good)
        return found

    def hexadecimal(self, starts: Places, ends: Places) -> tuple[Numbers, NDArray[np.bool_]]:
        """The numbers of up to 16 digits at these places, and which of them are such."""
        if not len(starts):
            return np.zeros(0, np.uint64), np.zeros(0, np.bool_)
        lengths = ends - starts
        no_digits = self._no_digits
        good = (lengths >= 1) & (lengths <= _MOST_DIGITS)
        good &= no_digits[ends - 1] == no_digits[starts - 1]
        eights = self._eights
        masks = (1 << 4 * np.arange(9, dtype=np.uint64)) - 1
        values = eights[ends - 8] & masks[np.clip(lengths, 0, 8)]
        if lengths.max() > 8:
            high = eights[np.maximum(ends - 16, 0)] & masks[np.clip(lengths - 8, 0, 8)]
            values |= high << np.uint64(32)
        return values, good

    @functools.cached_property
    def _eights(self) -> NDArray[np.uint32]:
        """The number that eight digits from each place on make; what is no digit is a 0."""
        ones = np.frombuffer(_DIGITS, np.uint8)[self.text] & np.uint8(15)
        twos = ones[:-1] << np.uint8(4) | ones[1:]
        fours = twos[:-2].astype(np.uint16) << np.uint16(8) | twos[2:]
        return fours[:-4].astype(np.uint32) << np.uint32(16) | fours[4:]

    @functools.cached_property
    def _no_digits(self) -> NDArray[np.int32]:
        """How many characters up to each are no digits."""
        is_none = np.frombuffer(_DIGITS, np.uint8)[self.text] == _NO_DIGIT
        return np.cumsum(is_none, dtype=np.int32)


@dataclass(frozen=True)
class Ending:
    """After how many lines the reading of a file ended, and why before the end of the file, if it
    did."""

    lines: int
    damage: str


def read_all(
    source: Source,
    parse: Callable[[Lines], Part],
    take: Callable[[Part], None],
    before: Ending | None = None,
) -> Ending:
    """Parse all lines, a block at a time, and ``take`` what each block holds. ``parse`` must not
    change anything: where it finds a line malformed, it is called again with the lines before it,
    and nothing after it is read. A second reading ends where the one ``before`` ended."""
    rows = 0
    for block in source.blocks():
        block = block.first(before.lines - rows) if before else block
        lines = block
        while True:
            try:
                part = parse(lines)
                break
            except MalformedError as error:
                lines = lines.first(error.line)
        take(part)
        rows += len(lines)
        if len(lines) < len(block):
            return Ending(rows, f"its line {rows + 1} is not of its format")
        if before and rows == before.lines:
            return before
    return Ending(rows, source.damage)
