"""The memory of another process, read by way of /proc: the process does not stop for it."""

from __future__ import annotations

import bisect
import fcntl
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tare.base.libraries import NDArray, np

PAGE = os.sysconf("SC_PAGE_SIZE")
_SMAPS_BYTES = 256 << 20
_ROW = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([-rwxsp]{4}) [0-9a-f]+ [0-9a-f:]+ \d+(?: +(.*))?"
)
_AMOUNT = re.compile(r"(Rss|Swap): +(\d{1,15}) kB")
_TOTAL = re.compile(r"^Rss: +(\d{1,15}) kB", re.MULTILINE)
_VAST = 64 << 30
"""To read the pages of a larger mapping takes too long."""
CONTROL_BLOCK = 2304
"""Bytes from the thread pointer on that glibc keeps at the end of a stack, about."""
_ALIGNED = 64
_MOST_STACK = 64 << 20
"""How far above a thread's stack pointer its control block is looked for."""
_ENTRY = 8
_ENTRIES = 1 << 20
_PRESENT, _EXCLUSIVE, _OF_FILE = 63, 56, 61
"""Bits of an entry; Documentation/admin-guide/mm/pagemap.rst of the kernel."""

_PAGEMAP_SCAN = 0xC0606610
_SCAN = struct.Struct("<12Q")
_ROWS = 4096
_PRESENT_PAGE, _SWAPPED, _ZERO, _GUARD = 1 << 3, 1 << 4, 1 << 5, 1 << 8
"""Of include/uapi/linux/fs.h."""


@dataclass(frozen=True)
class Area:
    """A mapping, with its resident and swapped bytes; ``name`` as in /proc/PID/maps."""

    start: int
    end: int
    access: str
    name: str
    resident: int
    swapped: int

    @property
    def is_nameless(self) -> bool:
        return not self.name or self.name.startswith("[anon")

    @property
    def is_own(self) -> bool:
        """Whether the process may write to it, for itself."""
        return self.access[1] == "w" and self.access[3] == "p"


