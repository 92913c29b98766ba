"""The call trees of the explorer: who allocated, and what was held for how long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tare.heap_traces import frames
from tare.heap_traces.residence import reading
from tare.heap_traces.trace import Trace, open_trace
from tare.records.results import Results
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Frames, Note, Weight, grown
from tare.studies.drag.details import Details, Site
from tare.studies.drag.stacks import stacks_of

MOST_STACKS = 20_000
_DRAG_TITLE = "Heap by call site"
_DRAG_WEIGHTS = (
    Weight("unused bytes, the mean over the run", "B"),
    Weight("bytes allocated", "B"),
    Weight("objects allocated", ""),
)


def call_trees(results: Results, record: Record, note: Note) -> list[CallTree]:
    found, run = record.outcome.details_as(Details), record.run
    path = results.folder / (found.trace or ".")
    if not path.is_dir() or path == results.folder:
        title = f"{_DRAG_TITLE}, of those with most unused memory"
        stacks: Iterable[tuple[Frames, Sequence[float]]] = map(_wasting_site, found.sites)
        return [grown(run.program, run.manager, title, _DRAG_WEIGHTS, stacks)]
    note(f"reading the call sites of {run.program} under {run.manager}")
    trace = open_trace(path)
    with reading(trace):
        stacks = list(_stacks_of(trace))
    return [grown(run.program, run.manager, _DRAG_TITLE, _DRAG_WEIGHTS, stacks)]


def _stacks_of(trace: Trace) -> Iterator[tuple[Frames, Sequence[float]]]:
    for stack in stacks_of(trace, "vain", most=MOST_STACKS):
        path = tuple(frame.text for frame in reversed(stack.frames))
        yield path, [stack.sums[name] for name in ("mean_vain", "bytes", "objects")]


def _wasting_site(site: Site) -> tuple[Frames, Sequence[float]]:
    path = tuple(frames.frame_text(frame) for frame in reversed(site.frames)) or ("[unknown]",)
    return path, (site.mean(site.wasted), site.bytes, site.objects)
