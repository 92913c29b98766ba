"""The descriptors of runtimes: one TOML file each, in ``runtimes/``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from glob import glob
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from tare.base.documents import read_toml
from tare.base.errors import TareError
from tare.observers.event_files import Event, Events
from tare.records.components import COMPONENTS, OTHER
from tare.studies.breakdown import archive, info_tables
from tare.studies.breakdown.image import Image
from tare.studies.breakdown.patterns import Pattern, read_line, read_operand
from tare.studies.breakdown.signatures import Signature, find_functions, read_signatures

BytesAt = Callable[[int, int], bytes]
"""What lies in an executable at an address, so many bytes; fewer where there are no more."""
FOLDER = Path(__file__).resolve().parent / "runtimes"
Component = Annotated[
    str, Meta(pattern=rf"\A({'|'.join(COMPONENTS)})\Z", description="the name of a component")
]


class Phase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Functions of the runtime, from their entry to their return, with all that they call.

    Where several phases nest, the first in the file counts. ``inside`` names a phase, without which
    this one does not count. With the component ``other`` what they do is judged as outside of
    phases; where there is a ``title``, as code that no rule is about, which is told of under it.
    """

    name: str
    component: Component
    functions: tuple[str, ...]
    inside: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        if self.title and self.component != OTHER:
            raise ValueError(f"title: only a phase with the component {OTHER} can have one")


class MadeCode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code that a process makes as it runs, and tells of in a file /tmp/perf-PID.map: the
    language's is that whose name ``names`` fits. ``java_options``: with which JVMs do so."""

    names: re.Pattern[str]
    java_options: tuple[str, ...] = ()


class Routine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Functions whose own instructions are charged to a component, but not what they call: those
    that are jumped to and do not return, of which a phase would have no end."""

    component: Component
    functions: tuple[str, ...]


class Symbols(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """How functions of a stripped executable get names. It is only searched for those of the file
    ``signatures`` where it contains all the texts. Or by an ``archive``, the static library that it
    was linked of, with ``{executable}`` for the executable's path; ``executables``: where these can
    lie, as a shell would write it, for scripts that start one."""

    signatures: str = ""
    contains: tuple[str, ...] = ()
    archive: str = ""
    executables: tuple[str, ...] = ()

    @functools.cached_property
    def known(self) -> tuple[Signature, ...]:
        return read_signatures(FOLDER / self.signatures) if self.signatures else ()


class Code(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The code that the language's compiler made: what lies in no file, where it is ``anonymous``.
    Or it lies between each symbol that ends in one of ``begin`` and the symbol of the same start
    that ends in the ``end`` of the same place, but for the symbols in ``without``. Or all of .text
    but what is ``unwound``, where this is False."""

    anonymous: bool = False
    unwound: bool = True
    without: tuple[str, ...] = ()
    prefix: str | None = None
    begin: tuple[str, ...] = ()
    end: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.begin) != len(self.end):
            raise ValueError("begin and end must have the same number of names")
        if (self.prefix is None) == bool(self.begin):
            raise ValueError("prefix, begin and end go together: give all or none")

    @property
    def has_ranges(self) -> bool:
        return not self.unwound or self.prefix is not None


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A word before an object. ``size_shift``: where its number of words begins; ``zero`` and
    ``one``: the bits that are 0, and 1, in the header of a new object. ``info_tables``: it is the
    address of code instead, before which a table says how large the object is."""

    component: Component
    size_shift: int = -1
    zero: int = 0
    one: int = 0
    info_tables: bool = False

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
    """A word in a new object that is the runtime's: in one whose header has ``tag`` in the lowest
    byte, a constant that has ``bits`` and is at least ``least``."""

    tag: int
    mask: int
    equals: int
    component: Component
    least: int = 0


class Allocation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Objects are made by moving a register; several at once fill what was taken, one behind the
    other. Where it goes down its value then is the address of the first header; where it goes up
    that address was its value before, and ``first`` bytes more. ``pointer_tags``: bits that a
    pointer to an object may carry. ``calls``: functions that take so and check, by the bytes they
    take; 0 where they only check what was taken before."""

    register: str
    component: Component
    word: int
    header: Header
    direction: Literal["down", "up"] = "down"
    first: int = 0
    pointer_tags: int = 0
    constants: tuple[Constant, ...] = field(name="constant", default=())
    calls: Mapping[str, int] = {}

    @property
    def goes_up(self) -> bool:
        return self.direction == "up"


class BufferHeader(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of an object the first word is ``first`` when its address is not known otherwise;
    ``class_at`` and ``length_at`` are where the other header words lie, and the elements of an
    array begin at ``elements_at``."""

    component: Component
    first: int
    class_at: int
    length_at: int
    elements_at: int


class Buffer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a runtime allocates from a thread's buffer: ``pointer`` and ``limit`` are places in
    memory, as patterns write them. ``zero``: registers that always are 0."""

    pointer: str
    limit: str
    component: Component
    header: BufferHeader
    zeroing: Component
    zero: tuple[str, ...]

    def __post_init__(self) -> None:
        for place in (self.pointer, self.limit):
            read_operand(place)


class PatternTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    code: tuple[str, ...]
    before: str | tuple[str, ...] = ()
    most_before: int = 0
    unless_next_use: str | None = None
    slow_path: tuple[str, ...] = ()
    with_room: frozenset[str] = frozenset({"ja", "jae"})
    allocated: bool | None = None
    gap: int = 0

    @property
    def all_before(self) -> tuple[str, ...]:
        return (self.before,) if isinstance(self.before, str) else self.before

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
    """One runtime. ``bits``: of its executables; ``recognise``: symbols that an executable or a
    library with it has, all of them; ``launchers``: the names of executables that load such a
    library. ``slow``: by operation, the component of what its calls take beyond the quickest."""

    schema: Literal[1]
    name: Annotated[
        str,
        Meta(
            pattern=r"\A[a-z][a-z0-9.-]*\Z",
            description="a name of lower-case letters, digits, . and -",
        ),
    ]
    title: str
    recognise: tuple[str, ...]
    bits: Literal[32, 64] = 64
    without: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    symbols: Symbols | None = None
    code: Code = Code()
    made_code: MadeCode | None = None
    allocation: Allocation | None = None
    buffer: Buffer | None = None
    tables: tuple[PatternTable, ...] = field(name="pattern", default=())
    phases: tuple[Phase, ...] = field(name="phase", default=())
    routines: tuple[Routine, ...] = field(name="routine", default=())
    operations: dict[str, Component] = {}
    slow: dict[str, Component] = {}
    oracle: str = ""

    def __post_init__(self) -> None:
        if unknown := set(self.slow) - set(self.operations):
            raise ValueError(f"slow: {min(unknown)!r} is not among the operations")
        if self.slow and self.phases:
            raise ValueError("slow: with phases it cannot be used")
        names = {"", *(phase.name for phase in self.phases)}
        for phase in self.phases:
            if phase.inside not in names:
                raise ValueError(f"{phase.name}: inside {phase.inside}, which is not a phase")

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
        found = read_toml(path, Descriptor, {re.Pattern[str]: _compiled})
        _ = found.patterns  # raises for one that makes no sense
    except ValueError as error:
        raise TareError(f"{path} is not a descriptor of a runtime: {error}") from None
    return found


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(str(error)) from None
