"""One run under the instrument's memory-system simulator, and what it found.

The tool leaves a file per process, documented in observers/instrument/reports/memsys_file.h; here
they are added up, and misses become cycles by the penalties of the models.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tare.base.documents import converted
from tare.base.errors import TareError, UsageError
from tare.heap_traces.frames import own_frames
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import unfold
from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.observers.event_files import Events as Places
from tare.observers.instrument import Instrument, read_process_file, read_process_files
from tare.observers.memory_details import KINDS, PROGRAM, Simulated
from tare.observers.memory_model import HOST, MemoryModel, load_model, simulator_lines
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

FORMAT, FORMAT_VERSION = "tare-memsys", 1
PROOF = "proof"
CURVE_LINE = 64
CURVES = (("data", CURVE_LINE), ("instructions", CURVE_LINE))
WAYS = (1, 2, 4, 8, 16)
"""Of the set-associative curves."""
_MOST_MODELS = 8
_SITES = 20
_PLACE: Mapping[str, Any] = {"function": "", "object": "", "file": "", "line": 0, "offset": 0}
_LEVELS = 3
_COUNTS = len(KINDS) * (_LEVELS + 1) + 1
_FILE_LIMIT = 1 << 28
_SMALLEST_CURVE_BYTES = 1024
_STEPS = 4
"""Points of a curve for each doubling of the size."""


@dataclass(frozen=True)
class How:
    """What to simulate. With ``phases`` only what happens in these counts."""

    models: tuple[MemoryModel, ...]
    curves: bool = False
    phases: Places = ()


@dataclass
class Events:
    """What happened to somebody's accesses. ``counts`` has, for each model, misses by kind and
    level, misses of the TLB by kind, and cycles of waiting for the write buffer."""

    calls: int = 0
    instructions: int = 0
    reads: int = 0
    writes: int = 0
    counts: list[list[int]] = field(default_factory=list)

    def add(self, raw: Mapping[str, Any]) -> None:
        self.calls += raw.get("calls", 0)
        self.instructions += raw["instructions"]
        self.reads += raw["reads"]
        self.writes += raw["writes"]
        self.add_counts(raw["models"])

    def add_counts(self, counts: Sequence[Sequence[int]]) -> None:
        self.counts = self.counts or [[0] * _COUNTS for _ in counts]
        self.counts = [
            [a + b for a, b in zip(mine, more, strict=True)]
            for mine, more in zip(self.counts, counts, strict=True)
        ]


def how(names: Sequence[str], curves: bool) -> How:
    """What to simulate, by the names of models; none means this machine's."""
    models = tuple(load_model(name) for name in names or (HOST,))
    if len(models) > _MOST_MODELS:
        raise UsageError(f"{len(models)} models: one run simulates at most {_MOST_MODELS}")
    twice = {m.name for m in models if sum(n.name == m.name for n in models) > 1}
    if twice:
        raise UsageError(f"two models have the name {twice.pop()}", "rename a file")
    return How(models, curves)


def describe(what: How) -> list[dict[str, Any]]:
    """The models, for run.json."""
    return [asdict(model) for model in what.models]


def observer(what: How) -> Observe:
    """What the executor starts for a run."""
    return functools.partial(run_once, what=what)


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
    what: How | None = None,
) -> Outcome:
    """Run ``program`` under ``manager`` and simulate its memory system; see ``runner.run_once``.

    ``values`` of a good outcome are those of the first model. ``details`` has ``wall_seconds`` of
    this run, ``processes``, ``models`` (see ``model_details``) and ``curves`` (see
    ``curve_details``).
    """
    simulator = _Simulator(what or how((), False))
    return runner.run_once(program, manager, limits, workspace, keep_output, simulator)


class _Simulator(Instrument):
    def __init__(self, what: How) -> None:
        super().__init__(events=what.phases)
        self._what = what
        self._phases = {event.name for event in what.phases}

    def prefix(self, folder: Path) -> Sequence[str]:
        found = folder / "memsys"
        found.mkdir()
        description = folder / "models"
        description.write_text(simulator_text(self._what))
        return (
            *super().prefix(folder),
            f"--memsys={description.resolve()}",
            f"--memsys-folder={found.resolve()}",
        )

    def complete(self, folder: Path, pids: Collection[int], outcome: Outcome) -> Outcome:
        counted = super().complete(folder, pids, outcome)
        if counted.status is not Status.OK:
            return counted
        files = read_files(folder / "memsys", self._what)
        return add_up(files, self._what, counted, self._phases)


def simulator_text(what: How) -> str:
    """What the tool's option --memsys reads."""
    lines = [line for model in what.models for line in simulator_lines(model)]
    if what.curves:
        lines += [f"curve {of} {line}" for of, line in CURVES]
    return "\n".join(lines) + "\n"


