"""What a report says of the machine that did the runs."""

from __future__ import annotations

from tare.base.documents import converted
from tare.campaign import drift
from tare.records.header import Header
from tare.records.metrics import Status
from tare.records.results import CANARY
from tare.records.runs import Outcome, Record, Run
from tests.support.campaigns import described

DOCUMENT = described("compare", ["p"], ["glibc"])


def record(order: int, share: float | None, study: str = "compare") -> Record:
    details = {} if share is None else {"steal": {"seconds": share, "share": share}}
    run = Run(study, "p", "glibc", order, order)
    return Record(run, Outcome(Status.OK, values={"wall_seconds": 1.0}, details=details))


def test_runs_that_the_host_disturbed_are_counted() -> None:
    run = converted(DOCUMENT, Header)
    calm = [record(1, None), record(2, 0.0), record(3, 0.03)]
    assert not any("steal" in text for text in drift.warnings(run, calm))
    told = drift.warnings(run, [*calm, record(4, 0.04), record(5, 0.2), record(6, 0.9, CANARY)])
    (text,) = (text for text in told if "steal" in text)
    assert text.startswith("In 2 of 5 runs")
    assert "at most 20" in text


def test_facts_have_clocks_and_the_part_of_the_machine_where_there_are_any() -> None:
    machine = DOCUMENT["machine"]
    plain = drift.facts(converted(DOCUMENT, Header), machine)
    asked = {
        **DOCUMENT,
        "request": {"machine": {"cpus": "0-1", "hugepages": "never"}},
        "frequencies_mhz": {"start": [800, 3200], "end": [3200, 3200]},
    }
    told = drift.facts(converted(asked, Header), machine)
    assert set(told) - set(plain) == {
        ("part of the machine", "cpus=0-1, hugepages=never"),
        ("frequency at the start", "800 to 3200 MHz"),
        ("frequency at the end", "3200 to 3200 MHz"),
    }
