"""What a report says of the machines that did the runs: this one, or the workers of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tare.base.text import sentence
from tare.base.units import format_bytes, format_percent
from tare.campaign import canary
from tare.records import steal
from tare.records.header import Header, Machine
from tare.records.machine import noise_warnings
from tare.records.results import CANARY, counted
from tare.records.runs import Record


def kinds(run: Header) -> list[tuple[Machine, int]]:
    """The different machines, as ``run.json`` describes them, and how many there are of each; the
    number is 0 where all runs are of the machine that Tare ran on."""
    workers = run.machines.values()
    if not workers:
        return [(run.machine, 0)]
    numbers = Counter(worker.group for worker in workers)
    described = {worker.group: worker.machine for worker in workers}
    return [(described[group], number) for group, number in numbers.items()]


def hardware(run: Header) -> str:
    """One line: processor, cores and memory of each kind; of runs that were imported, who did
    them."""
    if run.imported:
        return f"runs of {run.imported.tool}, on an unknown machine"
    return "; ".join(
        (f"{number} × " if number else "")
        + f"{machine.processor}, {machine.cores} cores, "
        + format_bytes(machine.memory_bytes)
        for machine, number in kinds(run)
    )


def facts(run: Header, machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every setting of this ``machine``, or a line for each worker."""
    if run.imported:
        return []
    asked = [f"{name}={value}" for name, value in run.request.machine.items()]
    part = [("part of the machine", ", ".join(asked))] if asked else []
    if not run.machines:
        clocks = [
            (f"frequency at the {when}", f"{low} to {high} MHz")
            for when, (low, high) in run.frequencies_mhz.items()
        ]
        settings = [(name.replace("_", " "), str(value)) for name, value in machine.items()]
        return [*part, *settings, *clocks]
    return part + [
        (
            f"machine {name}",
            f"group {worker.group}: {worker.machine.processor}, {worker.machine.cores} cores",
        )
        for name, worker in run.machines.items()
    ]


def warnings(run: Header, records: Sequence[Record]) -> list[str]:
    """Noisy settings, machines that changed their pace or were shared, and runs set aside."""
    if run.imported:
        return []
    noise = [
        f"{sentence(each.setting)}: {each.effect}. {sentence(each.mend)}."
        for machine, _ in kinds(run)
        for each in noise_warnings(machine)
    ]
    return [
        *_of_cluster(run, records),
        *canary.warnings(records),
        *_of_steal(records),
        *dict.fromkeys(noise),
    ]


def _of_steal(records: Sequence[Record]) -> list[str]:
    answers = [record for record in records if record.run.study != CANARY]
    if not (shares := steal.much(answers)):
        return []
    return [
        f"In {len(shares)} of {len(answers)} runs the host of this virtual machine gave more than "
        f"{format_percent(steal.MUCH)} of the processor time to others (steal, at most "
        f"{format_percent(max(shares))}), so these runs took longer. Measure when the host is "
        "quiet, or with more runs."
    ]


def _of_cluster(run: Header, records: Sequence[Record]) -> list[str]:
    told = []
    hosts = {name: worker.host for name, worker in run.machines.items()}
    shared = Counter(hosts[name] for name in {r.run.machine for r in records} & hosts.keys())
    for host, number in shared.items():
        if number > 1:
            told.append(
                f"{number} workers shared the machine {host}, so their runs may have disturbed "
                "each other. Start one worker per machine"
            )
    answers = [record for record in records if record.run.study != CANARY]
    left = Counter(r.run.program for r in answers) - Counter(
        r.run.program for r in counted(answers)
    )
    for program, number in left.items():
        told.append(
            f"{number} run{'s' if number > 1 else ''} of {program} on another kind of machine "
            "not used: the program was started over, so that no ratio mixes machines"
        )
    return told
