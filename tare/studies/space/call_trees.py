"""The call trees of the explorer: who owns the memory, and who keeps free cells resident."""

from __future__ import annotations

from tare.heap_traces import frames
from tare.records.results import Results
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Frames, Note, Weight, grown
from tare.studies.space import ownership
from tare.studies.space.details import Details, KeepingSite


def _path_of(site: KeepingSite) -> Frames:
    return tuple(frames.frame_text(frame) for frame in reversed(site.frames)) or ("[unknown]",)


def call_trees(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    found, run = record.outcome.details_as(Details), record.run
    title = "Free cells kept resident, by the call sites that keep most"
    stacks = ((_path_of(site), [site.kept]) for site in found.sites)
    weight = Weight("bytes of free cells kept resident", "B")
    kept = grown(run.program, run.manager, title, [weight], stacks)
    owned = ownership.call_tree(run.program, run.manager, found)
    return [kept] if owned is None else [owned, kept]
