"""The call trees of the explorer: what a dump of a heap holds, by call site."""

from __future__ import annotations

from tare.records.results import Results
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Note
from tare.studies.imported import dumps
from tare.studies.imported.report import STUDY as STUDY


def call_trees(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    dump, run = dumps.dump_of(record), record.run
    names = ("live_bytes", "external", "bytes")
    if dump is None or not any(getattr(dump.totals, name) for name in names):
        return []
    return [dumps.call_tree(run.program, run.manager, dump)]
