"""One run under the instrument, the tool on Valgrind's core in observers/instrument.

The run goes through the same launcher as any other, and must give the same proof: what is preloaded
is preloaded inside Valgrind too. The tool leaves a file per process, documented in
observers/instrument/reports/counts_file.h; here they are added up.
"""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tare.base.errors import MissingError, TareError
from tare.base.native import native_file
from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.observers.event_files import (
    COLLECTION,
    Events,
    as_text,
    collector_events,
    in_manager,
    merged_events,
    merged_phases,
)
from tare.observers.protocol import Observe, Observer
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

LAUNCHER = "valgrind/tare-valgrind"
PROCESSORS = ("x86_64", "aarch64")
TOOL_FOR_32_BITS = "valgrind/tareinst-x86-linux"
REGIONS_OBJECT = "lib/libtare-instrument-regions.so"
FORMAT, FORMAT_VERSION = "tare-count", 1
FAMILIES = {
    "malloc": ("malloc", "calloc", "aligned", "new"),
    "free": ("free", "delete"),
    "realloc": ("realloc",),
    "other": ("other",),
}
"""Operations, as the tool names them, by the metrics that they go into."""
_FILE_LIMIT = 1 << 24
_MOST_FILES = 100_000
_SUMMED = ("objects", "allocated_bytes", "max_live_objects", "max_live_bytes")
_OPERATION_SUMS = ("calls", "instructions", "bytes", "no_object", "left")

Operation = Mapping[str, Any]


def launcher(bits: int = 64) -> Path:
    """The program that starts the tool. MissingError where Tare was built without it, or without
    what programs of so many ``bits`` need, or the processor is one that it does not know."""
    machine = platform.machine()
    if machine not in PROCESSORS:
        raise MissingError(
            f"the instrument, by which instructions are counted, is not made for {machine} yet",
            f"a machine with {' or '.join(PROCESSORS)}; what needs no counts works here",
        )
    if bits == 32:
        _check_tool_for_32_bits()
    try:
        return native_file(LAUNCHER)
    except MissingError:
        raise MissingError(
            "the instrument is not built: that takes Valgrind's source, from deb.debian.org, or "
            "the package valgrind, in a tested version (3.19.0, 3.22.0, 3.24.0, 3.25.1, 3.26.0)",
            "with a network, or after apt-get install valgrind: pip install . (or: make build)",
        ) from None


def _check_tool_for_32_bits() -> None:
    try:
        native_file(TOOL_FOR_32_BITS)
    except MissingError:
        raise MissingError(
            "the instrument for 32-bit programs is not built: it needs the Debian package "
            "lib32gcc-N-dev, N being the version of gcc",
            "apt-get install lib32gcc-$(gcc -dumpversion)-dev, then pip install . (or: make build)",
        ) from None


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
    events: Events = (),
) -> Outcome:
    """Run ``program`` under ``manager`` and count its instructions; see ``runner.run_once``.

    ``details`` of the outcome: ``wall_seconds`` (of this run, under Valgrind), ``operations`` (see
    docs/instrument.md, histograms included), ``events`` (how often each was reached), ``phases``
    (see docs/events.md), ``collector`` (where the manager's recipe names one: as a phase),
    ``proof_instructions`` (of the probe, not in any other figure), ``processes``, ``threads``,
    and ``uncounted_processes``, which left no file because they were killed.
    """
    observer = Instrument(events=(*events, *collector_events(manager)))
    return runner.run_once(program, manager, limits, workspace, keep_output, observer)


def observer_of(events: Events) -> Observe:
    """``run_once`` that looks for ``events``, too."""
    return functools.partial(run_once, events=events)


def seeing_regions(manager: Manager) -> Manager:
    """``manager`` with the object by which region libraries tell the tool of their objects."""
    return replace(manager, preload=(*manager.preload, native_file(REGIONS_OBJECT)))


class Instrument(Observer):
    """The observer of one run, which leaves counts, of ``events`` as well; ``options`` ask the tool
    for more."""

    def __init__(self, *options: str, events: Events = ()) -> None:
        self._options = options
        self._events = events

    def prefix(self, folder: Path) -> Sequence[str]:
        counts = folder / "counts"
        counts.mkdir()
        options = list(self._options)
        if self._events:
            file = folder.resolve() / "events"
            file.write_text(as_text(self._events))
            options.append(f"--events={file}")
        return (
            str(launcher()),
            "--tool=tareinst",
            "--command-line-only=yes",  # no ~/.valgrindrc, no VALGRIND_OPTS
            "--quiet",
            "--vgdb=no",
            "--trace-children=yes",
            f"--log-file={_escaped(folder.resolve())}/valgrind.%p",
            f"--count-folder={counts.resolve()}",
            *options,
        )

    def hosts(self, executable: str) -> bool:
        return Path(executable).parent == launcher().resolve().parent

    def complete(self, folder: Path, pids: Collection[int], outcome: Outcome) -> Outcome:
        return add_up(read_counts(folder / "counts"), pids, outcome)


