"""Folders of logs that running-ng writes: ``running runbms``, for programs under JVMs and others.

A file has all invocations of one program in one heap under one configuration, and is called
PROGRAM.HEAP.MEGABYTES.CONFIGURATION.SUITE.log, HEAP in thousandths of the minimum heap, 0 for none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tare.importing.dacapo_latency import tail_latencies
from tare.importing.runs import Imported, ImportedRun, Text, named
from tare.records.metrics import Status

TITLE = "running-ng (a folder of its logs)"
_NAME = re.compile(
    r"(?P<program>.+?)\.(?P<heap>\d{1,7})\.(?P<megabytes>\d{1,9})\.(?P<configuration>.+)"
    r"\.(?P<suite>[^.]+)\.log(\.gz)?"
)
_MOST_FILES, _MOST_INVOCATIONS, _MOST_STATISTICS = 100_000, 10_000, 1000
_START = re.compile(r"mkdir.*timedrun")
_VERSION = re.compile(r"running-ng (v\S{1,40})")
_PASSED = re.compile(r"PASSED in (\d{1,12}) msec")
_LACK_OF_MEMORY = re.compile(
    r"OutOfMemoryError|Allocation Failed|ran out of memory|panicked at 'Out of memory!'"
)
_STATISTICS = "MMTk Statistics Totals ="
_STOPPED = ("time.stw", "time.gc")
_COLLECTIONS = "GC"


def recognises_runs(path: Path) -> bool:
    """Whether ``path`` is a folder with such logs."""
    return path.is_dir() and any(_NAME.fullmatch(file.name) for file in path.iterdir())


@dataclass
class _Invocation:
    milliseconds: int | None = None
    lacks_memory: bool = False
    statistics: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, float] = field(default_factory=dict)

    def as_run(self, program: str, manager: str) -> ImportedRun:
        if self.milliseconds is None:
            status = Status.OUT_OF_MEMORY if self.lacks_memory else Status.FAILED
            reason = "out of memory" if self.lacks_memory else "its log does not say PASSED"
            return ImportedRun(program, manager, status, reason)
        values = {"iteration_seconds": self.milliseconds / 1e3, **self.latencies}
        stopped = next((self.statistics[n] for n in _STOPPED if n in self.statistics), None)
        if stopped is not None:
            values["collector_seconds"] = stopped / 1e3
        if _COLLECTIONS in self.statistics:
            values["collections"] = self.statistics[_COLLECTIONS]
        details = {"statistics": self.statistics}
        return ImportedRun(program, manager, Status.OK, values=values, details=details)


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    """All invocations in a folder."""
    runs: list[ImportedRun] = []
    missing: list[str] = []
    version = ""
    files = sorted(file for file in path.iterdir() if _NAME.fullmatch(file.name))
    if len(files) > _MOST_FILES:
        missing.append(f"only the first {_MOST_FILES:,} of {len(files):,} logs were read")
    suites = {_parts(file.name)["suite"] for file in files}
    for number, file in enumerate(files[:_MOST_FILES]):
        if number and number % 200 == 0:
            note(f"{number} of {len(files)} logs read")
        parts = _parts(file.name)
        program = parts["program"] if len(suites) == 1 else f"{parts['suite']} {parts['program']}"
        heap = int(parts["heap"]) / 1000
        manager = parts["configuration"] + (f" (heap={heap:g}x)" if heap else "")
        log = _Log(Text(file))
        runs += [one.as_run(named(program), named(manager)) for one in log.invocations()]
        version = version or log.version
        if log.text.damage:
            missing.append(f"{file.name}: {log.text.damage}")
    return Imported(
        tool=f"running-ng {version}".strip(),
        runs=runs,
        missing=missing,
        notes=[
            "The time is that of the last iteration of each invocation, as the program printed it.",
            "The collector of a run is the one that its configuration names, not verified.",
        ],
    )


def _parts(name: str) -> dict[str, str]:
    match = _NAME.fullmatch(name)
    return match.groupdict() if match else {}


class _Log:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.version = ""

    def invocations(self) -> Iterator[_Invocation]:
        """One after the other; what the tool says of the machine is skipped."""
        now: _Invocation | None = None
        count = 0
        lines = self.text.lines()
        for line in lines:
            if _START.match(line):
                if now is not None:
                    yield now
                count += 1
                if count > _MOST_INVOCATIONS:
                    self.text.damage = f"more than {_MOST_INVOCATIONS:,} invocations"
                    return
                now = _Invocation()
            elif now is None:
                continue
            elif (found := _VERSION.match(line)) is not None:
                self.version = found[1]
            elif _STATISTICS in line:
                now.statistics = _statistics(next(lines, ""), next(lines, ""))
            elif (passed := _PASSED.search(line)) is not None:
                now.milliseconds = int(passed[1])
            elif _LACK_OF_MEMORY.search(line):
                now.lacks_memory = True
            else:
                now.latencies |= tail_latencies(line)
        if now is not None:
            yield now


def _statistics(names: str, values: str) -> dict[str, float]:
    """Two lines, of names and of values with tabs between them."""
    found: dict[str, float] = {}
    pairs = zip(names.split("\t"), values.split("\t"), strict=False)
    for name, value in list(pairs)[:_MOST_STATISTICS]:
        try:
            found[named(name.strip())] = float(value)
        except ValueError:
            continue
    return found
