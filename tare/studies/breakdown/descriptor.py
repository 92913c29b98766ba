"""The descriptors of runtimes: one TOML file each, in ``runtimes/``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from glob import glob
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, structs

from tare.base.documents import read_toml
from tare.base.errors import TareError
from tare.observers.event_files import Event, Events
from tare.records.components import COMPONENTS, OTHER
from tare.studies.breakdown import archive, info_tables
from tare.studies.breakdown.image import Image
from tare.studies.breakdown.patterns import Mark, Pattern, read_line, read_operand
from tare.studies.breakdown.signatures import Signature, find_functions, read_signatures

Words = Mapping[str, int | str]
"""What ``{name}`` stands for."""
BytesAt = Callable[[int, int], bytes]
"""What lies in an executable at an address, so many bytes; fewer where there are no more."""
FOLDER = Path(__file__).resolve().parent / "runtimes"
_WORD = re.compile(r"\{(\w+)\}")
Component = Annotated[
    str, Meta(pattern=rf"\A({'|'.join(COMPONENTS)})\Z", description="a component")
]


class Phase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[[phase]]``: functions of the runtime, from their entry to their return, with all
    that they call. Where several phases nest, the first in the file counts."""

    name: str
    """For ``inside``, and in messages."""
    component: Component
    """What their instructions are charged to; ``other``: as outside of phases."""
    functions: tuple[str, ...]
    """Their symbols."""
    inside: str = ""
    """The name of a phase without which this one does not count."""
    title: str = ""
    """With the component ``other``: under what the code stands in reports, as code without a rule.
    """

    def __post_init__(self) -> None:
        if self.title and self.component != OTHER:
            raise ValueError(f"title: only a phase with the component {OTHER} can have one")

    def without(self, gone: Collection[str]) -> Phase:
        left = tuple(name for name in self.functions if name not in gone)
        return structs.replace(self, functions=left)

    def with_all_of(self, other: Phase) -> Phase:
        return structs.replace(self, functions=(*self.functions, *other.functions))


class MadeCode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[made_code]``: code that a process makes as it runs, and describes in a file
    /tmp/perf-PID.map."""

    names: re.Pattern[str]
    """The names that code of the language has there."""
    java_options: tuple[str, ...] = ()
    """With which a JVM writes the file."""


class Routine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[[routine]]``: functions that are jumped to and do not return, of which a phase
    would have no end."""

    component: Component
    """What their own instructions are charged to, but not what they call."""
    functions: tuple[str, ...]
    """Their symbols."""


