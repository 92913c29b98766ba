"""Analyses of many heap traces at once: each by itself, one after another here, or side by side as
tasks of a Dask cluster whose workers see the same folders."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tare.base import interrupts
from tare.base.errors import TareError
from tare.campaign.cluster.tasks import each_done
from tare.campaign.session import Where
from tare.campaign.watching import Watcher
from tare.heap_traces.facts import facts_of
from tare.heap_traces.trace import Trace, open_trace
from tare.records.metrics import Status
from tare.records.results import Results, Store, default_folder, new_run
from tare.records.runs import Outcome, Record, Run, now

Analyse = Callable[[Trace], Outcome]


class _Study(Protocol):
    @property
    def STUDY(self) -> str: ...  # noqa: N802
    @property
    def OBSERVER(self) -> str: ...  # noqa: N802


def analyse_all(
    study: _Study,
    analyse: Analyse,
    asked: Mapping[str, Any],
    traces: Sequence[Path | str],
    scheduler: str,
    place: Where,
) -> Results:
    watcher = place.watcher or Watcher()
    paths = [Path(path).resolve() for path in traces]
    facts = [facts_of(open_trace(path), **asked) for path in paths]
    runs = _runs(study, paths, facts)
    run = new_run(study.STUDY, sys.argv, **_facts(facts, runs))
    subject = paths[0].stem if len(paths) == 1 else f"{len(paths)}-traces"
    where = Path(place.folder) if place.folder else default_folder(study.STUDY, subject)
    with Store(where, run, key="request") as store, interrupts.termination_as_interrupt():
        done = {record.run.order for record in store.records}
        waiting = {one.order: one for one in runs if one.order not in done}
        watcher.begin("analysing heap traces", len(waiting), None)
        try:
            by_order = {order: paths[order - 1] for order in waiting}
            watcher.run(next(iter(waiting.values()), runs[0]), None)
            for order, outcome in _outcomes(by_order, analyse, scheduler):
                record = Record(waiting.pop(order), outcome, now())
                store.append(record)
                watcher.run(record.run, record)
                for one in list(waiting.values())[:1]:
                    watcher.run(one, None)
        finally:
            results = store.finish()
            watcher.end()
        store.end()
        return Results(results.folder, store.document, results.measurements)


def _runs(study: _Study, paths: Sequence[Path], facts: Sequence[dict[str, Any]]) -> list[Run]:
    """One for each trace. Two of one program under one manager are told apart by their folders."""
    named = [(one["programs"][0]["name"], one["baseline"]) for one in facts]
    times = Counter(named)
    runs = []
    for order, ((name, manager), path) in enumerate(zip(named, paths, strict=True), 1):
        program = f"{name} ({path.stem})" if times[name, manager] > 1 else name
        runs.append(Run(study.STUDY, program, manager, 0, order, observer=study.OBSERVER))
    return runs


def _facts(facts: Sequence[dict[str, Any]], runs: Sequence[Run]) -> dict[str, Any]:
    machine = facts[0].get("machine")
    is_of_all = all(one.get("machine") == machine for one in facts)
    programs = {
        run.program: {**one["programs"][0], "name": run.program}
        for one, run in zip(facts, runs, strict=True)
    }
    return {
        "request": {"traces": [one["request"] for one in facts]},
        "programs": list(programs.values()),
        "managers": {name: each for one in facts for name, each in one["managers"].items()},
        "baseline": facts[0]["baseline"],
        "seed": 0,
        **({"machine": machine} if machine and is_of_all else {}),
    }


def _outcomes(
    paths: dict[int, Path], analyse: Analyse, scheduler: str
) -> Iterator[tuple[int, Outcome]]:
    """In the order in which they are there."""
    if not scheduler:
        yield from ((order, analysed(path, analyse)) for order, path in paths.items())
        return
    tasks = {order: partial(analysed, path, analyse) for order, path in paths.items()}
    for order, answer in each_done(tasks, scheduler):
        yield order, answer if isinstance(answer, Outcome) else _failed(_words(answer))


def _words(error: BaseException) -> str:
    return error.message if isinstance(error, TareError) else f"{type(error).__name__}: {error}"


def analysed(path: Path, analyse: Analyse) -> Outcome:
    """The outcome for one trace; what is wrong with it is its reason."""
    try:
        return analyse(open_trace(path))
    except TareError as error:
        return _failed(error.message)


def _failed(reason: str) -> Outcome:
    return Outcome(Status.FAILED, reason)