def read_files(folder: Path, what: How) -> list[dict[str, Any]]:
    """The files of all processes, in the order of their names; TareError where one is not right."""
    files = read_process_files(folder, FORMAT, FORMAT_VERSION, _FILE_LIMIT)
    return [_checked(path, found, what) for path, found in files]


def read_file(path: Path, what: How) -> dict[str, Any]:
    """The file of one process; TareError where it is not right."""
    return _checked(path, read_process_file(path, FORMAT, FORMAT_VERSION, _FILE_LIMIT), what)


def _checked(path: Path, found: dict[str, Any], what: How) -> dict[str, Any]:
    if found.get("models") != [model.name for model in what.models]:
        raise TareError(f"{path} does not have the requested models", "build Tare again")
    return found


def add_up(
    files: Sequence[Mapping[str, Any]],
    what: How,
    counted: Outcome,
    phases: Collection[str] = (),
) -> Outcome:
    """``counted``, the outcome of a count, with what the simulation found in all processes: in
    these ``phases``, or in all where none is named."""
    if not files:
        reason = "the instrument wrote no simulation"
        return replace(counted, status=Status.FAILED, reason=reason, values={}, details={})
    contexts = [
        context
        for file in files
        for context in file["contexts"]
        if context["operation"] != PROOF and (not phases or context["phase"] in phases)
    ]
    contexts = _with_own_callers(contexts)
    details = {
        "wall_seconds": counted.details["wall_seconds"],
        "processes": counted.details["processes"],
        "threads": counted.details["threads"],
        "uncounted_processes": counted.details["uncounted_processes"],
        "models": [
            model_details(model, number, contexts, files)
            for number, model in enumerate(what.models)
        ],
        "curves": curve_details(files),
    }
    kept = ("processes",) if phases else ("instructions", "manager_instructions", "processes")
    values = {name: counted.values[name] for name in kept}
    return replace(
        counted,
        values=values | values_of(converted(details["models"][0], Simulated)),
        details=details,
    )


