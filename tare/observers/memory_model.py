"""Descriptions of memory systems: read from TOML, or from this machine, and checked.

docs/memsys.md says what each key means. The simulator in observers/instrument/memsys reads the
lines that ``simulator_lines`` writes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.base.errors import MissingError, UsageError
from tare.base.units import parse_size

HOST = "host"
MODELS = Path(__file__).parent / "models"
HOST_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
HOST_MISS_CYCLES = (14, 40, 200)
"""What a miss of each level but the last adds, and what one of the last does: the system describes
sizes and no times, so these are assumed."""
HOLDS = ("instructions", "data", "both")
_FILE_LIMIT = 1 << 16
_MOST_LEVELS = 3
_MOST_LINES = 1 << 26
_MOST_CYCLES = 1_000_000
_MOST_ENTRIES = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")
_WRITE_MISSES = ("fetch", "around", "no-fetch")
_WRITE_HITS = ("back", "through")


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


def read_model(path: Path) -> MemoryModel:
    """The model that a TOML file describes, checked. Raises UsageError."""
    try:
        if path.stat().st_size > _FILE_LIMIT:
            raise UsageError(f"{path} is too large to describe a memory system")
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not _NAME.fullmatch(path.stem):
        raise UsageError(f"{path}: a model's file has a name of letters, digits, '.', '_' and '-'")
    return model_from_table(path.stem, table, str(path))


def model_from_table(name: str, table: Mapping[str, Any], where: str) -> MemoryModel:
    """The model of a table as TOML gives it. ``where`` is for messages."""
    reader = _Reader(where, table)
    title = reader.text("title", name)
    straddling = reader.choice("straddling", ("lines", "access"))
    base = reader.take("cycles_per_instruction", 1.0)
    if isinstance(base, bool) or not isinstance(base, int | float) or not 0 <= base <= 100:
        raise reader.wrong("cycles_per_instruction", "is not a number from 0 to 100")
    caches = tuple(_cache(part) for part in reader.parts("cache"))
    tlbs = tuple(_tlb(part) for part in reader.parts("tlb"))
    buffers = [_write_buffer(part) for part in reader.parts("write_buffer")]
    reader.finish()
    model = MemoryModel(
        name, title, caches, tlbs, buffers[0] if buffers else None, straddling, float(base)
    )
    _check(model, where)
    return model


class _Reader:
    """Takes keys out of a table, and complains about those that are left."""

    def __init__(self, where: str, table: Mapping[str, Any]) -> None:
        self._where = where
        self._left = dict(table)

    def wrong(self, key: str, what: str) -> UsageError:
        return UsageError(f"{self._where}: {key} {what}", "docs/memsys.md describes the keys")

    def take(self, key: str, default: Any = None) -> Any:
        if key not in self._left and default is None:
            raise self.wrong(key, "is missing")
        return self._left.pop(key, default)

    def text(self, key: str, default: str) -> str:
        value = self.take(key, default)
        if not isinstance(value, str) or not 0 < len(value) <= 100:
            raise self.wrong(key, "is not a short text")
        return value

    def choice(self, key: str, known: tuple[str, ...], default: str | None = None) -> str:
        value = self.take(key, default or known[0])
        if value not in known:
            raise self.wrong(key, f"is none of {', '.join(known)}")
        return str(value)

    def whole(self, key: str, least: int, most: int, default: int | None = None) -> int:
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(key, f"is not a whole number from {least:,} to {most:,}")
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """Bytes, written as a text with a unit."""
        value = self.take(key, default)
        if isinstance(value, str):
            value = parse_size(value)
        elif value != default:
            raise self.wrong(key, "is not a size such as '64KiB'")
        if not 1 <= value <= 1 << 40:
            raise self.wrong(key, "is not a size from 1B to 1024GiB")
        return int(value)

    def power(self, key: str, default: int | None = None) -> int:
        value = self.size(key, default)
        if value & (value - 1) or not 4 <= value <= 1 << 30:
            raise self.wrong(key, "is not a power of two from 4B to 1GiB")
        return value

    def yes(self, key: str) -> bool:
        value = self.take(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, "is neither true nor false")
        return value

    def parts(self, key: str) -> Iterator[_Reader]:
        value = self._left.pop(key, [])
        found = [value] if isinstance(value, dict) else value
        if not isinstance(found, list) or not all(isinstance(part, dict) for part in found):
            raise self.wrong(key, "is not a table")
        if len(found) > 2 * _MOST_LEVELS:
            raise self.wrong(key, "is there too often")
        for number, part in enumerate(found, 1):
            reader = _Reader(f"{self._where}: {key} {number}", part)
            yield reader
            reader.finish()

    def finish(self) -> None:
        if self._left:
            raise self.wrong(next(iter(self._left)), "is not known")


def _cache(reader: _Reader) -> Cache:
    line = reader.power("line", 64)
    size, ways = reader.size("size"), reader.whole("ways", 1, 1 << 20)
    if size % (ways * line):
        raise reader.wrong("size", "is not a multiple of ways times line")
    if size // line > _MOST_LINES:
        raise reader.wrong("size", f"is more than {_MOST_LINES:,} lines")
    return Cache(
        level=reader.whole("level", 1, _MOST_LEVELS),
        holds=reader.choice("holds", HOLDS, "both"),
        sets=size // (ways * line),
        ways=ways,
        line=line,
        read_fetch=reader.power("read_fetch", line),
        miss_cycles=reader.whole("miss_cycles", 0, _MOST_CYCLES),
        write_miss_cycles=reader.whole("write_miss_cycles", 0, _MOST_CYCLES, 0),
        write_miss=reader.choice("write_miss", _WRITE_MISSES),
        write_hit=reader.choice("write_hit", _WRITE_HITS),
        inclusive=reader.yes("inclusive"),
    )


def _tlb(reader: _Reader) -> Tlb:
    entries, ways = reader.whole("entries", 1, 1 << 20), reader.whole("ways", 1, 1 << 20)
    if entries % ways:
        raise reader.wrong("entries", "is not a multiple of ways")
    page = reader.power("page", 4096)
    if page < 512:
        raise reader.wrong("page", "is less than 512B")
    holds = reader.choice("holds", HOLDS, "both")
    cycles = reader.whole("miss_cycles", 0, _MOST_CYCLES)
    return Tlb(holds, entries // ways, ways, page, cycles)


def _write_buffer(reader: _Reader) -> WriteBuffer:
    width, page = reader.power("width", 4), reader.power("page", 4096)
    if width > _MOST_ENTRIES:
        raise reader.wrong("width", "is more than 64B")
    return WriteBuffer(
        reader.whole("entries", 1, _MOST_ENTRIES),
        width,
        page,
        reader.whole("same_page_cycles", 0, _MOST_CYCLES),
        reader.whole("other_page_cycles", 0, _MOST_CYCLES),
    )


def _check(model: MemoryModel, where: str) -> None:
    """What no part can know by itself."""

    def wrong(what: str) -> UsageError:
        return UsageError(f"{where}: {what}", "docs/memsys.md describes memory systems")

    whole = (["both"], ["data", "instructions"])
    if sorted(c.holds for c in model.caches if c.level == 1) not in whole:
        raise wrong(
            "level 1 is neither one cache for both nor one for instructions and one for data"
        )
    if sorted(t.holds for t in model.tlbs) not in (*whole, ["data"], []):
        raise wrong("there is neither one TLB for both nor one for each, nor one for data")
    for level in range(2, model.levels + 1):
        if [c.holds for c in model.caches if c.level == level] != ["both"]:
            raise wrong(f"level {level} is not one cache for both")
    for cache in model.caches:
        if cache.level == 1 and cache.sets & (cache.sets - 1):
            raise wrong(f"level 1 has {cache.sets} sets, which is not a power of two")
        if cache.line > 1 << 16:
            raise wrong("a line is longer than 64KiB")
    data = model.cache(1, "data")
    if model.write_buffer is None:
        if any(c.write_miss == "no-fetch" or c.read_fetch != c.line for c in model.caches):
            raise wrong("'no-fetch' and read_fetch need a write buffer")
    elif model.levels > 1 or model.tlbs or data.holds == "both":
        raise wrong("a write buffer needs one split level and no TLB")
    elif data.write_miss != "no-fetch" or data.write_hit != "through":
        raise wrong("a write buffer needs write_miss 'no-fetch' and write_hit 'through'")
    elif data.read_fetch < data.line:
        raise wrong("read_fetch is less than a line")
    if model.straddling == "access" and any(
        c.write_miss != "fetch" or c.write_hit != "back" or c.inclusive for c in model.caches
    ):
        raise wrong("straddling 'access' needs caches that are neither inclusive nor around")


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
