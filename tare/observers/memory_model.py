"""Descriptions of memory systems: read from TOML, or from this machine, and checked.

The tables below say what each key means. The simulator in observers/instrument/memsys reads the
lines that ``simulator_lines`` writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from tare.base.documents import Hooks, converted, read_toml
from tare.base.errors import MissingError, UsageError
from tare.base.units import parse_size

HOST = "host"
MODELS = Path(__file__).parent / "models"
HOST_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
HOST_MISS_CYCLES = (14, 40, 200)
"""What a miss of each level but the last adds, and what one of the last does: the system describes
sizes and no times, so these are assumed."""
Holds = Literal["instructions", "data", "both"]
_FILE_LIMIT = 1 << 16
_MOST_LEVELS = 3
_MOST_PARTS = 2 * _MOST_LEVELS
_MOST_LINES = 1 << 26
_MOST_CYCLES = 1_000_000
_MOST_ENTRIES = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")


@dataclass(frozen=True)
class Cache:
    """Sizes are bytes. ``write_miss_cycles`` is 0 where writes wait in a buffer. ``read_fetch`` is
    what a read miss brings in, ``line`` unless there is a write buffer."""

    level: int
    holds: str
    sets: int
    ways: int
    line: int
    read_fetch: int
    miss_cycles: int
    write_miss_cycles: int
    write_miss: str
    write_hit: str
    inclusive: bool

    @property
    def size(self) -> int:
        return self.sets * self.ways * self.line


@dataclass(frozen=True)
class Tlb:
    """A translation lookaside buffer; ``page`` is bytes."""

    holds: str
    sets: int
    ways: int
    page: int
    miss_cycles: int


@dataclass(frozen=True)
class WriteBuffer:
    """``width`` and ``page`` are bytes; the cycles are those in which memory takes an entry."""

    entries: int
    width: int
    page: int
    same_page_cycles: int
    other_page_cycles: int


@dataclass(frozen=True)
class MemoryModel:
    """A memory system; see docs/memsys.md."""

    name: str
    title: str
    caches: tuple[Cache, ...]
    tlbs: tuple[Tlb, ...] = ()
    write_buffer: WriteBuffer | None = None
    straddling: str = "lines"
    cycles_per_instruction: float = 1.0

    @property
    def levels(self) -> int:
        return max(cache.level for cache in self.caches)

    def cache(self, level: int, holds: str) -> Cache:
        """The cache of a level that holds ``instructions`` or ``data``."""
        return next(c for c in self.caches if c.level == level and c.holds in (holds, "both"))

    def translation_cycles(self, holds: str) -> int:
        """What a TLB miss of ``instructions`` or ``data`` costs; 0 where there is no TLB."""
        return next((t.miss_cycles for t in self.tlbs if t.holds in (holds, "both")), 0)


def shipped_models() -> tuple[str, ...]:
    """Names of the models that come with Tare; ``host`` is not among them."""
    return tuple(sorted(path.stem for path in MODELS.glob("*.toml")))


def load_model(name: str) -> MemoryModel:
    """A model by its name, or from the file of a path with a slash."""
    if name == HOST:
        return host_model()
    if "/" in name:
        return read_model(Path(name))
    if name in shipped_models():
        return read_model(MODELS / f"{name}.toml")
    raise UsageError(
        f"there is no memory model '{name}'",
        f"known: {', '.join((HOST, *shipped_models()))}; or give the path of a file, with a slash",
    )


class Size(int):
    """Bytes, in a file as a text with a unit."""


class Power(Size):
    """A size that is a power of two."""


def _size(value: object) -> Size:
    if not isinstance(value, str):
        raise ValueError("is not a size such as '64KiB'")
    try:
        size = parse_size(value)
    except UsageError as error:
        raise ValueError(str(error)) from None
    if not 1 <= size <= 1 << 40:
        raise ValueError("is not a size from 1B to 1024GiB")
    return Size(size)


def _power(value: object) -> Power:
    size = _size(value)
    if size & (size - 1) or not 4 <= size <= 1 << 30:
        raise ValueError("is not a power of two from 4B to 1GiB")
    return Power(size)


_HOOKS: Hooks = {Size: _size, Power: _power}
Cycles = Annotated[
    int,
    Meta(ge=0, le=_MOST_CYCLES, description=f"a whole number from 0 to {_MOST_CYCLES:,}"),
]
Count = Annotated[int, Meta(ge=1, le=1 << 20, description=f"a whole number from 1 to {1 << 20:,}")]


class CacheTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[[cache]]``."""

    level: Annotated[
        int, Meta(ge=1, le=_MOST_LEVELS, description=f"a whole number from 1 to {_MOST_LEVELS}")
    ]
    """How far it is from the processor. Only level 1 may be split."""
    size: Size
    """The bytes that it holds: a multiple of ``ways`` times ``line``."""
    ways: Count
    """Lines of a set. In level 1 the number of sets is a power of two."""
    miss_cycles: Cycles
    """Added to each fetch or read that misses."""
    holds: Holds = "both"
    """What goes through it."""
    line: Power = Power(64)
    """Bytes of a line."""
    read_fetch: Power | None = None
    """Bytes that a read miss brings in, by default a line. Needs a write buffer."""
    write_miss_cycles: Cycles = 0
    """Added to each write that misses."""
    write_miss: Literal["fetch", "around", "no-fetch"] = "fetch"
    """What a write that misses does: fetch the line, go around this level, or take the line without
    fetching it, which needs a write buffer."""
    write_hit: Literal["back", "through"] = "back"
    """Whether a write goes to the level below later, or at once."""
    inclusive: bool = False
    """Whether lines that leave it leave the levels above, too."""

    def __post_init__(self) -> None:
        if self.size % (self.ways * self.line):
            raise ValueError("size: is not a multiple of ways times line")
        if self.size // self.line > _MOST_LINES:
            raise ValueError(f"size: is more than {_MOST_LINES:,} lines")

    def cache(self) -> Cache:
        facts = structs.asdict(self)
        sets = facts.pop("size") // (self.ways * self.line)
        return Cache(**facts | {"sets": sets, "read_fetch": self.read_fetch or self.line})


class TlbTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[[tlb]]``: one for both, one for each, or one for data alone."""

    entries: Count
    """Pages that it knows: a multiple of ``ways``."""
    ways: Count
    """Entries of a set."""
    miss_cycles: Cycles
    """Added to each access whose page it does not know."""
    page: Power = Power(4096)
    """Bytes of a page, 512 at least."""
    holds: Holds = "both"
    """Whose addresses it translates."""

    def __post_init__(self) -> None:
        if self.entries % self.ways:
            raise ValueError("entries: is not a multiple of ways")
        if self.page < 512:
            raise ValueError("page: is less than 512B")

    def tlb(self) -> Tlb:
        return Tlb(self.holds, self.entries // self.ways, self.ways, self.page, self.miss_cycles)


class WriteBufferTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table ``[write_buffer]``, below one split level that writes through, without a TLB."""

    entries: Annotated[
        int,
        Meta(ge=1, le=_MOST_ENTRIES, description=f"a whole number from 1 to {_MOST_ENTRIES}"),
    ]
    """Writes that wait in it at most."""
    same_page_cycles: Cycles
    """In which memory takes an entry in the page of the one before."""
    other_page_cycles: Cycles
    """In which it takes one of another page."""
    width: Power = Power(4)
    """Bytes of an entry, 64 at most."""
    page: Power = Power(4096)
    """Bytes of a page of memory."""

    def __post_init__(self) -> None:
        if self.width > _MOST_ENTRIES:
            raise ValueError("width: is more than 64B")


class ModelTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file. Its name is the model's."""

    title: Annotated[
        str, Meta(min_length=1, max_length=100, description="a text of 1 to 100 characters")
    ] = ""
    """Shown in reports; by default the name."""
    straddling: Literal["lines", "access"] = "lines"
    """What an access to two lines is: an access to each, or one that misses once at most."""
    cycles_per_instruction: Annotated[
        float, Meta(ge=0, le=100, description="a number from 0 to 100")
    ] = 1.0
    """What instructions take without stalls."""
    cache: Annotated[tuple[CacheTable, ...], Meta(max_length=_MOST_PARTS)] = ()
    """One to three levels."""
    tlb: Annotated[tuple[TlbTable, ...], Meta(max_length=_MOST_PARTS)] = ()
    """What translates addresses."""
    write_buffer: Annotated[
        tuple[WriteBufferTable, ...], Meta(max_length=1, description="one table")
    ] = ()
    """Where writes wait for memory."""


_PARTS = ("cache", "tlb", "write_buffer")


def read_model(path: Path) -> MemoryModel:
    """The model that a TOML file describes, checked. Raises UsageError."""
    if not _NAME.fullmatch(path.stem):
        raise UsageError(f"{path}: a model's file has a name of letters, digits, '.', '_' and '-'")
    with _telling(path):
        table = read_toml(path, dict[str, Any], most_bytes=_FILE_LIMIT)
    return model_from_table(path.stem, table, str(path))


def model_from_table(name: str, table: Mapping[str, Any], where: str) -> MemoryModel:
    """The model of a table as TOML gives it. ``where`` is for messages."""
    # A single part can be written as [cache] as well as [[cache]].
    lists = {key: [part] for key in _PARTS if isinstance(part := table.get(key), dict)}
    with _telling(where):
        return _model(name, converted({**table, **lists}, ModelTable, _HOOKS))


@contextmanager
def _telling(where: object) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{where}: {error}", f"examples are the models in {MODELS}") from None