def _escaped(path: Path) -> str:
    """Valgrind reads ``%`` in the name of a log file."""
    return str(path).replace("%", "%%")


def read_counts(folder: Path) -> list[dict[str, Any]]:
    """The counts of all processes, in the order of their names."""
    return [count for _, count in read_process_files(folder, FORMAT, FORMAT_VERSION)]


def read_process_files(
    folder: Path, format_name: str, version: int, most_bytes: int = _FILE_LIMIT
) -> list[tuple[Path, dict[str, Any]]]:
    """What the tool left in ``folder``, a file per process, in the order of their names. TareError
    where one cannot be read, has more than ``most_bytes``, or is of another format."""
    paths = sorted(folder.glob("*.json"))
    if len(paths) > _MOST_FILES:
        raise TareError(f"{len(paths)} processes are more than {_MOST_FILES}")
    return [(path, read_process_file(path, format_name, version, most_bytes)) for path in paths]


def read_process_file(
    path: Path, format_name: str, version: int, most_bytes: int = _FILE_LIMIT
) -> dict[str, Any]:
    """One of them."""
    try:
        if path.stat().st_size > most_bytes:
            raise TareError(f"{path} is too large to be the instrument's")
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise TareError(f"{path} cannot be read: {error}") from None
    if found.get("format") != format_name or found.get("version") != version:
        raise TareError(f"{path} is from another version of the instrument", "build Tare again")
    return found


def add_up(counts: Sequence[Mapping[str, Any]], pids: Collection[int], outcome: Outcome) -> Outcome:
    """``outcome`` with the sums over all processes as its values."""
    if not counts:
        return replace(
            outcome, status=Status.FAILED, reason="the instrument wrote no counts", values={}
        )
    operations = merged(count["operations"] for count in counts)
    proof = operations.pop("proof", None)
    values = {"instructions": sum(count["instructions"] for count in counts)}
    events = merged_events(count["events"] for count in counts)
    phases = merged_phases(count["phases"] for count in counts)
    collector = phases.pop(COLLECTION, None)
    collections = events.pop(COLLECTION, 0)
    sums = {family: _family(operations, names) for family, names in FAMILIES.items()}
    values["manager_instructions"] = sum(instructions for _, instructions in sums.values())
    for family, (calls, instructions) in sums.items():
        if family != "other":
            values[f"{family}_calls"] = calls
            values[f"{family}_instructions"] = instructions
    values |= {name: sum(count[name] for count in counts) for name in _SUMMED}
    if collector is not None:
        values |= {"collections": collections, "collector_instructions": in_manager(collector)}
    seen = {count["pid"] for count in counts}
    # A process whose last file was written before an exec did not live to write the next one.
    ended = {count["pid"] for count in counts if count["end"] == "exit"}
    values["processes"] = len(seen)
    details = {
        "wall_seconds": outcome.values["wall_seconds"],
        "operations": operations,
        "events": events,
        "phases": phases,
        **({} if collector is None else {"collector": collector}),
        "proof_instructions": proof["instructions"] if proof else 0,
        "processes": len(seen),
        "programs": len(counts),
        "threads": sum(count["threads"] for count in counts),
        "unknown_frees": sum(count["unknown_frees"] for count in counts),
        "uncounted_processes": len({*pids, *seen} - ended),
    }
    return replace(outcome, values=values, details=details, memory_is_sampled=False)


def _family(operations: Mapping[str, Operation], names: Iterable[str]) -> tuple[int, int]:
    there = [operations[name] for name in names if name in operations]
    return sum(o["calls"] for o in there), sum(o["instructions"] for o in there)


def merged(several: Iterable[Mapping[str, Operation]]) -> dict[str, dict[str, Any]]:
    """Operations of several processes as of one."""
    result: dict[str, dict[str, Any]] = {}
    for operations in several:
        for name, one in operations.items():
            if (sum_ := result.get(name)) is None:
                result[name] = dict(one)
                continue
            for key in _OPERATION_SUMS:
                sum_[key] += one[key]
            sum_["fewest"] = min(sum_["fewest"], one["fewest"])
            sum_["most"] = max(sum_["most"], one["most"])
            bins = dict(map(tuple, sum_["histogram"]))
            for low, calls in one["histogram"]:
                bins[low] = bins.get(low, 0) + calls
            sum_["histogram"] = [list(item) for item in sorted(bins.items())]
    return result