class Inlined(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[[inlined]]``: functions that compilers put into others, in all files with debug
    information. Of those at an instruction, the innermost that is named in the descriptor counts.
    """

    component: Component
    """What their own instructions are charged to; ``other``: the program."""
    functions: tuple[re.Pattern[str], ...]
    """Regular expressions for the whole of their names; those of Rust without hashes."""
    writes_counts: bool = True
    """Whether what retaining and releasing functions write are counts of references."""


class Symbols(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The table ``[symbols]``: how functions of a stripped executable get names."""

    signatures: str = ""
    """A file of signatures beside the descriptor."""
    contains: tuple[str, ...] = ()
    """Only an executable with all of these texts is searched."""
    archive: str = ""
    """The static library that it was linked of, with ``{executable}`` for the executable's path."""
    executables: tuple[str, ...] = ()
    """Where executables can lie, as a shell would write it, for scripts that start one."""

    @functools.cached_property
    def known(self) -> tuple[Signature, ...]:
        return read_signatures(FOLDER / self.signatures) if self.signatures else ()


class Code(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[code]``: where the code lies that the language's compiler made."""

    anonymous: bool = False
    """Whether it is what lies in no file."""
    whole: bool = False
    """Whether it is all of .text of the file that is recognised."""
    unwound: bool = True
    """False where it is all of .text without unwinding tables."""
    without: tuple[str, ...] = ()
    """Symbols at which none of it begins, in spite of their names."""
    prefix: str | None = None
    """What the symbols around it begin with."""
    begin: tuple[str, ...] = ()
    """What the symbol before it ends in."""
    end: tuple[str, ...] = ()
    """What the symbol behind it ends in, for each of ``begin``; their starts are the same."""

    def __post_init__(self) -> None:
        if len(self.begin) != len(self.end):
            raise ValueError("begin and end must have the same number of names")
        if (self.prefix is None) == bool(self.begin):
            raise ValueError("prefix, begin and end go together: give all or none")

    @property
    def has_ranges(self) -> bool:
        return self.whole or not self.unwound or self.prefix is not None


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[allocation.header]``: the word before an object."""

    component: Component
    """What storing it is charged to."""
    size_shift: int = -1
    """The bit at which the object's number of words begins. Needed without ``info_tables``."""
    zero: int = 0
    """The bits that are 0 in a new object's."""
    one: int = 0
    """The bits that are 1."""
    info_tables: bool = False
    """Whether it is an address of code, before which a table says how large the object is."""

    def __post_init__(self) -> None:
        if self.size_shift < 0 and not self.info_tables:
            raise ValueError("size_shift: is missing, or negative")

    def reader(self, bytes_at: BytesAt) -> Callable[[int, int | None], int | None]:
        """How many words a header says that its object has, as ``allocation.HeaderWords``."""
        if self.info_tables:
            return functools.partial(info_tables.words_of, bytes_at)
        return self._words_of

    def _words_of(self, header: int, _second: int | None) -> int | None:
        if header & self.zero or header & self.one != self.one:
            return None
        return header >> self.size_shift


class Constant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[[allocation.constant]]``: a word in a new object that is the runtime's."""

    tag: int
    """The lowest byte of such objects' headers."""
    mask: int
    """The bits of the word that are compared."""
    equals: int
    """What they are."""
    component: Component
    """What storing the word is charged to."""
    least: int = 0
    """The least that the whole word is."""


class Allocation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[allocation]``: objects are made by moving a register. Several at once fill what
    was taken, one behind the other."""

    register: str
    """The allocation pointer."""
    component: Component
    """What moving it is charged to."""
    word: int
    """Bytes of a word."""
    header: Header
    """The word before an object."""
    direction: Literal["down", "up"] = "down"
    """Whether the first header is at the pointer's value after the move, or before it."""
    first: int = 0
    """Where it goes up, how many bytes behind that value the first header is."""
    pointer_tags: int = 0
    """The bits that a pointer to an object may carry."""
    constants: tuple[Constant, ...] = field(name="constant", default=())
    """Words of the runtime in a new object."""
    calls: Mapping[str, int] = {}
    """Functions that allocate and check, with the bytes that they take; 0 where they only check."""

    @property
    def goes_up(self) -> bool:
        return self.direction == "up"


class BufferHeader(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[buffer.header]``. Places are bytes from the start of an object."""

    component: Component
    """What storing header words is charged to."""
    first: int
    """The first word of an object, which shows an object whose address is not known."""
    class_at: int
    """Where its class is."""
    length_at: int
    """Where the length of an array is."""
    elements_at: int
    """Where the elements of an array begin."""


class Buffer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[buffer]``: objects are made in a thread's buffer."""

    pointer: str
    """Where its pointer lies in memory, as a pattern writes it."""
    limit: str
    """Where its limit lies."""
    component: Component
    """What moving the pointer is charged to."""
    header: BufferHeader
    """The first words of an object."""
    zeroing: Component
    """What clearing a new object is charged to."""
    zero: tuple[str, ...]
    """Registers that always are 0."""

    def filled(self, words: Words) -> Buffer:
        pointer, limit = (_filled(place, words) for place in (self.pointer, self.limit))
        for place in (pointer, limit):
            read_operand(place)
        return structs.replace(self, pointer=pointer, limit=limit)


class PatternTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[[pattern]]``: instructions in a row, and what each is charged to.
    ``tare/studies/breakdown/patterns.py`` explains its lines."""

    code: tuple[str, ...]
    """A line for each instruction."""
    before: str | tuple[str, ...] = ()
    """Lines for the instructions right before; padding is skipped."""
    most_before: int = 0
    """How many of these count at most."""
    unless_next_use: str | None = None
    """A line: no match where it fits the next instruction that uses ``%a``."""
    slow_path: tuple[str, ...] = ()
    """Lines for where the last instruction, a jump, goes when there is work to do."""
    with_room: frozenset[str] = frozenset({"ja", "jae"})
    """The jumps that are taken when there is none."""
    allocated: bool | None = None
    """Whether it only matches behind an allocation that nothing has checked, or only elsewhere."""
    gap: int = 0
    """How many unrelated instructions may lie between two lines."""

    @property
    def all_before(self) -> tuple[str, ...]:
        return (self.before,) if isinstance(self.before, str) else self.before

    def filled(self, words: Words) -> PatternTable:
        return structs.replace(
            self,
            code=tuple(_filled(line, words) for line in self.code),
            before=tuple(_filled(line, words) for line in self.all_before),
            unless_next_use=self.unless_next_use and _filled(self.unless_next_use, words),
            slow_path=tuple(_filled(line, words) for line in self.slow_path),
        )

    def pattern(self) -> Pattern:
        lines, before, slow_path = (
            tuple(map(read_line, texts)) for texts in (self.code, self.all_before, self.slow_path)
        )
        next_use = None if self.unless_next_use is None else read_line(self.unless_next_use)
        if not any(line.mark for line in lines):
            raise ValueError("a pattern charges no instruction to a component")
        if slow_path and lines[-1].mark is None:
            raise ValueError("slow_path: the jump to it is charged to no component")
        if next_use is not None and not any("%a" in text for text in self.code):
            raise ValueError("unless_next_use is about %a, which the pattern does not name")
        return Pattern(
            lines,
            before,
            self.most_before,
            next_use,
            slow_path,
            self.with_room,
            self.allocated,
            self.gap,
        )


class Descriptor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The file: one runtime."""

    schema: Literal[1]
    """The version of this form."""
    name: Annotated[
        str,
        Meta(
            pattern=r"\A[a-z][a-z0-9.-]*\Z",
            description="a name of lower-case letters, digits, . and -",
        ),
    ]
    """For ``--runtime``."""
    title: str
    """Shown in reports."""
    recognise: tuple[str, ...]
    """Symbols that an executable or a library of this runtime has, all of them."""
    like: str = ""
    """The name of a descriptor that says all that this one does not, but for ``without``. ``words``
    and ``pattern`` of this one come first, ``phase`` adds functions to the one of that name."""
    gone: tuple[str, ...] = ()
    """Functions of that descriptor's phases which this runtime does not have."""
    words: dict[str, int | str] = {}
    """What ``{name}`` stands for in lines of patterns and places of the buffer."""
    bits: Literal[32, 64] = 64
    """Of its executables."""
    without: tuple[str, ...] = ()
    """Symbols that it does not have."""
    launchers: tuple[str, ...] = ()
    """Names of executables that load such a library."""
    symbols: Symbols | None = None
    """How functions of a stripped executable get names."""
    code: Code = Code()
    """Where the compiler's code lies."""
    made_code: MadeCode | None = None
    """Code that the process makes as it runs."""
    allocation: Allocation | None = None
    """How objects are made by moving a register."""
    buffer: Buffer | None = None
    """How they are made in a thread's buffer."""
    tables: tuple[PatternTable, ...] = field(name="pattern", default=())
    """What the compiler's code is charged to."""
    phases: tuple[Phase, ...] = field(name="phase", default=())
    """What functions of the runtime, with all that they call, are charged to."""
    routines: tuple[Routine, ...] = field(name="routine", default=())
    """What functions that do not return are charged to."""
    inlined: tuple[Inlined, ...] = ()
    """What functions are charged to wherever they are inlined."""
    operations: dict[str, Component] = {}
    """Components of operations of malloc, such as ``calloc``, ``zeroing`` or ``copying``."""
    slow: dict[str, Component] = {}
    """Of an operation, the component of what its calls take beyond the quickest. Not with phases.
    """
    oracle: str = ""
    """A description of the executable that patterns are checked against: ``ocaml-frame-tables``."""

    def __post_init__(self) -> None:
        if unknown := set(self.slow) - set(self.operations):
            raise ValueError(f"slow: {min(unknown)!r} is not among the operations")
        if self.slow and self.phases:
            raise ValueError("slow: with phases it cannot be used")
        names = {"", *(phase.name for phase in self.phases)}
        for phase in self.phases:
            if phase.inside not in names:
                raise ValueError(f"{phase.name}: inside {phase.inside}, which is not a phase")

    def over(self, base: Descriptor) -> Descriptor:
        """This one, with what the one that it is like says."""
        unsaid = {
            one.name: getattr(base, one.name)
            for one in structs.fields(Descriptor)
            if one.name != "without" and getattr(self, one.name) in (one.default, (), {})
        }
        phases = {phase.name: phase.without(self.gone) for phase in base.phases}
        for phase in self.phases:
            known = phases.get(phase.name)
            phases[phase.name] = phase if known is None else known.with_all_of(phase)
        given = {
            "like": base.family,
            "words": {**base.words, **self.words},
            "tables": (*self.tables, *base.tables),
            "phases": tuple(phases.values()),
        }
        return structs.replace(self, **{**unsaid, **given})

    @property
    def family(self) -> str:
        """The descriptor that it goes back to. Phases are known by its name: the instrument can
        follow so many, and those of the same name are one."""
        return self.like or self.name

    def filled(self) -> Descriptor:
        """With its words in the lines that name them."""
        return structs.replace(
            self,
            buffer=self.buffer and self.buffer.filled(self.words),
            tables=tuple(table.filled(self.words) for table in self.tables),
        )

    @functools.cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(table.pattern() for table in self.tables)

    @property
    def named(self) -> frozenset[str]:
        """The functions that it names: in lists, and in lines of patterns."""
        lines = [
            line
            for table in self.tables
            for line in (*table.code, *table.slow_path, *table.all_before)
        ]
        return frozenset(
            [
                *self.recognise,
                *(name for phase in self.phases for name in phase.functions),
                *(name for routine in self.routines for name in routine.functions),
                *(name for line in lines for name in re.findall(r"@([\w.]+)", line)),
            ]
        )

    def recognises(self, image: Image) -> bool:
        """Names functions of the image first, if they have to be found."""
        if image.bits != self.bits:
            return False
        self.name_functions(image)
        return all(symbol in image.symbols for symbol in self.recognise) and not any(
            symbol in image.symbols for symbol in self.without
        )

    def name_functions(self, image: Image) -> None:
        """Those of a stripped image that can be found."""
        symbols = self.symbols
        if symbols is None or not all(image.contains(text.encode()) for text in symbols.contains):
            return
        if symbols.archive and not image.found:
            beside = symbols.archive.replace("{executable}", str(image.path.resolve()))
            image.add_functions(archive.find_functions(Path(beside), *image.text))
        image.add_functions(find_functions(symbols.known, *image.text))

    def events(self, image: Image | None) -> Events:
        """What the instrument is to follow; in this executable, where functions had to be found."""
        return tuple(
            _event(phase.name, function, one)
            for one in self._executables(image)
            for phase in self.phases
            for function in phase.functions
        )

    def _executables(self, image: Image | None) -> list[Image | None]:
        """In which functions may have been found; without an archive no other can be known."""
        known = () if self.symbols is None else self.symbols.executables
        if not known or (image is not None and self.recognises(image)):
            return [image]
        paths = (path for pattern in known for path in sorted(glob(pattern)))
        return [found for path in paths if self.recognises(found := Image(Path(path)))]

    def component_of_phases(self, names: Iterable[str]) -> str | None:
        """Of a thread that is in these phases."""
        phase = self._phase_of(names)
        return None if phase is None or phase.component == OTHER else phase.component

    def title_of_phases(self, names: Iterable[str]) -> str:
        """Under which what a thread does in these phases is told of, as code that no rule is about;
        empty where it is not."""
        phase = self._phase_of(names)
        return "" if phase is None else phase.title

    def _phase_of(self, names: Iterable[str]) -> Phase | None:
        there = set(names)
        for phase in self.phases:
            if phase.name in there and (not phase.inside or phase.inside in there):
                return phase
        return None

    def code_ranges(self, image: Image) -> list[tuple[int, int]]:
        """The language's code in an executable, in order."""
        code = self.code
        if code.whole:
            start, text = image.text
            return [(start, start + len(text))]
        if not code.unwound:
            return _between(image)
        if code.prefix is None:
            return []
        found = []
        for begin, end in zip(code.begin, code.end, strict=True):
            for symbol, address in image.symbols.items():
                if symbol in code.without:
                    continue
                if symbol.startswith(code.prefix) and symbol.endswith(begin):
                    behind = image.symbols.get(symbol.removesuffix(begin) + end)
                    if behind is not None and behind > address:
                        found.append((address, behind))
        return sorted(found)

    def mark_of_functions(self, functions: Iterable[str]) -> Mark | None:
        """Of an instruction in these, the innermost first."""
        for function in functions:
            for one in self.inlined:
                if any(name.fullmatch(function) for name in one.functions):
                    return Mark(one.component, writes_counts=one.writes_counts)
        return None

    def routine_ranges(self, image: Image) -> list[tuple[int, int, str]]:
        """Where the routines lie, from and to, with their components, in order."""
        return sorted(
            (image.symbols[name], image.symbols[name] + image.sizes[name], routine.component)
            for routine in self.routines
            for name in routine.functions
            if name in image.symbols
        )


def _event(phase: str, function: str, image: Image | None) -> Event:
    if image is not None and function in image.found:
        return Event("during", phase, image.path.name, "", image.symbols[function])
    return Event("during", phase, "", function, 0)


def _between(image: Image) -> list[tuple[int, int]]:
    """The text of an executable without what is unwound."""
    start, text = image.text
    end = start + len(text)
    found = []
    for first, behind in image.unwound:
        if start < first < end:
            found.append((start, first))
        start = max(start, behind)
    return [*found, (start, end)] if start < end else found


@functools.cache
def shipped() -> Mapping[str, Descriptor]:
    """The descriptors that come with Tare, by name."""
    return {
        descriptor.name: descriptor
        for descriptor in (read_descriptor(path) for path in sorted(FOLDER.glob("*.toml")))
    }


def read_descriptor(path: Path) -> Descriptor:
    """TareError where the file is no descriptor."""
    try:
        found = _read(path).filled()
        _ = found.patterns  # raises for one that makes no sense
    except ValueError as error:
        raise TareError(f"{path} is not a descriptor of a runtime: {error}") from None
    return found


def _read(path: Path, *readers: str) -> Descriptor:
    """With what it takes from others; ``readers`` are those that take from this one."""
    found = read_toml(path, Descriptor, {re.Pattern[str]: _compiled})
    if not found.like:
        return found
    if found.like in (found.name, *readers):
        raise ValueError(f"like: {found.like} is like itself")
    return found.over(_read(path.with_name(f"{found.like}.toml"), found.name, *readers))


def _filled(text: str, words: Words) -> str:
    def word(match: re.Match[str]) -> str:
        if match[1] not in words:
            raise ValueError(f"{text!r}: there is no word {match[1]}")
        return str(words[match[1]])

    return _WORD.sub(word, text)


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(str(error)) from None
