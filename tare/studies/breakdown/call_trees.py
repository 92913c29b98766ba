"""The call trees of the explorer: instructions by component."""

from __future__ import annotations

from tare.records.components import COMPONENTS, metric
from tare.records.results import Results
from tare.records.runs import Record
from tare.report.call_trees import CallTree, Note, Weight, grown


def call_trees(_results: Results, record: Record, _note: Note) -> list[CallTree]:
    run, values = record.run, record.outcome.values
    stacks = [
        ((component.title,), [float(values.get(metric(name), 0.0))])  # older results have fewer
        for name, component in COMPONENTS.items()
    ]
    weight = Weight("instructions", "")
    return [grown(run.program, run.manager, "Instructions by component", [weight], stacks)]
