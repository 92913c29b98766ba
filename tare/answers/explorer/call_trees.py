"""The call trees of a results folder, as the module ``call_trees`` of each study reads them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from tare.records.metrics import Status
from tare.records.results import Results, read_records, telling_damage
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Note
from tare.studies import modules


def call_trees(results: Results, note: Note) -> list[CallTree]:
    """All that the runs of a results folder recorded by call site or by kind of work."""
    readers = {
        getattr(module, "STUDY", name): module.call_trees for name, module in modules("call_trees")
    }
    if not set(results.measurements["study"].unique()) & readers.keys():
        return []
    found: list[CallTree] = []
    with telling_damage(results):
        for record in _firsts(read_records(results.folder), readers):
            found += readers[record.run.study](results, record, note)
    return [tree for tree in found if any(totals[0] > 0 for totals in tree.values)]


def _firsts(records: Iterable[Record], readers: Container[str]) -> Iterator[Record]:
    """The first good run of each program under each manager, of studies that have readers; their
    runs without an observer are for the figures alone."""
    seen = set()
    for record in records:
        run = record.run
        key = run.study, run.program, run.manager
        good = record.outcome.status is Status.OK and record.outcome.details
        watched = run.study in readers and run.observer != "runner"
        if watched and good and key not in seen:
            seen.add(key)
            yield record
