"""What watches a replay of `tare tradeoff`."""

from __future__ import annotations

from dataclasses import replace

from tare.observers.protocol import Observed
from tare.records.metrics import Status
from tare.records.runs import Outcome
from tare.studies.tradeoff import report as study
from tare.studykit import replayer


def run_once(*observed: *Observed) -> Outcome:
    """As ``tare.studykit.replayer.run_once``, with the time of the whole replay."""
    outcome = replayer.run_once(*observed)
    if outcome.status is not Status.OK:
        return outcome
    values = outcome.values
    whole = values["mutator_seconds"] + values.get("collector_seconds", 0.0)
    return replace(outcome, values={**values, study.TIME: whole})