def _with_own_callers(contexts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Where a function is inlined, the caller is the innermost that is the program's own."""
    found = list(contexts)
    callers = [
        Frame(**{name: caller.get(name, empty) for name, empty in _PLACE.items()})
        for context in found
        if (caller := context.get("caller")) is not None
    ]
    named = iter(unfold(callers))
    return [
        {**context, "caller": own_frames([vars(frame) for frame in next(named)])[0]}
        if context.get("caller") is not None
        else context
        for context in found
    ]


# ---- from counts to cycles ----


def misses(counts: Sequence[int], kind: str, level: int) -> int:
    """Of one kind of access, at a level from 1."""
    return counts[KINDS.index(kind) * _LEVELS + level - 1]


def translation_misses(counts: Sequence[int], kind: str) -> int:
    """Of one kind of access."""
    return counts[len(KINDS) * _LEVELS + KINDS.index(kind)]


def stalls(model: MemoryModel, counts: Sequence[int]) -> dict[str, int]:
    """Cycles of waiting, by what is waited for: the keys are what reports call it."""
    found: dict[str, int] = {}
    for level in range(1, model.levels + 1):
        fetched, data = model.cache(level, "instructions"), model.cache(level, "data")
        found[f"fetches, level {level}"] = fetched.miss_cycles * misses(counts, "fetch", level)
        found[f"reads, level {level}"] = data.miss_cycles * misses(counts, "read", level)
        if data.write_miss_cycles:
            missed = misses(counts, "write", level)
            found[f"writes, level {level}"] = data.write_miss_cycles * missed
    if model.tlbs:
        found["TLB"] = sum(
            translation_misses(counts, kind)
            * model.translation_cycles("instructions" if kind == "fetch" else "data")
            for kind in KINDS
        )
    if model.write_buffer is not None:
        found["write buffer"] = counts[-1]
    return found


def _summed(raw: Iterable[Mapping[str, Any]]) -> Events:
    events = Events()
    for one in raw:
        events.add(one)
    return events


def _events_details(model: MemoryModel, number: int, events: Events) -> dict[str, Any]:
    counts = events.counts[number] if events.counts else [0] * _COUNTS
    levels = range(1, model.levels + 1)
    waits = stalls(model, counts)
    return {
        "calls": events.calls,
        "instructions": events.instructions,
        "reads": events.reads,
        "writes": events.writes,
        "misses": {kind: [misses(counts, kind, level) for level in levels] for kind in KINDS},
        "translation_misses": sum(translation_misses(counts, kind) for kind in KINDS),
        "stalls": waits,
        "stall_cycles": sum(waits.values()),
        "cycles": events.instructions * model.cycles_per_instruction + sum(waits.values()),
    }


def model_details(
    model: MemoryModel,
    number: int,
    contexts: Sequence[Mapping[str, Any]],
    files: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What happened in one model.

    ``operations`` are by name, ``program`` among them; ``phases`` by name, '' being outside of all,
    where there are any; ``sites`` are the calls of the manager with the most cycles; ``before`` and
    ``after`` are the program's events around collections. Each has the keys of
    ``_events_details``.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    phases: dict[str, list[Mapping[str, Any]]] = {}
    sites: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for context in contexts:
        groups.setdefault(context["operation"], []).append(context)
        phases.setdefault(context["phase"], []).append(context)
        if (caller := context.get("caller")) is not None:
            place = (caller.get(name, empty) for name, empty in _PLACE.items())
            sites.setdefault((context["operation"], *place), []).append(context)
    by_site = [
        {
            "operation": operation,
            **dict(zip(_PLACE, place, strict=True)),
            **_events_details(model, number, _summed(found)),
        }
        for (operation, *place), found in sites.items()
    ]
    by_site.sort(key=lambda site: -site["cycles"])
    details = {
        "name": model.name,
        "title": model.title,
        "levels": model.levels,
        "operations": {
            name: _events_details(model, number, _summed(found)) for name, found in groups.items()
        },
        "sites": by_site[:_SITES],
        "all_sites": len(by_site),
        "collections": sum(file["collections"] for file in files),
    }
    if len(phases) > 1:
        details["phases"] = {
            phase: _events_details(model, number, _summed(found)) for phase, found in phases.items()
        }
    if details["collections"]:
        for name in ("before", "after"):
            around = _summed(file[f"{name}_collections"] for file in files)
            details[name] = _events_details(model, number, around)
    return details


def values_of(model: Simulated) -> dict[str, float]:
    """The metrics, from the details of a model."""
    everything, of_manager = model.whole(), model.whole(manager=True)
    return {
        "simulated_cycles": everything.cycles,
        "stall_cycles": everything.stall_cycles,
        "manager_stall_cycles": of_manager.stall_cycles,
        **{f"{kind}_misses": everything.misses[kind][0] for kind in KINDS},
        "memory_misses": everything.memory_misses,
        "manager_memory_misses": of_manager.memory_misses,
        "translation_misses": everything.translation_misses,
    }


# ---- curves ----


def curve_details(files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The misses of caches of all sizes, summed over processes, for data and for instructions.

    ``program`` and ``manager`` have ``accesses`` and ``misses``, a list of (bytes, misses) of fully
    associative caches; ``associative`` has such lists by the number of ways, of all accesses.
    """
    found = []
    for number, (of, line) in enumerate(CURVES):
        parts = [file["curves"][number] for file in files if len(file["curves"]) > number]
        owners = [owner for part in parts for owner in part["owners"].items() if owner[0] != PROOF]
        if not owners:
            continue
        largest = max((d for _, one in owners for d, _ in one["distances"]), default=0)
        sizes = _sizes(line, largest + 1)
        sides = {
            side: [one for name, one in owners if (name == PROGRAM) is (side == PROGRAM)]
            for side in (PROGRAM, "manager")
        }
        found.append(
            {
                "of": of,
                "line_bytes": line,
                **{side: _full_curve(many, sizes, line) for side, many in sides.items()},
                "associative": {
                    str(ways): _set_curve([one for _, one in owners], ways, line) for ways in WAYS
                },
            }
        )
    return found


def _sizes(line: int, most_lines: int) -> list[int]:
    """Sizes in bytes at which bins of distances begin, so that the misses are exact."""
    sizes = []
    lines = _SMALLEST_CURVE_BYTES // line
    while True:
        for step in range(_STEPS):
            sizes.append((lines + lines * step // _STEPS) * line)
            if sizes[-1] >= most_lines * line:
                return sizes
        lines *= 2


def _full_curve(
    owners: Sequence[Mapping[str, Any]], sizes: Sequence[int], line: int
) -> dict[str, Any]:
    first_uses = sum(one["first_uses"] for one in owners)
    bins: dict[int, int] = {}
    for one in owners:
        for start, number in one["distances"]:
            bins[start] = bins.get(start, 0) + number
    points = [
        [size, first_uses + sum(n for start, n in bins.items() if start >= size // line)]
        for size in sizes
    ]
    return {"accesses": sum(one["accesses"] for one in owners), "misses": points}


def _set_curve(owners: Sequence[Mapping[str, Any]], ways: int, line: int) -> list[list[int]]:
    accesses = sum(one["accesses"] for one in owners)
    places = [[sum(column) for column in zip(*rows, strict=True)]
              for rows in zip(*(one["places"] for one in owners), strict=True)]  # fmt: skip
    return [
        [line * ways << power, accesses - sum(hits[:ways])]
        for power, hits in enumerate(places)
        if line * ways << power >= _SMALLEST_CURVE_BYTES
    ]
