"""The call trees of the explorer: instructions of the manager, by operation and by call site."""

from __future__ import annotations

from collections.abc import Sequence

from tare.heap_traces import frames
from tare.observers.call_sites import Cost
from tare.records.results import Results
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Frames, Note, Weight, grown
from tare.studies.count.details import Details
from tare.studies.count.sites import costs, has_sites

_CALL_WEIGHTS = (
    Weight("instructions in the memory manager", ""),
    Weight("calls of the memory manager", ""),
    Weight("bytes asked for", "B"),
)
_OTHER_SITES = "other call sites"
_PROGRAM, _MANAGER = "the program itself", "the memory manager"


def call_trees(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    run, operations = record.run, record.outcome.details_as(Details).operations
    inside = {name: float(found.instructions) for name, found in operations.items()}
    own = record.outcome.values["instructions"] - sum(inside.values())
    stacks: list[tuple[Frames, Sequence[float]]] = [((_PROGRAM,), [own])]
    stacks += [((_MANAGER, name), [instructions]) for name, instructions in inside.items()]
    weight = Weight("instructions", "")
    whole = grown(run.program, run.manager, "Instructions by operation", [weight], stacks)
    return [*_call_costs(record), whole]


def _call_costs(record: Record) -> list[CallTree]:
    if not has_sites(record):
        return []
    stacks = (
        (_path_to(cost), [cost.instructions, cost.calls, cost.bytes])
        for cost in costs(record.outcome)
    )
    title = "Memory manager by call site"
    return [grown(record.run.program, record.run.manager, title, _CALL_WEIGHTS, stacks)]


def _path_to(cost: Cost) -> Frames:
    """Its last frame says for whom, so that what is heaviest is a list of call sites."""
    callers = tuple(map(frames.frame_text, cost.frames))
    if cost.is_rest:
        return (*callers, f"{cost.operation} for {_OTHER_SITES}")
    if not callers:
        return (f"{cost.operation} for [unknown]",)
    (innermost, *_) = frames.program_frames(cost.frames[::-1])
    return (*callers, f"{cost.operation} for {frames.frame_text(innermost)}")
