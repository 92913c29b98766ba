"""The descriptors of runtimes: one TOML file each, in ``runtimes/``."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

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
_SCHEMA = 1


@dataclass(frozen=True)
class Phase:
    """Functions of the runtime, from their entry to their return, with all that they call.

    Where several phases nest, the first in the file counts. ``inside`` names a phase, without which
    this one does not count. With the component ``other`` what they do is judged as outside of
    phases; where there is a ``title``, as code that no rule is about, which is told of under it.
    """

    name: str
    component: str
    functions: tuple[str, ...]
    inside: str = ""
    title: str = ""


@dataclass(frozen=True)
class MadeCode:
    """Code that a process makes as it runs, and tells of in a file /tmp/perf-PID.map: the
    language's is that whose name ``names`` fits. ``java_options``: with which JVMs do so."""

    names: re.Pattern[str]
    java_options: tuple[str, ...]


@dataclass(frozen=True)
class Routine:
    """Functions whose own instructions are charged to a component, but not what they call: those
    that are jumped to and do not return, of which a phase would have no end."""

    component: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Symbols:
    """How functions of a stripped executable get names. It is only searched for ``signatures``
    where it contains all the texts. Or by an ``archive``, the static library that it was linked of,
    with ``{executable}`` for the executable's path; ``executables``: where these can lie, as a
    shell would write it, for scripts that start one."""

    signatures: tuple[Signature, ...]
    contains: tuple[str, ...]
    archive: str
    executables: tuple[str, ...]


@dataclass(frozen=True)
class Ranges:
    """The code that the language's compiler made: between each symbol that ends in one of
    ``begin`` and the symbol of the same start that ends in the ``end`` of the same place, but for
    the symbols in ``without``. Or all of .text but what is ``unwound``, where this is False."""

    unwound: bool
    without: tuple[str, ...]
    prefix: str
    begin: tuple[str, ...]
    end: tuple[str, ...]


@dataclass(frozen=True)
class Header:
    """A word before an object. ``size_shift``: where its number of words begins; ``zero`` and
    ``one``: the bits that are 0, and 1, in the header of a new object. ``info_tables``: it is the
    address of code instead, before which a table says how large the object is."""

    size_shift: int
    zero: int
    one: int
    info_tables: bool
    component: str

    def reader(self, bytes_at: BytesAt) -> Callable[[int, int | None], int | None]:
        """How many words a header says that its object has, as ``allocation.HeaderWords``."""
        if self.info_tables:
            return functools.partial(info_tables.words_of, bytes_at)
        return self._words_of

    def _words_of(self, header: int, _second: int | None) -> int | None:
        if header & self.zero or header & self.one != self.one:
            return None
        return header >> self.size_shift


@dataclass(frozen=True)
class Constant:
    """A word in a new object that is the runtime's: in one whose header has ``tag`` in the lowest
    byte, a constant that has ``bits`` and is at least ``least``."""

    tag: int
    mask: int
    equals: int
    least: int
    component: str


@dataclass(frozen=True)
class Allocation:
    """Objects are made by moving a register; several at once fill what was taken, one behind the
    other. Where it goes down its value then is the address of the first header; where it goes up
    that address was its value before, and ``first`` bytes more. ``pointer_tags``: bits that a
    pointer to an object may carry. ``calls``: functions that take so and check, by the bytes they
    take; 0 where they only check what was taken before."""

    register: str
    goes_up: bool
    first: int
    pointer_tags: int
    component: str
    word: int
    header: Header
    constants: tuple[Constant, ...]
    calls: Mapping[str, int]


@dataclass(frozen=True)
class Buffer:
    """How a runtime allocates from a thread's buffer: ``pointer`` and ``limit`` are places in
    memory, as patterns write them. Of an object the first word is ``first`` when its address is not
    known otherwise; ``class_at`` and ``length_at`` are where the other header words lie, and the
    elements of an array begin at ``elements_at``. ``zero``: registers that always are 0."""

    pointer: str
    limit: str
    component: str
    header: str
    zeroing: str
    first: int
    class_at: int
    length_at: int
    elements_at: int
    zero: tuple[str, ...]