class ProcessMemory:
    """A context manager. Raises OSError where the kernel does not permit it. ``stacks`` are those
    of threads that wait in the kernel, as pairs (start, end)."""

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc", str(pid))

    def __enter__(self) -> ProcessMemory:
        self._file = os.open(self._folder / "mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.areas = self._areas()
            self.resident = self._resident()
            self.runs = self._runs()
            self.stacks = self._stacks()
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def read(self, start: int, end: int) -> bytearray:
        """Its bytes; zeros where no page is resident, for to read one there would make it so."""
        content = bytearray(end - start)
        view = memoryview(content)
        place = int(np.searchsorted(self.runs[:, 1], start, side="right"))
        for first, last in self.runs[place:].tolist():
            if first >= end:
                break
            low, high = max(first, start), min(last, end)
            try:
                os.preadv(self._file, [view[low - start : high - start]], low)
            except OSError:
                continue  # unmapped meanwhile
        return content

    def _stacks(self) -> list[tuple[int, int]]:
        starts = [area.start for area in self.areas]
        guards: dict[int, NDArray[np.int64]] = {}
        found = []
        with (self._folder / "pagemap").open("rb", buffering=0) as pagemap:
            for thread in sorted((self._folder / "task").iterdir()):
                try:
                    words = (thread / "syscall").read_text().split()
                except OSError:
                    continue
                pointer = int(words[-2], 16) if len(words) > 2 else 0
                place = bisect.bisect_right(starts, pointer) - 1
                if place < 0 or pointer >= self.areas[place].end:
                    continue
                area = self.areas[place]
                if area.is_nameless:
                    if place not in guards:
                        of_area = _scanned(pagemap.fileno(), area, _GUARD, 0) or ()
                        guards[place] = np.concatenate([np.zeros((0, 2), np.int64), *of_area])
                    found.append(self._stack_within(area, pointer, guards[place]))
                else:
                    found.append((area.start, area.end))
        return found

    def _stack_within(self, area: Area, pointer: int, guards: NDArray[np.int64]) -> tuple[int, int]:
        """Since glibc 2.42 no mapping without access ends a stack, but a guard page inside its own,
        which can be one with others. Behind the stack is its thread's control block, whose first
        and third words are its address, on amd64."""
        place = int(np.searchsorted(guards[:, 0], pointer))
        start = int(guards[place - 1, 1]) if place else area.start
        end = int(guards[place, 0]) if place < len(guards) else area.end
        for first, last in self.runs[np.searchsorted(self.runs[:, 1], pointer, side="right") :]:
            low = max(int(first), pointer & -PAGE)
            high = min(int(last), end, pointer + _MOST_STACK & -PAGE)
            if low >= high:
                break
            words = np.frombuffer(self.read(low, high), np.uint64)
            places = np.arange(low, high, 8, dtype=np.uint64)
            is_block = (words == places)[:-2] & (words[2:] == places[:-2])
            for block in places[:-2][is_block & (places[:-2] % np.uint64(_ALIGNED) == 0)].tolist():
                return start, min(-(-(block + CONTROL_BLOCK) // PAGE) * PAGE, end)
        return start, end

    def _areas(self) -> list[Area]:
        with (self._folder / "smaps").open("rb") as file:
            text = os.fsdecode(file.read(_SMAPS_BYTES))
        found: list[Area] = []
        row: re.Match[str] | None = None
        sizes = {"Rss": 0, "Swap": 0}
        for line in [*text.splitlines(), "0-0 ---p 0 0 0"]:
            if amount := _AMOUNT.match(line):
                sizes[amount[1]] = int(amount[2]) << 10
            elif match := _ROW.fullmatch(line):
                if row is not None:
                    place = int(row[1], 16), int(row[2], 16)
                    found.append(Area(*place, row[3], row[4] or "", sizes["Rss"], sizes["Swap"]))
                row, sizes = match, {"Rss": 0, "Swap": 0}
        return found

    def _resident(self) -> int:
        match = _TOTAL.search((self._folder / "smaps_rollup").read_text(errors="replace"))
        return int(match[1]) << 10 if match else 0

    def _runs(self) -> NDArray[np.int64]:
        """The resident pages of what the process alone writes to, a row (start, end) for a run."""
        found = [np.zeros((0, 2), np.int64)]
        with (self._folder / "pagemap").open("rb", buffering=0) as file:
            for area in self.areas:
                if area.resident and area.is_own:
                    scanned = _scanned(file.fileno(), area, _PRESENT_PAGE, _ZERO | _SWAPPED)
                    if scanned is None and area.end - area.start <= _VAST:
                        scanned = _runs_of(file.fileno(), area)
                    found += scanned or []
        return np.concatenate(found)


def _scanned(file: int, area: Area, all_of: int, none_of: int) -> list[NDArray[np.int64]] | None:
    """Its pages of that kind. None for kernels that cannot tell: before 6.7, and of guard pages
    before 6.16."""
    rows = np.zeros((_ROWS, 3), np.int64)
    found, at = [], area.start
    while at < area.end:
        words = (_SCAN.size, 0, at, area.end, 0, rows.ctypes.data, _ROWS, 0)
        asked = all_of | none_of
        argument = bytearray(_SCAN.pack(*words, none_of, asked, 0, asked))
        try:
            count = fcntl.ioctl(file, _PAGEMAP_SCAN, argument)
        except OSError:
            return None
        found.append(rows[:count, :2].copy())
        at = _SCAN.unpack(argument)[4]
    return found


def _runs_of(file: int, area: Area) -> list[NDArray[np.int64]]:
    entries = bytearray()
    at, end = area.start // PAGE, area.end // PAGE
    while at < end:
        piece = os.pread(file, _ENTRY * min(end - at, _ENTRIES), _ENTRY * at)
        if not piece:
            break
        entries += piece
        at += len(piece) // _ENTRY
    words = np.frombuffer(entries, np.uint64, len(entries) // _ENTRY)
    there = (words >> np.uint64(_PRESENT)) & np.uint64(1) == 1
    # Not the kernel's page of zeros, which no process is charged with. Pages that a fork shares
    # look like it, so the sum decides.
    bits = (words >> np.uint64(_EXCLUSIVE)) | (words >> np.uint64(_OF_FILE))
    own = there & (bits & np.uint64(1) == 1)
    there = min(own, there, key=lambda pages: abs(np.count_nonzero(pages) * PAGE - area.resident))
    edges = np.flatnonzero(np.diff(there, prepend=False, append=False))
    return [area.start + PAGE * edges.reshape(-1, 2).astype(np.int64)]
