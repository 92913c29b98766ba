"""Call trees of what runs recorded, small enough for a page to hold many of them.

A new kind is a function from a record to trees, and a row of ``_READERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tare.base.text import shortened, visible
from tare.heap_traces import frames
from tare.observers.call_sites import Cost, costs_of
from tare.records.components import COMPONENTS, metric
from tare.records.metrics import Status
from tare.records.results import Results, read_records, telling_damage
from tare.records.runs import Record
from tare.studies.breakdown import report as breakdown
from tare.studies.count import report as count
from tare.studies.drag import report as drag
from tare.studies.memsys import report as memsys
from tare.studies.space import report as space

if TYPE_CHECKING:
    from tare.heap_traces.trace import Trace

MOST_STACKS = 20_000
DEEPEST = 256
"""Frames of a stack, from the outermost on."""
LONGEST_FRAME = 160
LEAST_SHARE = 0.0005
"""A node below this share of all in every weight is too thin to be seen."""

Note = Callable[[str], None]
Details = Mapping[str, Any]
Frames = tuple[str, ...]
"""From the outermost to the innermost."""


@dataclass(frozen=True)
class Weight:
    title: str
    unit: str


@dataclass(frozen=True)
class CallTree:
    """Node 0 is the root, and parents come before their children. ``values`` has for each weight a
    total for each node, with those of its children."""

    program: str
    manager: str
    title: str
    weights: Sequence[Weight]
    frames: Sequence[str]
    parents: Sequence[int]
    names: Sequence[int]
    values: Sequence[Sequence[float]]

    def largest(self, most: int) -> CallTree:
        """The tree with at most ``most`` nodes, and none that is too thin to be seen."""
        whole = [totals[0] or 1.0 for totals in self.values]
        shares = [
            max(totals[node] / of for totals, of in zip(self.values, whole, strict=True))
            for node in range(len(self.parents))
        ]
        # A parent is never smaller than its children, so what is kept stays a tree.
        ranked = sorted(range(1, len(shares)), key=lambda node: (-shares[node], node))
        kept = [0, *sorted(node for node in ranked[: most - 1] if shares[node] >= LEAST_SHARE)]
        places = {node: place for place, node in enumerate(kept)}
        used = {name: place for place, name in enumerate(dict.fromkeys(map(self._name, kept)))}
        return CallTree(
            self.program,
            self.manager,
            self.title,
            self.weights,
            [self.frames[name] for name in used],
            [places.get(self.parents[node], -1) for node in kept],
            [used[self.names[node]] for node in kept],
            [[totals[node] for node in kept] for totals in self.values],
        )

    def _name(self, node: int) -> int:
        return self.names[node]


def grown(
    program: str,
    manager: str,
    title: str,
    weights: Sequence[Weight],
    stacks: Iterable[tuple[Frames, Sequence[float]]],
) -> CallTree:
    """The tree of ``stacks``, each with a value for each weight."""
    frames = {program: 0}
    parents, names = [-1], [0]
    totals: list[list[float]] = [[0.0] for _ in weights]
    children: dict[tuple[int, int], int] = {}

    def add(node: int, values: Sequence[float]) -> None:
        for total, value in zip(totals, values, strict=True):
            total[node] += value

    for path, values in stacks:
        node = 0
        add(node, values)
        for frame in path[:DEEPEST]:
            name = frames.setdefault(shortened(visible(frame), LONGEST_FRAME), len(frames))
            child = children.setdefault((node, name), len(parents))
            if child == len(parents):
                parents.append(node)
                names.append(name)
                for total in totals:
                    total.append(0.0)
            node = child
            add(node, values)
    return CallTree(program, manager, title, weights, list(frames), parents, names, totals)


def call_trees(results: Results, note: Note) -> list[CallTree]:
    """All that the runs of a results folder recorded by call site or by kind of work."""
    if not set(results.measurements["study"].unique()) & _READERS.keys():
        return []
    found: list[CallTree] = []
    with telling_damage(results):
        for record in _firsts(read_records(results.folder)):
            found += _READERS[record.run.study](results, record, note)
    return [tree for tree in found if any(totals[0] > 0 for totals in tree.values)]


def _firsts(records: Iterable[Record]) -> Iterator[Record]:
    """The first good run of each program under each manager, of studies that have readers; their
    runs without an observer are for the figures alone."""
    seen = set()
    for record in records:
        run = record.run
        key = run.study, run.program, run.manager
        good = record.outcome.status is Status.OK and record.outcome.details
        watched = run.study in _READERS and run.observer != "runner"
        if watched and good and key not in seen:
            seen.add(key)
            yield record


# ---- what each study recorded ----

_CALL_WEIGHTS = (
    Weight("instructions in the memory manager", ""),
    Weight("calls of the memory manager", ""),
    Weight("bytes asked for", "B"),
)
_OTHER_SITES = "other call sites"
_PROGRAM, _MANAGER = "the program itself", "the memory manager"
_DRAG_TITLE = "Heap by call site"
_DRAG_WEIGHTS = (
    Weight("bytes held in vain, the mean over the run", "B"),
    Weight("bytes allocated", "B"),
    Weight("objects allocated", ""),
)
_IN_VAIN = ("lag", "drag_freed", "drag_unfreed", "void")


def _of_drag(results: Results, record: Record, note: Note) -> list[CallTree]:
    from tare.heap_traces.residence import reading
    from tare.heap_traces.trace import open_trace

    found, run = record.outcome.details, record.run
    path = results.folder / str(found.get("trace") or ".")
    if not path.is_dir() or path == results.folder:
        title = f"{_DRAG_TITLE}, of those that hold most in vain"
        stacks: Iterable[tuple[Frames, Sequence[float]]] = map(_wasting_site, found["sites"])
        return [grown(run.program, run.manager, title, _DRAG_WEIGHTS, stacks)]
    note(f"reading the call sites of {run.program} under {run.manager}")
    trace = open_trace(path)
    with reading(trace):
        stacks = list(_stacks_of(trace))
    return [grown(run.program, run.manager, _DRAG_TITLE, _DRAG_WEIGHTS, stacks)]


def _stacks_of(trace: Trace) -> Iterator[tuple[Frames, Sequence[float]]]:
    from tare.answers.exports.traces import stacks_of

    for stack in stacks_of(trace, "vain", most=MOST_STACKS):
        path = tuple(frame.text for frame in reversed(stack.frames))
        yield path, [stack.sums[name] for name in ("mean_vain", "bytes", "objects")]


def _wasting_site(site: Details) -> tuple[Frames, Sequence[float]]:
    vain = sum(site[part] for part in _IN_VAIN) / max(site["end"], 1.0)
    return _path_of(site), (vain, site["bytes"], site["objects"])


def _path_of(site: Details) -> Frames:
    return tuple(frames.frame_text(frame) for frame in reversed(site["frames"])) or ("[unknown]",)


def _of_space(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    sites, run = record.outcome.details["sites"], record.run
    title = "Free cells kept resident, by the call sites that keep most"
    stacks = ((_path_of(site), [site["kept"]]) for site in sites)
    weight = Weight("bytes of free cells kept resident", "B")
    return [grown(run.program, run.manager, title, [weight], stacks)]


def _of_count(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    run, operations = record.run, record.outcome.details["operations"]
    inside = {name: float(found["instructions"]) for name, found in operations.items()}
    own = record.outcome.values["instructions"] - sum(inside.values())
    stacks: list[tuple[Frames, Sequence[float]]] = [((_PROGRAM,), [own])]
    stacks += [((_MANAGER, name), [instructions]) for name, instructions in inside.items()]
    weight = Weight("instructions", "")
    whole = grown(run.program, run.manager, "Instructions by operation", [weight], stacks)
    return [*_call_costs(record), whole]


def _call_costs(record: Record) -> list[CallTree]:
    run, details = record.run, record.outcome.details
    if "call_sites" not in details:
        return []
    stacks = (
        (_path_to(cost), [cost.instructions, cost.calls, cost.bytes]) for cost in costs_of(details)
    )
    title = "Memory manager by call site"
    return [grown(run.program, run.manager, title, _CALL_WEIGHTS, stacks)]


def _path_to(cost: Cost) -> Frames:
    """Its last frame says for whom, so that what is heaviest is a list of call sites."""
    callers = tuple(map(frames.frame_text, cost.frames))
    if cost.is_rest:
        return (*callers, f"{cost.operation} for {_OTHER_SITES}")
    if not callers:
        return (f"{cost.operation} for [unknown]",)
    (innermost, *_) = frames.program_frames(cost.frames[::-1])
    return (*callers, f"{cost.operation} for {frames.frame_text(innermost)}")


def _of_memsys(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    run, model = record.run, record.outcome.details["models"][0]
    counted = ("instructions", "stall_cycles")
    left = {
        name: [float(found[key]) for key in counted] for name, found in model["operations"].items()
    }
    stacks: list[tuple[Frames, Sequence[float]]] = []
    for site in model["sites"]:
        caller = site["function"] or f"{site['object'].rpartition('/')[2]}+{site['offset']:#x}"
        values = [float(site[key]) for key in counted]
        stacks.append(((_MANAGER, site["operation"], caller), values))
        rest = left[site["operation"]]
        left[site["operation"]] = [max(0.0, a - b) for a, b in zip(rest, values, strict=True)]
    stacks += [
        ((_PROGRAM,) if name == "program" else (_MANAGER, name), values)
        for name, values in left.items()
    ]
    title = f"Instructions and stalls by caller, simulated in {model['name']}"
    weights = [Weight("instructions", ""), Weight("stall cycles", "")]
    return [grown(run.program, run.manager, title, weights, stacks)]


def _of_breakdown(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    run, values = record.run, record.outcome.values
    stacks = [
        ((component.title,), [float(values.get(metric(name), 0.0))])  # older results have fewer
        for name, component in COMPONENTS.items()
    ]
    weight = Weight("instructions", "")
    return [grown(run.program, run.manager, "Instructions by component", [weight], stacks)]


_READERS: Mapping[str, Callable[[Results, Record, Note], list[CallTree]]] = {
    breakdown.STUDY: _of_breakdown,
    count.STUDY: _of_count,
    drag.STUDY: _of_drag,
    memsys.STUDY: _of_memsys,
    space.STUDY: _of_space,
}
