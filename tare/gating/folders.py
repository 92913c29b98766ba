"""`tare gate` of two results folders: what they hold of one program is judged as if it had been run
now, in a results folder of its own. Nothing is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.campaign import pace
from tare.gating.changes import BASE, COUNTING, HEAD, check_threshold, once_of
from tare.gating.report import STUDY
from tare.gating.request import COUNT, DEFAULT_THRESHOLD, TIME
from tare.memory_managers.manager import OWN
from tare.records.metrics import Status
from tare.records.results import Results, Store, counted, load, new_run, read_records
from tare.records.runs import Outcome, Record
from tare.studies import modules
from tare.studies.compare import report as compare
from tare.studies.space import report as space
from tare.studies.space.site_sums import totals


@dataclass(frozen=True)
class GateOfFolders:
    """``manager`` of both; ``OWN`` is the baseline of each. ``folder`` is the new one."""

    base: Path
    head: Path
    folder: Path
    manager: str = OWN
    threshold: float = DEFAULT_THRESHOLD
    skip: Sequence[str] = ()


@dataclass(frozen=True)
class _Side:
    results: Results
    program: str
    manager: str

    def records(self, studies: set[str]) -> list[Record]:
        """Those of the program under the manager, where they count."""
        return [
            each
            for each in counted(read_records(self.results.folder))
            if (each.run.program, each.run.manager) == (self.program, self.manager)
            and each.run.study in studies
        ]


def gate_folders(asked: GateOfFolders) -> Results:
    """Raises UsageError where the two hold no program in common, or several."""
    check_threshold(asked.threshold, asked.skip)
    sides = _sides(load(asked.base), load(asked.head), asked.manager)
    studies = _studies(asked.skip)
    found = {
        name: side.records(studies) for name, side in zip((BASE, HEAD), sides.values(), strict=True)
    }
    if not set.intersection(*({each.run.study for each in side} for side in found.values())):
        raise UsageError(
            "the two results have no runs of one study and manager that can be judged",
            f"looked for {', '.join(sorted(studies))}; -m names another manager",
        )
    first, second = sides.values()
    request: dict[str, Any] = {
        "folders": [str(asked.base.resolve()), str(asked.head.resolve())],
        "manager": first.manager,
        "threshold": asked.threshold,
        "skip": sorted(set(asked.skip)),
        "pace": asdict(pace.compared(first.results, second.results)),
        "once": once_of([*found[BASE], *found[HEAD]]),
    }
    run = {
        **new_run(STUDY, sys.argv),
        "machine": second.results.document["machine"],
        "request": request,
        "programs": [_described(name, side) for name, side in sides.items()],
        "managers": {first.manager: second.results.document["managers"][second.manager]},
        "baseline": first.manager,
        "seed": second.results.run.seed,
    }
    with Store(asked.folder, run, key="request") as store:
        if not store.records:
            for record in _renamed(found, first.manager):
                store.append(record)
        results = store.finish()
        store.end()
        return Results(results.folder, store.document, results.measurements)


def _studies(skip: Sequence[str]) -> set[str]:
    counting = {
        *COUNTING,
        *(study for _, module in modules("site_sums") for study in module.KEPT_BY),
    }
    return (set() if COUNT in skip else counting) | (set() if TIME in skip else {compare.STUDY})


def _sides(old: Results, new: Results, manager: str) -> dict[str, _Side]:
    """What each folder calls the program that is judged, and its manager."""
    names = [[program.name for program in results.run.programs] for results in (old, new)]
    common = [name for name in names[0] if name in names[1]]
    alone = [len(each) == 1 for each in names]
    if len(common) != 1 and not all(alone):
        raise UsageError(
            f"the two results have {len(common) or 'no'} programs in common, and one is judged",
            f"of several: tare diff {old.folder} {new.folder}",
        )
    programs = common * 2 if common else [each[0] for each in names]
    managers = [results.run.baseline if manager == OWN else manager for results in (old, new)]
    if managers[0] != managers[1]:
        raise UsageError(
            f"the baselines differ: {managers[0]} and {managers[1]}", "name a manager with -m"
        )
    for results in (old, new):
        if managers[0] not in results.run.managers:
            raise UsageError(
                f"{results.folder} has no runs under {managers[0]}",
                f"it has: {', '.join(results.run.managers)}",
            )
    sides = zip((old, new), programs, managers, strict=True)
    return dict(zip((BASE, HEAD), (_Side(*each) for each in sides), strict=True))


def _described(name: str, side: _Side) -> dict[str, Any]:
    programs = side.results.document["programs"]
    (found,) = (each for each in programs if each["name"] == side.program)
    return {**found, "name": name}


def _renamed(found: dict[str, list[Record]], manager: str) -> Iterator[Record]:
    order = 0
    for name, records in found.items():
        for record in records:
            order += 1
            yield Record(
                replace(record.run, program=name, manager=manager, order=order),
                _with_totals(record),
                record.started,
            )


def _with_totals(record: Record) -> Outcome:
    """With what a snapshot's record tells of all objects beside its values."""
    outcome = record.outcome
    if record.run.study != space.STUDY or outcome.status is not Status.OK:
        return outcome
    return replace(outcome, values={**totals(record), **outcome.values})