@dataclass(frozen=True)
class Descriptor:
    """One runtime. ``bits``: of its executables; ``recognise``: symbols that an executable or a
    library with it has, all of them; ``launchers``: the names of executables that load such a
    library; ``named``: all functions that it names. ``code_is_anonymous``: code of the language is
    what lies in no file. ``slow``: by operation, the component of what its calls take beyond the
    quickest."""

    name: str
    title: str
    bits: int
    recognise: tuple[str, ...]
    without: tuple[str, ...]
    code_is_anonymous: bool
    launchers: tuple[str, ...]
    ranges: Ranges | None
    made_code: MadeCode | None
    allocation: Allocation | None
    buffer: Buffer | None
    patterns: tuple[Pattern, ...]
    phases: tuple[Phase, ...]
    routines: tuple[Routine, ...]
    symbols: Symbols | None
    named: frozenset[str]
    operations: Mapping[str, str]
    slow: Mapping[str, str]
    oracle: str

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
            _find_by_archive(symbols.archive, image)
        start, text = image.text
        image.add_functions(find_functions(symbols.signatures, start, text))

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
        if self.ranges is None:
            return []
        if not self.ranges.unwound:
            return _between(image)
        found = []
        for begin, end in zip(self.ranges.begin, self.ranges.end, strict=True):
            for symbol, address in image.symbols.items():
                if symbol in self.ranges.without:
                    continue
                if symbol.startswith(self.ranges.prefix) and symbol.endswith(begin):
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


def _find_by_archive(path: str, image: Image) -> None:
    beside = Path(path.replace("{executable}", str(image.path.resolve())))
    image.add_functions(archive.find_functions(beside, *image.text))


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


# ---- reading ----


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
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return _descriptor(table, path.parent)
    except OSError as error:
        raise TareError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TareError(f"{path} is no descriptor of a runtime: {error}") from None


def _descriptor(table: Mapping[str, Any], folder: Path) -> Descriptor:
    _only(table, "schema name title bits recognise without launchers symbols code made_code"
          " allocation buffer pattern phase routine operations slow oracle")  # fmt: skip
    if table["schema"] != _SCHEMA:
        raise ValueError(f"schema {table['schema']!r}; this is Tare for {_SCHEMA}")
    if not re.fullmatch(r"[a-z][a-z0-9.-]*", table["name"]):
        raise ValueError(f"the name {table['name']!r}")
    if table.get("bits", 64) not in (32, 64):
        raise ValueError(f"bits: {table['bits']!r}; 32 and 64 are known")
    code = dict(table.get("code", {}))
    is_anonymous = bool(code.pop("anonymous", False))
    operations = dict(table.get("operations", {}))
    slow = dict(table.get("slow", {}))
    if unknown := set(slow) - set(operations):
        raise ValueError(f"slow: {min(unknown)!r} is not among the operations")
    phases = tuple(_phase(one) for one in table.get("phase", ()))
    if slow and phases:
        raise ValueError("slow: calls inside of phases are not told from those outside")
    names = [phase.name for phase in phases]
    for phase in phases:
        if phase.inside and phase.inside not in names:
            raise ValueError(f"the phase {phase.name} is inside {phase.inside}, which is none")
    return Descriptor(
        name=table["name"],
        title=table["title"],
        bits=table.get("bits", 64),
        recognise=_texts(table["recognise"]),
        without=_texts(table.get("without", [])),
        launchers=_texts(table.get("launchers", [])),
        code_is_anonymous=is_anonymous,
        ranges=_ranges(code) if code else None,
        made_code=_made_code(table["made_code"]) if "made_code" in table else None,
        allocation=_allocation(table["allocation"]) if "allocation" in table else None,
        buffer=_buffer(table["buffer"]) if "buffer" in table else None,
        patterns=tuple(_pattern(one) for one in table.get("pattern", ())),
        phases=phases,
        routines=tuple(_routine(one) for one in table.get("routine", ())),
        symbols=_symbols(table["symbols"], folder) if "symbols" in table else None,
        named=_named(table),
        operations={name: _component(value) for name, value in operations.items()},
        slow={name: _component(value) for name, value in slow.items()},
        oracle=table.get("oracle", ""),
    )


def _only(table: Mapping[str, Any], words: str) -> None:
    if unknown := set(table) - set(words.split()):
        raise ValueError(f"{min(unknown)!r} means nothing here")


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{value!r} is no list of texts")
    return tuple(value)


def _component(name: str) -> str:
    if name not in COMPONENTS:
        raise ValueError(f"there is no component {name!r}")
    return name


def _phase(table: Mapping[str, Any]) -> Phase:
    _only(table, "name component functions inside title")
    if table.get("title") and table["component"] != OTHER:
        raise ValueError(f"the phase {table['name']} has a title, but is not {OTHER}")
    return Phase(
        table["name"],
        _component(table["component"]),
        _texts(table["functions"]),
        table.get("inside", ""),
        table.get("title", ""),
    )


def _routine(table: Mapping[str, Any]) -> Routine:
    _only(table, "component functions")
    return Routine(_component(table["component"]), _texts(table["functions"]))


def _symbols(table: Mapping[str, Any], folder: Path) -> Symbols:
    _only(table, "signatures contains archive executables")
    file = table.get("signatures")
    return Symbols(
        read_signatures(folder / file) if file is not None else (),
        _texts(table.get("contains", [])),
        str(table.get("archive", "")),
        _texts(table.get("executables", [])),
    )


