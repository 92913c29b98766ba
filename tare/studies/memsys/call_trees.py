"""The call trees of the explorer: instructions and stall cycles, by caller."""

from __future__ import annotations

from collections.abc import Sequence

from tare.heap_traces.frames import frame_text
from tare.records.results import Results
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Frames, Note, Weight, grown

_PROGRAM, _MANAGER = "the program itself", "the memory manager"


def call_trees(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    run, model = record.run, record.outcome.details["models"][0]
    counted = ("instructions", "stall_cycles")
    left = {
        name: [float(found[key]) for key in counted] for name, found in model["operations"].items()
    }
    stacks: list[tuple[Frames, Sequence[float]]] = []
    for site in model["sites"]:
        caller = frame_text({"file": "", "line": 0, **site}, with_place=False)
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
