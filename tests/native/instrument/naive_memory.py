"""Memory systems simulated in the plainest way, to hold the instrument's simulator against.

Nothing here is shared with the simulator: caches are lists, most recently used last, and the write
buffer is looked at cycle by cycle.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tare.observers.memory_model import MemoryModel

Access = tuple[str, int, int]
"""``i``, ``r`` or ``w``, with an address and a size; ``o`` and ``p`` begin an operation and a
phase."""


def trace(seed: int, accesses: int, spread: int = 1 << 14) -> list[Access]:
    """Random accesses with some locality: runs of instructions, and data near hot addresses."""
    dice = random.Random(seed)
    found: list[Access] = []
    code = 0x400000
    hot = [dice.randrange(spread) + 0x10000000 for _ in range(8)]
    while len(found) < accesses:
        if dice.random() < 0.2:
            code = 0x400000 + dice.randrange(spread)
        size = dice.randrange(1, 16)
        found.append(("i", code, size))
        code += size
        for _ in range(dice.choice((0, 0, 1, 1, 2, 3))):
            place = dice.randrange(len(hot))
            if dice.random() < 0.1:
                hot[place] = 0x10000000 + dice.randrange(spread)
            address = max(0, hot[place] + dice.randrange(-100, 100))
            found.append(
                (dice.choice("rrw"), address, dice.choice((1, 2, 4, 8, 8, 8, 16, 32, 100)))
            )
    return found


def covered(address: int, size: int, unit: int) -> range:
    """The units of ``unit`` bytes that an access touches."""
    return range(address // unit, (address + size - 1) // unit + 1)


@dataclass
class Lru:
    """A set-associative cache of lines, by number."""

    sets: int
    ways: int
    rows: dict[int, list[int]] = field(default_factory=dict)

    def touch(self, line: int, insert: bool = True) -> tuple[bool, int | None]:
        """Whether it was there, and what had to leave."""
        row = self.rows.setdefault(line % self.sets, [])
        if line in row:
            row.remove(line)
            row.append(line)
            return True, None
        if not insert:
            return False, None
        row.append(line)
        return False, row.pop(0) if len(row) > self.ways else None

    def drop(self, line: int) -> None:
        row = self.rows.get(line % self.sets, [])
        if line in row:
            row.remove(line)


KIND = {"i": "fetch", "r": "read", "w": "write"}


class Hierarchy:
    """Levels of caches and TLBs; ``misses`` are by kind and level, ``untranslated`` by kind."""

    def __init__(self, model: MemoryModel) -> None:
        self.model = model
        self.caches = [Lru(c.sets, c.ways) for c in model.caches]
        self.pages = [Lru(t.sets, t.ways) for t in model.tlbs]
        self.misses = {kind: [0, 0, 0] for kind in KIND.values()}
        self.untranslated = dict.fromkeys(KIND.values(), 0)

    def run(self, accesses: Iterable[Access]) -> None:
        for kind, address, size in accesses:
            if kind in KIND:
                self._translate(KIND[kind], address, size)
                self._ask(KIND[kind], 1, kind == "w", address, address + size - 1)

    def _holds(self, kind: str) -> str:
        return "instructions" if kind == "fetch" else "data"

    def _translate(self, kind: str, address: int, size: int) -> None:
        for tlb, pages in zip(self.model.tlbs, self.pages, strict=True):
            if tlb.holds in (self._holds(kind), "both"):
                for page in covered(address, size, tlb.page):
                    self.untranslated[kind] += not pages.touch(page)[0]

    def _ask(self, kind: str, level: int, stores: bool, first: int, last: int) -> None:
        if level > self.model.levels:
            return
        cache = self.model.cache(level, self._holds(kind))
        lru = self.caches[self.model.caches.index(cache)]
        if self.model.straddling == "access":
            if kind != "fetch":
                last = min(last, first + cache.line - 1)
            lines = covered(first, last - first + 1, cache.line)
            missed = [line for line in lines if not lru.touch(line)[0]]
            if missed:
                self.misses[kind][level - 1] += 1
                self._ask(kind, level + 1, False, first, last)
            return
        for line in covered(first, last - first + 1, cache.line):
            start, end = line * cache.line, (line + 1) * cache.line - 1
            part = max(first, start), min(last, end)
            insert = not stores or cache.write_miss == "fetch"
            hit, out = lru.touch(line, insert)
            if out is not None and cache.inclusive:
                self._drop_above(level, out * cache.line, cache.line)
            if not hit:
                self.misses[kind][level - 1] += 1
                if insert:
                    self._ask(kind, level + 1, False, start, end)
                elif cache.write_hit == "back":
                    self._ask(kind, level + 1, True, *part)
            if stores and cache.write_hit == "through":
                self._ask(kind, level + 1, True, *part)

    def _drop_above(self, level: int, start: int, size: int) -> None:
        for cache, lru in zip(self.model.caches, self.caches, strict=True):
            if cache.level < level:
                for line in covered(start, size, cache.line):
                    lru.drop(line)


class Decstation:
    """Direct-mapped caches of single words over a write buffer, as tables 2 and 3 of Tarditi and
    Diwan have it. Time goes on in steps of one cycle."""

    def __init__(self) -> None:
        self.instructions: dict[int, int] = {}
        self.words: dict[int, int] = {}
        self.queue: deque[int] = deque()
        self.left = 0
        self.last_page = -1
        self.misses = {"fetch": 0, "read": 0, "write": 0}
        self.buffer_stalls = 0

    def _tick(self) -> None:
        """One cycle of the memory: it works on the oldest entry of the buffer."""
        if self.queue and self.left == 0:
            page = self.queue[0] // 4096
            self.left = 1 if page == self.last_page else 5
            self.last_page = page
        if self.queue:
            self.left -= 1
            if self.left == 0:
                self.queue.popleft()

    def _wait(self, cycles: int) -> None:
        for _ in range(cycles):
            self._tick()

    def run(self, accesses: Iterable[Access]) -> None:
        begun = False
        for kind, address, size in accesses:
            if kind == "i":
                if begun:
                    self._tick()  # the instruction before has taken its cycle
                begun = True
                self._fetch(address, size)
            elif kind == "r":
                self._read(address, size)
            elif kind == "w":
                self._write(address, size)

    def _fetch(self, address: int, size: int) -> None:
        for block in covered(address, size, 16):
            if self.instructions.get(block % 4096) != block:
                self.instructions[block % 4096] = block
                self.misses["fetch"] += 1
                self._wait(15)

    def _read(self, address: int, size: int) -> None:
        needed = set(covered(address, size, 4))
        for unit in covered(address, size, 16):
            words = range(4 * unit, 4 * unit + 4)
            if all(self.words.get(w % 16384) == w for w in words if w in needed):
                continue
            self.words.update({w % 16384: w for w in words})
            self.misses["read"] += 1
            self._wait(15)

    def _write(self, address: int, size: int) -> None:
        for word in covered(address, size, 4):
            if self.words.get(word % 16384) != word:
                self.words[word % 16384] = word
                self.misses["write"] += 1
        for word in covered(address, size, 4):
            while len(self.queue) == 6:
                self._tick()
                self.buffer_stalls += 1
            self.queue.append(4 * word)


def distances(lines: Iterable[int]) -> Iterator[int | None]:
    """How many other lines were used since each was used last; None at a first use."""
    stack: list[int] = []
    for line in lines:
        if line in stack:
            yield len(stack) - 1 - stack.index(line)
            stack.remove(line)
        else:
            yield None
        stack.append(line)