def _named(table: Mapping[str, Any]) -> frozenset[str]:
    """The functions that a descriptor names: in lists, and in lines of patterns."""
    lists = [*table.get("phase", ()), *table.get("routine", ())]
    lines = [text for one in table.get("pattern", ()) for text in _lines_of(one)]
    return frozenset(
        [
            *table["recognise"],
            *(name for one in lists for name in one["functions"]),
            *(name for line in lines for name in re.findall(r"@([\w.]+)", line)),
        ]
    )


def _lines_of(pattern: Mapping[str, Any]) -> list[str]:
    before = pattern.get("before", [])
    return [*pattern["code"], *pattern.get("slow_path", []), *_listed(before)]


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _ranges(table: Mapping[str, Any]) -> Ranges:
    _only(table, "unwound without prefix begin end")
    if table.get("unwound") is False:
        return Ranges(False, (), "", (), ())
    ranges = Ranges(
        True,
        _texts(table.get("without", [])),
        table["prefix"],
        _texts(table["begin"]),
        _texts(table["end"]),
    )
    if len(ranges.begin) != len(ranges.end):
        raise ValueError("code: begin and end are of different length")
    return ranges


def _made_code(table: Mapping[str, Any]) -> MadeCode:
    _only(table, "names java_options")
    try:
        names = re.compile(table["names"])
    except re.error as error:
        raise ValueError(f"made_code: names: {error}") from None
    return MadeCode(names, _texts(table.get("java_options", [])))


def _buffer(table: Mapping[str, Any]) -> Buffer:
    _only(table, "pointer limit component header zeroing zero")
    header = table["header"]
    _only(header, "first class_at length_at elements_at component")
    for place in (table["pointer"], table["limit"]):
        read_operand(place)
    return Buffer(
        pointer=table["pointer"],
        limit=table["limit"],
        component=_component(table["component"]),
        header=_component(header["component"]),
        zeroing=_component(table["zeroing"]),
        first=int(header["first"]),
        class_at=int(header["class_at"]),
        length_at=int(header["length_at"]),
        elements_at=int(header["elements_at"]),
        zero=_texts(table["zero"]),
    )


def _allocation(table: Mapping[str, Any]) -> Allocation:
    _only(table, "register direction first pointer_tags component word header constant calls")
    header = table["header"]
    _only(header, "size_shift zero one info_tables component")
    if table.get("direction", "down") not in ("down", "up"):
        raise ValueError(f"allocation: the direction {table['direction']!r} is not up or down")
    return Allocation(
        register=table["register"],
        goes_up=table.get("direction") == "up",
        first=int(table.get("first", 0)),
        pointer_tags=int(table.get("pointer_tags", 0)),
        component=_component(table["component"]),
        word=int(table["word"]),
        header=_header(header),
        constants=tuple(_constant(one) for one in table.get("constant", ())),
        calls={name: int(taken) for name, taken in table.get("calls", {}).items()},
    )  # fmt: skip


def _header(table: Mapping[str, Any]) -> Header:
    is_told = bool(table.get("info_tables", False))
    return Header(
        size_shift=0 if is_told else int(table["size_shift"]),
        zero=int(table.get("zero", 0)),
        one=int(table.get("one", 0)),
        info_tables=is_told,
        component=_component(table["component"]),
    )


def _constant(table: Mapping[str, Any]) -> Constant:
    _only(table, "tag mask equals least component")
    return Constant(
        int(table["tag"]),
        int(table["mask"]),
        int(table["equals"]),
        int(table.get("least", 0)),
        _component(table["component"]),
    )


def _pattern(table: Mapping[str, Any]) -> Pattern:
    _only(
        table,
        "code before most_before unless_next_use slow_path with_room allocated gap",
    )
    lines = tuple(read_line(text) for text in _texts(table["code"]))
    if not lines or not any(line.mark for line in lines):
        raise ValueError("a pattern charges no instruction to a component")
    slow_path = tuple(read_line(text) for text in _texts(table.get("slow_path", [])))
    if slow_path and lines[-1].mark is None:
        raise ValueError("slow_path: the jump to it is charged to no component")
    before = tuple(read_line(text) for text in _listed(table.get("before", [])))
    next_use = table.get("unless_next_use")
    if next_use is not None and not any("%a" in text for text in table["code"]):
        raise ValueError("unless_next_use is about %a, which the pattern does not name")
    return Pattern(
        lines,
        before,
        int(table.get("most_before", 0)),
        read_line(next_use) if next_use is not None else None,
        slow_path,
        frozenset(_texts(table.get("with_room", ["ja", "jae"]))),
        table.get("allocated"),
        int(table.get("gap", 0)),
    )
