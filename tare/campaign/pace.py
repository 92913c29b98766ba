"""Whether the machine was the same, at the same speed, when two results were measured: only then do
their times say something of what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tare.base.units import format_percent
from tare.campaign import canary
from tare.campaign.drift import kinds
from tare.records import steal
from tare.records.header import Header
from tare.records.results import CANARY, Results, read_records
from tare.records.runs import Record

_LOAD_SHARE = 0.5
"""Of the cores: a load that differs by more is another load, as it is one that adds noise."""
_MANY = 0.5
"""Of the runs."""


@dataclass(frozen=True)
class Pace:
    """``other`` says why times cannot be compared, empty where nothing speaks against it; ``known``
    what that rests on. ``slowest`` and ``fastest`` are by how much the machine can have changed all
    times, at the most and at the least, as far as the canary saw it."""

    other: str
    known: str
    has_canary: bool = True
    slowest: float = 1.0
    fastest: float = 1.0

    def reason_against(self, low: float, high: float) -> str:
        """Why times whose ratio has these bounds cannot be told to have changed, or not to have;
        empty where they can."""
        if self.other:
            return self.other
        if high < self.fastest or low > self.slowest or (low <= 1 <= high):
            return ""
        return (
            "the speed of the machine varied as much: "
            f"canary 1.00 vs {self.fastest:.2f} to {self.slowest:.2f}"
        )


def compared(old: Results, new: Results) -> Pace:
    """What is recorded of the machine in the two. Folders of earlier versions, and those without
    times, have no canary: there it is the load when they began."""
    sides = (old, new)
    records = [read_records(results.folder) for results in sides]
    runs = [results.run for results in sides]
    visits = [_visits(run, found) for run, found in zip(runs, records, strict=True)]
    other = _hardware(*runs) or _host(*records)
    if not all(visits) or _load(*runs):
        other = other or _busy(*runs)
    if all(visits):
        before, after = visits
        usual = statistics.median(after) / statistics.median(before)
        told = f"canary 1.00 vs {usual:.2f}"
        if not other and abs(usual - 1) > max(map(_noise, visits)):
            other = f"the machine ran at another speed: {told}"
        return Pace(other, told, True, max(after) / min(before), min(after) / max(before))
    missing = [name for name, each in zip(("old", "new"), visits, strict=True) if not each]
    shown = (
        "the load average and steal alone" if not any(run.imported for run in runs) else "nothing"
    )
    told = f"no canary in {' and '.join(missing)}: a change of the machine's speed shows in {shown}"
    return Pace(other or _load(*runs), told, False)


def _visits(run: Header, records: Sequence[Record]) -> list[float]:
    """The fastest run of each visit."""
    ends = [min(seconds) for seconds in run.canary_seconds.values() if seconds]
    return [seconds for seconds in (*ends, *canary.visit_seconds(records)) if seconds > 0]


def _noise(visits: Sequence[float]) -> float:
    """By which share the usual visit may differ where nothing changed. Of few visits it is how far
    they lie from their middle."""
    usual = statistics.median(visits)
    if len(visits) >= canary.FEWEST_VISITS:
        return canary.noise(visits) / usual
    return max(canary.LEAST_CHANGE, (max(visits) - min(visits)) / 2 / usual)


def _hardware(old: Header, new: Header) -> str:
    if old.imported or new.imported:
        return ""
    for name in ("processor", "cores", "frequency_governor", "turbo"):
        before, after = (
            sorted({str(getattr(machine, name)) for machine, _ in kinds(run)}) for run in (old, new)
        )
        if before != after:
            words = " vs ".join(
                ", ".join(filter(None, each)) or "not known" for each in (before, after)
            )
            return f"the machine is another: {name.replace('_', ' ')} {words}"
    return ""


def _busy(old: Header, new: Header) -> str:
    """A machine with more to do than it has cores gives each program what is left of it."""
    for run in (old, new):
        if run.imported:
            continue
        for machine, _ in kinds(run):
            if machine.load_average > machine.cores:
                return (
                    f"the machine was busy, with a load average of {machine.load_average:.1f} on "
                    f"{machine.cores} cores"
                )
    return ""


def _load(old: Header, new: Header) -> str:
    if old.imported or new.imported or old.machines or new.machines:
        return ""
    before, after = (float(run.machine.load_average) for run in (old, new))
    if abs(after - before) <= _LOAD_SHARE * new.machine.cores:
        return ""
    return (
        f"the machine had another load: load average {before:.1f} vs {after:.1f} on "
        f"{new.machine.cores} cores"
    )


def _host(old: Sequence[Record], new: Sequence[Record]) -> str:
    shares = []
    for records in (old, new):
        answers = [record for record in records if record.run.study != CANARY]
        shares.append(len(steal.much(answers)) / len(answers) if answers else 0.0)
    if abs(shares[1] - shares[0]) <= _MANY:
        return ""
    words = " vs ".join(map(format_percent, shares))
    return f"the host gave processor time to others in {words} of the runs (steal)"
