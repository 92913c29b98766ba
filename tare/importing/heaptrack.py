"""heaptrack's data files, as heaptrack_interpret leaves them; format versions 1 to 3.

A line is a letter and hexadecimal numbers, with spaces between them. What is defined is numbered in
the order of lines: strings, instructions and stacks from 1, kinds from 0.

    v HEAPTRACK FORMAT      versions
    X WORD...               the command line
    c MILLISECONDS          the time; what follows happened after it
    A                       heaptrack was attached to a running process
    s LENGTH TEXT           a string (before version 3: s TEXT)
    i ADDRESS MODULE [FUNCTION [FILE LINE [FUNCTION FILE LINE]...]]
                            an instruction; the first frame is the innermost, and inlined into the
                            others
    t INSTRUCTION STACK     a stack: a call, and the stack that the call was made from
    a SIZE STACK            a kind of allocation
    + KIND    - KIND        an allocation, a free

A free says only of what kind the allocation was that it ends. The youngest one is taken. That
changes no sum of sizes, or of sizes times lifetimes, as all of a kind have one size and one stack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tare.base.errors import UsageError
from tare.base.libraries import NDArray, np
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import LONGEST_NAME
from tare.importing.events import MOST_BYTES, Events, Facts, RecordingWriter
from tare.importing.lines import Lines, MalformedError, Numbers, Places, Source, read_all
from tare.importing.stacks import write_sites

TITLE = "heaptrack"
OPENING = re.compile(rb"v ([0-9a-f]{1,8})(?: ([0-9a-f]{1,8}))?\n(x )?")
COMMON_LETTERS = b"vXISAR#\nc"
MOST_ROWS = 1 << 22
_MOST_INLINED = 100
"""Of strings, of instructions, of modules and of call stacks."""
NO_REALLOCS = "heaptrack records a realloc as a free and an allocation of the whole new size."
_NO_OBJECTS = (
    "The file does not say which of several objects of one call site and size was freed: the "
    "youngest is assumed. Sums by call site are exact."
)
_VERSIONS = range(1, 4)
_SIZED_STRINGS = 3
_MOST_TEXT = 1 << 29
_MOST_KINDS = 1 << 25
_MOST_MILLISECONDS = 1 << 40
_NANOSECONDS = 1_000_000
_BIRTH, _FREE, _STAMP = ord("+"), ord("-"), ord("c")


def recognises(head: bytes) -> bool:
    """Whether a file that begins so is an interpreted one."""
    opening = OPENING.match(head)
    return opening is not None and not opening[3]


def read(source: Source, writer: RecordingWriter) -> Facts:
    """Put all of ``source`` into ``writer``. It is read twice: for the names, and for what
    happened."""
    names = _Names(sized_strings(source))
    ending = read_all(source, names.parse, names.take)
    sites, sizes, stacks = names.write(writer)
    events = _KindEvents(writer, sizes, sites[stacks])
    ending = read_all(source, events.parse, events.take, ending)
    return Facts(
        observer=tool_of(source),
        command=names.command,
        executable="",
        missing=missing_of(source, names.attached, events.ended, ending.damage),
        has_addresses=False,
        notes=(NO_REALLOCS, _NO_OBJECTS),
    )


def sized_strings(source: Source) -> bool:
    """Whether the strings of the file have their lengths before them. Raises UsageError when it is
    of a version that Tare does not read."""
    opening = OPENING.match(source.head())
    version = int(opening[2] or b"0", 16) if opening else 0
    if version not in _VERSIONS:
        raise UsageError(
            f"{source.path} has version {version} of heaptrack's format",
            f"Tare reads versions {_VERSIONS[0]} to {_VERSIONS[-1]}; record the program again, "
            "or read it with the heaptrack that wrote it",
        )
    return version >= _SIZED_STRINGS


def letters_of(lines: Lines, allowed: bytes) -> NDArray[np.uint8]:
    """The letters of all lines, of which only some are ``allowed``. Words of the command line can
    have newlines, so what lies between its line and the next, that of the system, counts as a
    comment."""
    letters = lines.letters()
    command, system = (np.flatnonzero(letters == ord(letter))[:1] for letter in "XI")
    if len(command) and len(system):
        letters[command[0] + 1 : system[0]] = ord("#")
    is_allowed = np.zeros(256, np.bool_)
    is_allowed[list(allowed)] = True
    lines.demand(np.arange(len(lines)), is_allowed[letters])
    return letters


def missing_of(source: Source, attached: bool, ended: bool, damage: str) -> str:
    """What a file does not have of its run, and why."""
    if damage:
        return f"the end of {source.path.name} is missing: {damage}"
    if attached:
        return "heaptrack was attached later: what was allocated before is not in it"
    if not ended:
        return "the program was killed, or ended at once: heaptrack did not write its last part"
    return ""


def tool_of(source: Source) -> str:
    """heaptrack and its version."""
    opening = OPENING.match(source.head())
    number = int(opening[1], 16) if opening else 0
    version = ".".join(str(number >> bits & 255) for bits in (16, 8, 0))
    return f"heaptrack {version}"


def sized_text(rest: bytes) -> tuple[str, bytes]:
    """A string with its length before it, and what follows it. Raises ValueError."""
    length, _, rest = rest.partition(b" ")
    end = int(length, 16)
    if not 0 <= end <= len(rest):
        raise ValueError
    return decoded(rest[:end]), rest[end + 1 :]


def decoded(text: bytes) -> str:
    return text.decode("utf-8", errors="replace")[:LONGEST_NAME]


# ---- names ----


@dataclass(frozen=True)
class _Definitions:
    """What a block of lines defines."""

    strings: list[str]
    addresses: list[int]
    frames: list[list[Frame]]
    instructions: Numbers
    parents: Numbers
    sizes: Numbers
    stacks: Numbers
    command: str
    attached: bool


class _Names:
    def __init__(self, sized: bool) -> None:
        self._sized = sized
        self._strings = [""]
        self._text = 0
        self._addresses = [0]
        self._frames = [[Frame()]]
        nothing = np.zeros(0, np.uint64)
        self._stacks = [(nothing, nothing)]
        self._stack_rows = 0
        self._kinds = [(nothing, nothing)]
        self._kind_rows = 0
        self.command = ""
        self.attached = False

    def parse(self, lines: Lines) -> _Definitions:
        letters = letters_of(lines, COMMON_LETTERS + b"sita+-")

        def of(letter: str) -> Places:
            return np.flatnonzero(letters == ord(letter))

        calls, instructions_at, kinds = of("t"), of("i"), of("a")
        instructions, parents = lines.numbers(calls, 2)
        before = len(self._addresses) + np.searchsorted(instructions_at, calls)
        own = self._stack_rows + 1 + np.arange(len(calls))
        lines.demand(calls, (instructions < before) & (parents < own))
        sizes, stacks = lines.numbers(kinds, 2)
        before = self._stack_rows + 1 + np.searchsorted(calls, kinds)
        lines.demand(kinds, (stacks < before) & (sizes < MOST_BYTES))
        strings: list[str] = []
        addresses: list[int] = []
        frames: list[list[Frame]] = []
        for line in np.flatnonzero((letters == ord("s")) | (letters == ord("i"))).tolist():
            rest = lines.rest(line)
            try:
                if letters[line] == ord("s"):
                    strings.append(sized_text(rest)[0] if self._sized else decoded(rest))
                else:
                    address, *numbers = (int(word, 16) for word in rest.split())
                    addresses.append(address & (1 << 64) - 1)
                    frames.append(self._frames_of(numbers, strings))
            except (ValueError, IndexError):
                raise MalformedError(line) from None
        commands = [lines.rest(line) for line in of("X").tolist()[:1]]
        command = decoded(commands[0]) if commands else ""
        return _Definitions(
            strings=strings,
            addresses=addresses,
            frames=frames,
            instructions=instructions,
            parents=parents,
            sizes=sizes,
            stacks=stacks,
            command=command,
            attached=len(of("A")) > 0,
        )

    def _frames_of(self, numbers: list[int], new: list[str]) -> list[Frame]:
        """The frames that an instruction has, of the numbers after its address."""
        known = len(self._strings)

        def text(number: int) -> str:
            return self._strings[number] if number < known else new[number - known]

        module, *rest = numbers
        if not rest:
            return [Frame(object=text(module))]
        rest += [0] * (3 - len(rest))
        triples = zip(rest[0::3], rest[1::3], rest[2::3], strict=True)
        frames = [
            Frame(text(function), text(module), text(file), line if line < 1 << 32 else 0)
            for function, file, line in triples
        ]
        return frames[:_MOST_INLINED]

    def take(self, found: _Definitions) -> None:
        self._strings += found.strings
        self._text += sum(map(len, found.strings))
        self._addresses += found.addresses
        self._frames += found.frames
        self._stacks.append((found.instructions, found.parents))
        self._stack_rows += len(found.parents)
        self._kinds.append((found.sizes, found.stacks))
        self._kind_rows += len(found.sizes)
        self.command = self.command or found.command
        self.attached |= found.attached
        rows = max(len(self._strings), len(self._addresses), self._stack_rows)
        if rows > MOST_ROWS or self._text > _MOST_TEXT or self._kind_rows > _MOST_KINDS:
            raise UsageError("the file defines more names and call stacks than Tare reads")

    def write(self, writer: RecordingWriter) -> tuple[Numbers, Numbers, Numbers]:
        """The site of each stack; and of each kind its size and stack."""
        addresses = np.array(self._addresses, np.uint64)
        instructions, parents = map(np.concatenate, zip(*self._stacks, strict=True))
        sizes, stacks = map(np.concatenate, zip(*self._kinds, strict=True))
        sites = write_sites(writer, instructions, parents, self._frames, addresses)
        return sites, sizes, stacks


# ---- what happened ----


@dataclass(frozen=True)
class Moments:
    """The events of a block of lines: the ``lines`` that they are on, which are ``births``, and
    their ``times``; the milliseconds at the end of the block, and whether a time stamp is the last
    of it, None where it has neither."""

    lines: Places
    births: NDArray[np.bool_]
    times: Numbers
    milliseconds: int
    ended: bool | None


class Clock:
    """Gives each event a time in nanoseconds: that of the time stamp before it, which there is
    every 10 milliseconds, and where events share one, one nanosecond more than the last. So times
    tell the order of events."""

    def __init__(self) -> None:
        self._milliseconds = 0
        self._last = 0
        self.ended = True

    def parse(self, lines: Lines, letters: NDArray[np.uint8]) -> Moments:
        events = np.flatnonzero((letters == _BIRTH) | (letters == _FREE))
        stamps = np.flatnonzero(letters == _STAMP)
        (shown,) = lines.numbers(stamps, 1)
        lines.demand(stamps, shown < _MOST_MILLISECONDS)
        stamped = np.concatenate(([self._milliseconds], shown.astype(np.int64)))
        stamped = np.maximum.accumulate(stamped)
        count = np.arange(len(events))
        earliest = stamped[np.searchsorted(stamps, events)] * _NANOSECONDS - count
        times = np.maximum.accumulate(np.maximum(earliest, self._last + 1)) + count
        ended = None
        if len(events) or len(stamps):
            ended = len(stamps) > 0 and (not len(events) or bool(stamps[-1] > events[-1]))
        births = letters[events] == _BIRTH
        return Moments(events, births, times.astype(np.uint64), int(stamped[-1]), ended)

    def take(self, moments: Moments) -> None:
        self._milliseconds = moments.milliseconds
        if len(moments.times):
            self._last = int(moments.times[-1])
        if moments.ended is not None:
            self.ended = moments.ended

    def now(self) -> int:
        return max(self._last, self._milliseconds * _NANOSECONDS)


class _KindEvents:
    """Allocations and frees by kind; each is given a key of its kind and of how many of that kind
    are live, so that a free ends the youngest."""

    def __init__(self, writer: RecordingWriter, sizes: Numbers, sites: Numbers) -> None:
        self._writer = writer
        self._sizes = sizes
        self._sites = sites
        self._live = np.zeros(len(sizes), np.int64)
        self._clock = Clock()

    @property
    def ended(self) -> bool:
        return self._clock.ended

    def parse(self, lines: Lines) -> tuple[Moments, Events, Numbers, NDArray[np.int64]]:
        """Also the kinds of which the number of live objects changes, and that number."""
        letters = letters_of(lines, COMMON_LETTERS + b"sita+-")
        moments = self._clock.parse(lines, letters)
        births = moments.births
        (kinds,) = lines.numbers(moments.lines, 1)
        lines.demand(moments.lines, kinds < len(self._sizes))
        order = np.argsort(kinds, kind="stable")
        sorted_kinds = kinds[order]
        changes = np.flatnonzero(sorted_kinds[1:] != sorted_kinds[:-1])
        ends = [len(kinds) - 1] * (len(kinds) > 0)
        first = np.concatenate(([0] * len(ends), changes + 1)).astype(np.int64)
        last = np.concatenate((changes, ends)).astype(np.int64)
        step = np.where(births[order], 1, -1)
        total = np.cumsum(step)
        before = self._live[sorted_kinds[first]] - (total[first] - step[first])
        live = total + np.repeat(before, last - first + 1)
        level = np.empty_like(live)
        level[order] = np.where(births[order], live - 1, live)
        lines.demand(moments.lines, level >= 0)
        events = Events(
            births=births,
            keys=kinds << np.uint64(32) | level.astype(np.uint64),
            sizes=self._sizes[kinds] * births,
            sites=self._sites[kinds] * births,
            moved=np.zeros(len(births), np.bool_),
            addresses=np.zeros(len(births), np.uint64),
            times=moments.times,
        )
        return moments, events, sorted_kinds[last], live[last]

    def take(self, found: tuple[Moments, Events, Numbers, NDArray[np.int64]]) -> None:
        moments, events, kinds, live = found
        self._clock.take(moments)
        self._live[kinds] = live
        self._writer.add_events(events, self._clock.now())