def _model(name: str, table: ModelTable) -> MemoryModel:
    buffers = [WriteBuffer(**structs.asdict(part)) for part in table.write_buffer]
    model = MemoryModel(
        name,
        table.title or name,
        tuple(part.cache() for part in table.cache),
        tuple(part.tlb() for part in table.tlb),
        buffers[0] if buffers else None,
        table.straddling,
        table.cycles_per_instruction,
    )
    _check(model)
    return model


def _check(model: MemoryModel) -> None:
    """What no part can know by itself."""

    whole = (["both"], ["data", "instructions"])
    if sorted(c.holds for c in model.caches if c.level == 1) not in whole:
        raise ValueError(
            "level 1 is neither one cache for both nor one for instructions and one for data"
        )
    if sorted(t.holds for t in model.tlbs) not in (*whole, ["data"], []):
        raise ValueError("there is neither one TLB for both nor one for each, nor one for data")
    for level in range(2, model.levels + 1):
        if [c.holds for c in model.caches if c.level == level] != ["both"]:
            raise ValueError(f"level {level} is not one cache for both")
    for cache in model.caches:
        if cache.level == 1 and cache.sets & (cache.sets - 1):
            raise ValueError(f"level 1 has {cache.sets} sets, which is not a power of two")
        if cache.line > 1 << 16:
            raise ValueError("a line is longer than 64KiB")
    data = model.cache(1, "data")
    if model.write_buffer is None:
        if any(c.write_miss == "no-fetch" or c.read_fetch != c.line for c in model.caches):
            raise ValueError("'no-fetch' and read_fetch need a write buffer")
    elif model.levels > 1 or model.tlbs or data.holds == "both":
        raise ValueError("a write buffer needs one split level and no TLB")
    elif data.write_miss != "no-fetch" or data.write_hit != "through":
        raise ValueError("a write buffer needs write_miss 'no-fetch' and write_hit 'through'")
    elif data.read_fetch < data.line:
        raise ValueError("read_fetch is less than a line")
    if model.straddling == "access" and any(
        c.write_miss != "fetch" or c.write_hit != "back" or c.inclusive for c in model.caches
    ):
        raise ValueError("straddling 'access' needs caches that are neither inclusive nor around")


def host_model(folder: Path = HOST_CACHES) -> MemoryModel:
    """The caches of this machine's first core, as the kernel describes them in ``folder``.
    MissingError where it does not."""
    try:
        found = [
            {
                name: (index / name).read_text().strip()
                for name in (
                    "level",
                    "type",
                    "ways_of_associativity",
                    "coherency_line_size",
                    "size",
                )
            }
            for index in sorted(folder.glob("index*"))
        ]
    except OSError:
        found = []
    if not found:
        raise MissingError(
            f"the kernel does not describe this machine's caches in {folder}",
            f"name a model: --model {shipped_models()[-1]}",
        )
    last = max(int(cache["level"]) for cache in found)
    holds = {"Instruction": "instructions", "Data": "data", "Unified": "both"}
    caches = []
    for cache in found:
        level, line = int(cache["level"]), int(cache["coherency_line_size"])
        size = parse_size(cache["size"].replace("K", "KiB").replace("M", "MiB"))
        # A kernel that does not know the ways, or a fully associative cache, says 0.
        ways = int(cache["ways_of_associativity"]) or size // line
        place = -1 if level == last else min(level, len(HOST_MISS_CYCLES)) - 1
        part = {
            "level": level,
            "holds": holds.get(cache["type"], "both"),
            "size": f"{size}B",
            "ways": ways,
            "line": f"{line}B",
            "miss_cycles": HOST_MISS_CYCLES[place],
        }
        if level <= _MOST_LEVELS:
            caches.append(part)
    return model_from_table(HOST, {"title": "this machine", "cache": caches}, str(folder))


def simulator_lines(model: MemoryModel) -> Iterator[str]:
    """The model in the form that the simulator reads."""
    yield f"model {model.name}"
    if model.straddling == "access":
        yield "whole"
    for cache in model.caches:
        writes = "around" if cache.write_miss == "around" else "fetch"
        includes = "inclusive" if cache.inclusive else "free"
        yield (
            f"cache {cache.level} {cache.holds} {cache.sets} {cache.ways} {cache.line} {writes} "
            f"{cache.write_hit} {includes}"
        )
    for tlb in model.tlbs:
        yield f"tlb {tlb.holds} {tlb.sets} {tlb.ways} {tlb.page}"
    if (buffer := model.write_buffer) is not None:
        data = model.cache(1, "data")
        yield (
            f"buffer {buffer.entries} {buffer.width} {buffer.page} {buffer.same_page_cycles} "
            f"{buffer.other_page_cycles} {data.read_fetch} "
            f"{model.cache(1, 'instructions').miss_cycles} {data.miss_cycles}"
        )
