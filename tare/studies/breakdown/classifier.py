"""Charges each instruction of a language's code to a component, by a runtime's descriptor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tare.records.components import OTHER
from tare.studies.breakdown.allocation import Allocations, Site, State
from tare.studies.breakdown.code import Instruction, runs
from tare.studies.breakdown.descriptor import BytesAt, Descriptor
from tare.studies.breakdown.patterns import Line, Mark, Names, Pattern
from tare.studies.breakdown.thread_buffer import BufferAllocations, known_takings

_Follower = Allocations | BufferAllocations


@dataclass
class Classification:
    """``marks``: by address and length, of the instructions that are storage management; all others
    are the program's own. ``sites``: the places that allocate."""

    marks: dict[tuple[int, int], Mark] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)


@dataclass(frozen=True)
class _SlowPath:
    """Where a check goes when something is to be done, and where it goes on."""

    address: int
    resumes: int
    mark: Mark
    lines: tuple[Line, ...]


class Classifier:
    """Of one runtime; ``names`` are the symbols at addresses, ``bytes_at`` reads the executable."""

    def __init__(
        self, descriptor: Descriptor, names: Names, bytes_at: BytesAt = lambda _at, _count: b""
    ) -> None:
        self._names = names
        self._bytes_at = bytes_at
        self._allocation = descriptor.allocation
        self._buffer = descriptor.buffer
        self._by_mnemonic: dict[str, list[Pattern]] = {}
        for pattern in descriptor.patterns:
            for mnemonic in pattern.lines[0].mnemonics:
                self._by_mnemonic.setdefault(mnemonic, []).append(pattern)

    def classify(self, instructions: Iterable[Instruction]) -> Classification:
        """Of code of the language; that which is not executed, or not known, may be missing."""
        known = list(instructions)
        result = Classification()
        slow_paths: list[_SlowPath] = []
        allocations = self._allocations(known, {})
        self._classify_runs(known, allocations, result, slow_paths)
        if allocations is not None and allocations.carried:
            result, slow_paths = Classification(), []
            allocations = self._allocations(known, allocations.carried)
            self._classify_runs(known, allocations, result, slow_paths)
        by_address = {one.address: one for one in known} if slow_paths else {}
        for slow_path in slow_paths:
            self._follow_slow_path(slow_path, by_address, result)
        result.marks = {key: m for key, m in result.marks.items() if m.component != OTHER}
        return result

    def _classify_runs(
        self,
        known: Sequence[Instruction],
        allocations: _Follower | None,
        result: Classification,
        slow_paths: list[_SlowPath],
    ) -> None:
        for run in runs(known):
            self._classify_run(run, allocations, result, slow_paths)
        if allocations is not None:
            allocations.end()
            result.marks.update(allocations.marks)
            result.sites = allocations.sites

    def _allocations(
        self, known: Sequence[Instruction], carried_before: Mapping[int, Sequence[State]]
    ) -> _Follower | None:
        ways_in = Counter(
            one.target for one in known if one.target is not None and one.mnemonic != "call"
        )
        if self._buffer is not None:
            return BufferAllocations(self._buffer, ways_in, known_takings(self._buffer, known))
        if self._allocation is None:
            return None
        words = self._allocation.header.reader(self._bytes_at)
        return Allocations(self._allocation, self._names, ways_in, words, carried_before)

    def _classify_run(
        self,
        run: Sequence[Instruction],
        allocations: _Follower | None,
        result: Classification,
        slow_paths: list[_SlowPath],
    ) -> None:
        marks: dict[int, Mark] = {}
        for place, one in enumerate(run):
            if allocations is not None:
                allocations.arrive(one.address)
                allocations.follow(one)
            if place not in marks:
                self._match(run, place, marks, allocations, slow_paths)
        for place, mark in marks.items():
            result.marks[run[place].address, run[place].length] = mark

    def _match(
        self,
        run: Sequence[Instruction],
        place: int,
        marks: dict[int, Mark],
        allocations: _Follower | None,
        slow_paths: list[_SlowPath],
    ) -> None:
        allocated = allocations is not None and allocations.is_unchecked
        for pattern in self._by_mnemonic.get(run[place].mnemonic, ()):
            found = pattern.match(run, place, self._names, allocated)
            if found is None:
                continue
            for at, mark in found:
                marks.setdefault(at, mark)
            if pattern.slow_path:
                slow_path = _slow_path_of(pattern, run[max(at for at, _ in found)])
                slow_paths += [slow_path] if slow_path is not None else []
                if slow_path is not None and pattern.allocated and allocations is not None:
                    allocations.note_check(slow_path.address, slow_path.resumes)
            return

    def _follow_slow_path(
        self, path: _SlowPath, by_address: Mapping[int, Instruction], result: Classification
    ) -> None:
        one = by_address.get(path.address)
        if one is not None and one.mnemonic == "jmp" and one.target is not None:
            result.marks[one.address, one.length] = path.mark
            one = by_address.get(one.target)
        for line in path.lines:
            while line.is_gap and one is not None and not one.ends:
                result.marks[one.address, one.length] = path.mark
                one = by_address.get(one.after)
            if one is None or not (line.is_gap or line.matches(one, {}, self._names)):
                return
            result.marks[one.address, one.length] = path.mark
            one = by_address.get(one.after)


def _slow_path_of(pattern: Pattern, jump: Instruction) -> _SlowPath | None:
    mark = pattern.lines[-1].mark
    if jump.target is None or mark is None:
        return None
    ways = jump.target, jump.after
    address, resumes = reversed(ways) if jump.mnemonic in pattern.with_room else ways
    return _SlowPath(address, resumes, mark, pattern.slow_path)
