"""Which machines of a cluster may do the same study."""

from __future__ import annotations

import json

from tare import __version__
from tare.base.documents import converted
from tare.campaign.cluster.machines import group_of, group_to_go_on, refusal
from tare.records.header import Header
from tare.records.machine import describe_environment, describe_machine
from tare.records.metrics import Status
from tare.records.results import CANARY, counted, measurements_frame
from tare.records.runs import Outcome, Record, Run
from tests.support.campaigns import described

# Without a cluster


def record(program: str, group: str, study: str = "compare") -> Record:
    run = Run(study, program, "glibc", 0, 1, machine=f"a machine of {group}", group=group)
    return Record(run, Outcome(Status.OK, values={"wall_seconds": 1.0}))


def test_machines_are_alike_when_what_matters_is() -> None:
    machine, environment = describe_machine(), describe_environment()
    group = group_of(machine, environment)
    assert group_of({**machine, "load_average": 99.0, "python": "9"}, environment) == group
    assert (
        group_of({**machine, "memory_bytes": machine["memory_bytes"] + 4096}, environment) == group
    )
    elsewhere = {**environment, "values": {**environment["values"], "PATH": "/elsewhere"}}
    assert group_of(machine, elsewhere) == group
    assert group_of({**machine, "kernel": "9.9"}, environment) != group
    assert group_of({**machine, "cores": 1000}, environment) != group
    steered = {**environment, "values": {**environment["values"], "MALLOC_ARENA_MAX": "1"}}
    assert group_of(machine, steered) != group


def test_why_a_worker_takes_no_part() -> None:
    manager = {"version": "1", "object": "/lib/x.so", "object_sha256": "a"}
    program = {
        "name": "p", "executable": "/bin/p", "executable_sha256": "b", "stdin_sha256": None
    }  # fmt: skip
    run = {"managers": {"m": manager}, "programs": [program]}
    found = {"tare": __version__, "problem": "", "managers": {"m": manager}, "programs": [program]}
    assert refusal(found, run) == ""
    assert "it has Tare 0" in refusal({**found, "tare": "0"}, run)
    assert refusal({**found, "problem": "no m"}, run) == "no m"
    other = {"m": {**manager, "object_sha256": "z"}}
    assert "different build (/lib/x.so)" in refusal({**found, "managers": other}, run)
    assert "p is a different program" in refusal(
        {**found, "programs": [{**program, "stdin_sha256": "z"}]}, run
    )


def test_a_program_stays_with_machines_of_one_kind() -> None:
    records = [record("p", "one"), record("p", "one"), record("p", "two"), record("q", "two")]
    assert group_to_go_on("p", records, {"one", "two"}) == "one"
    assert group_to_go_on("p", records, {"two", "three"}) == "two"
    assert group_to_go_on("p", records, {"three"}) is None
    assert group_to_go_on("new", records, {"three"}) == ""
    assert [(r.run.program, r.run.group) for r in counted(records)] == [("p", "two"), ("q", "two")]
    run = converted(described("compare", "pq", ["glibc"]), Header)
    frame = measurements_frame(run, [*records, record("p", "one", CANARY)])
    assert frame["program"].to_list() == ["p", "q"]


def test_a_line_without_a_machine_is_of_this_machine() -> None:
    line = json.loads(record("p", "one").to_line())
    del line["machine"], line["group"]
    run = Record.from_line(json.dumps(line)).run
    assert (run.machine, run.group) == ("", "")
