"""heaptrack's data files as `heaptrack --raw` leaves them: addresses, and no names yet.

As an interpreted file, see ``tare.importing.heaptrack``, but for:

    x LENGTH EXECUTABLE
    m LENGTH FILE BASE [OFFSET SIZE]...     a module; for FILE, x is the executable, and - says that
                                            all modules follow anew
    t ADDRESS STACK
    + SIZE STACK POINTER    - POINTER

The names of places come from the modules themselves, as they are on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tare.base.errors import UsageError
from tare.base.libraries import np
from tare.base.units import format_count
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import unfold
from tare.importing.events import MOST_BYTES, Events, Facts, RecordingWriter
from tare.importing.heaptrack import (
    COMMON_LETTERS,
    MOST_ROWS,
    NO_REALLOCS,
    OPENING,
    Clock,
    Moments,
    decoded,
    letters_of,
    missing_of,
    sized_strings,
    sized_text,
    tool_of,
)
from tare.importing.lines import Lines, MalformedError, Numbers, Places, Source, read_all
from tare.importing.stacks import write_sites

TITLE = "raw heaptrack"
_LETTERS = COMMON_LETTERS + b"xmt+-"
_MANY_PLACES = 2000
"""From here on it takes seconds."""
_MOST_PARTS = 1 << 16


def recognises(head: bytes) -> bool:
    """Whether a file that begins so is a raw one."""
    opening = OPENING.match(head)
    return opening is not None and opening[3] is not None


def read(source: Source, writer: RecordingWriter) -> Facts:
    """Put all of ``source`` into ``writer``. It is read twice: for the stacks, and for what
    happened."""
    names = _Names(sized_strings(source))
    ending = read_all(source, names.parse, names.take)
    events = _PointerEvents(writer, names.write(writer, source.note))
    ending = read_all(source, events.parse, events.take, ending)
    return Facts(
        observer=tool_of(source),
        command=names.command,
        executable=names.executable,
        missing=missing_of(source, names.attached, events.ended, ending.damage),
        has_addresses=True,
        notes=(NO_REALLOCS,),
    )


# ---- names ----


@dataclass(frozen=True)
class _Module:
    """A part of a file that is in memory from ``start`` to before ``end``."""

    start: int
    end: int
    base: int
    path: str


@dataclass(frozen=True)
class _Definitions:
    """What a block of lines defines. ``modules`` are on the lines ``module_lines``; one of None
    says that all before are gone."""

    calls: Places
    addresses: Numbers
    parents: Numbers
    module_lines: list[int]
    modules: list[list[_Module] | None]
    executable: str
    command: str
    attached: bool


class _Names:
    def __init__(self, sized: bool) -> None:
        self._sized = sized
        self._modules: list[_Module] = []
        self._pending: list[Numbers] = []
        self._places: list[tuple[str, int, int]] = [("", 0, 0)]
        """Of each instruction its file, its offset in it, and its address."""
        nothing = np.zeros(0, np.uint64)
        self._instructions = [nothing]
        self._parents = [nothing]
        self._rows = 0
        self.executable = ""
        self.command = ""
        self.attached = False

    def parse(self, lines: Lines) -> _Definitions:
        letters = letters_of(lines, _LETTERS)

        def of(letter: str) -> Places:
            return np.flatnonzero(letters == ord(letter))

        calls = of("t")
        addresses, parents = lines.numbers(calls, 2)
        lines.demand(calls, parents < self._rows + 1 + np.arange(len(calls)))
        executable, command = self.executable, self.command
        module_lines: list[int] = of("m").tolist()
        modules: list[list[_Module] | None] = []
        for line in of("x").tolist()[:1]:
            executable = executable or self._text(lines, line)[0]
        for line in of("X").tolist()[:1]:
            command = command or decoded(lines.rest(line))
        for line in module_lines:
            name, rest = self._text(lines, line)
            modules.append(None if name == "-" else _parts(name, executable, rest, line))
        attached = self.attached or len(of("A")) > 0
        return _Definitions(
            *(calls, addresses, parents, module_lines, modules, executable, command, attached)
        )

    def _text(self, lines: Lines, line: int) -> tuple[str, bytes]:
        if not self._sized:
            name, _, rest = lines.rest(line).partition(b" ")
            return decoded(name), rest
        try:
            return sized_text(lines.rest(line))
        except ValueError:
            raise MalformedError(line) from None

    def take(self, found: _Definitions) -> None:
        self.executable, self.command = found.executable, found.command
        self.attached = found.attached
        self._parents.append(found.parents)
        self._rows += len(found.parents)
        done = 0
        for line, modules in zip(found.module_lines, found.modules, strict=True):
            if modules is None:
                until = int(np.searchsorted(found.calls, line))
                self._pending.append(found.addresses[done:until])
                done = until
                self._resolve()
                self._modules.clear()
            else:
                self._modules += modules
        self._pending.append(found.addresses[done:])
        if max(self._rows, len(self._places), len(self._modules)) > MOST_ROWS:
            raise UsageError("the file defines more modules and call stacks than Tare reads")

    def _resolve(self) -> None:
        """Find the places of the calls since the modules changed."""
        addresses, which = np.unique(np.concatenate(self._pending), return_inverse=True)
        self._pending.clear()
        modules = sorted(self._modules, key=lambda module: module.start)
        starts = np.array([module.start for module in modules], np.uint64)
        self._instructions.append((which + len(self._places)).astype(np.uint64))
        places = np.searchsorted(starts, addresses, side="right").tolist()
        for address, place in zip(addresses.tolist(), places, strict=True):
            module = modules[place - 1] if place else None
            if module is not None and address < module.end:
                self._places.append((module.path, address - module.base, address))
            else:
                self._places.append(("", 0, address))

    def write(self, writer: RecordingWriter, note: Callable[[str], None]) -> Numbers:
        """The site of each stack."""
        self._pending.append(np.zeros(0, np.uint64))
        self._resolve()
        if len(self._places) >= _MANY_PLACES:
            note(f"looking up the names of {format_count(len(self._places))} places")
        # A return address is that of the next instruction.
        frames = unfold(
            [Frame(object=path, offset=max(offset - 1, 0)) for path, offset, _ in self._places]
        )
        addresses = np.array([address for _, _, address in self._places], np.uint64)
        instructions, parents = map(np.concatenate, (self._instructions, self._parents))
        return write_sites(writer, instructions, parents, frames, addresses)


def _parts(name: str, executable: str, rest: bytes, line: int) -> list[_Module]:
    path = executable if name == "x" else name
    try:
        base, *numbers = (int(word, 16) for word in rest.split()[:_MOST_PARTS])
        pairs = zip(numbers[0::2], numbers[1::2], strict=True)
        parts = [_Module(base + offset, base + offset + size, base, path) for offset, size in pairs]
    except ValueError:
        raise MalformedError(line) from None
    if any(not 0 <= part.base <= part.start <= part.end < 1 << 64 for part in parts):
        raise MalformedError(line)
    return parts


# ---- what happened ----


class _PointerEvents:
    def __init__(self, writer: RecordingWriter, sites: Numbers) -> None:
        self._writer = writer
        self._sites = sites
        self._clock = Clock()

    @property
    def ended(self) -> bool:
        return self._clock.ended

    def parse(self, lines: Lines) -> tuple[Moments, Events]:
        moments = self._clock.parse(lines, letters_of(lines, _LETTERS))
        births = moments.births
        born, freed = moments.lines[births], moments.lines[~births]
        keys, sizes, sites = (np.zeros(len(births), np.uint64) for _ in range(3))
        sizes[births], stacks, keys[births] = lines.numbers(born, 3)
        (keys[~births],) = lines.numbers(freed, 1)
        lines.demand(born, (stacks < len(self._sites)) & (sizes[births] < MOST_BYTES))
        sites[births] = self._sites[stacks]
        moved = np.zeros(len(births), np.bool_)
        return moments, Events(births, keys, sizes, sites, moved, keys, moments.times)

    def take(self, found: tuple[Moments, Events]) -> None:
        moments, events = found
        self._clock.take(moments)
        self._writer.add_events(events, self._clock.now())
