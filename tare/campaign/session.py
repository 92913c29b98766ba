"""What every study does to measure: check what was asked, open the results folder, do its runs.

The question of a study resolves its programs and managers with the functions here, and hands them
with its plan to ``measure``.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tare.base.errors import InterruptedStudy, MissingError, TareError, UsageError
from tare.campaign import canary, executor, rounds
from tare.campaign.cluster import Cluster
from tare.campaign.watching import Watcher
from tare.memory_managers import manager as managers_module
from tare.memory_managers import suitable
from tare.memory_managers.manager import OWN, Manager, describe_managers
from tare.observers import conditions
from tare.observers.protocol import Observe
from tare.observers.runner import observer_cost
from tare.programs.program import Program, check_program, describe_program, program_from_command
from tare.records.metrics import REPLAYING
from tare.records.results import Results, Store, default_folder, new_run
from tare.records.runs import Limits, Record, Run

Command = Program | Sequence[str]


@dataclass(frozen=True)
class Planned:
    """What to run next, and how many runs that makes when nothing fails, 0 where that shows only
    as they are done; ``seconds`` is then what they may take. ``planners`` do the same for each
    program apart, where programs can be measured side by side."""

    planner: executor.Planner
    runs: int
    planners: Mapping[str, executor.Planner] = field(default_factory=dict)
    seconds: float | None = None


@dataclass(frozen=True)
class Compared:
    """Programs under managers, one of which, ``baseline``, is what the others are held against."""

    programs: Sequence[Program]
    managers: Mapping[str, Manager]
    baseline: str


@dataclass(frozen=True)
class Question:
    """What a study asks. ``doing`` is what progress says of its runs; ``asked`` is what the request
    holds beyond programs and managers, and ``facts`` are kept in run.json. ``observers`` are those
    that not every study has. With ``narrow`` programs of 32 bits are taken, too, where no manager
    is put under them; with ``timed`` the canary is visited before and after, so that the times of
    two folders can be compared."""

    study: str
    doing: str
    compared: Compared
    asked: Mapping[str, Any] = field(default_factory=dict)
    observers: Mapping[str, Observe] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    narrow: bool = False
    timed: bool = False


class Rounds(Protocol):
    """A study that runs each manager in turns, again and again."""

    def next_round(self, plan: rounds.Plan, records: Sequence[Record]) -> list[Run]: ...


class Repeated(Protocol):
    """A request that says how often."""

    @property
    def runs(self) -> int: ...
    @property
    def warmup(self) -> int: ...


def rounds_of(
    compared: Compared, request: Repeated, seed: int, references: Sequence[str] = ()
) -> rounds.Plan:
    """``references`` are what managers are held against beside the baseline."""
    return rounds.Plan(
        tuple(program.name for program in compared.programs),
        tuple(compared.managers),
        compared.baseline,
        request.runs,
        request.warmup,
        seed,
        references=tuple(references),
    )


def in_rounds(
    study: Rounds, compared: Compared, request: Repeated, references: Sequence[str] = ()
) -> Callable[[int], Planned]:
    """The plan of a study, by the seed of its order; as ``rounds_of``."""

    def plan(seed: int) -> Planned:
        planned = rounds_of(compared, request, seed, references)
        return Planned(partial(study.next_round, planned), rounds.planned_runs(planned))

    return plan


@dataclass(frozen=True)
class Where:
    """What all studies are given beside their question. ``label`` is for the folder's name. With a
    ``cluster`` its workers do the runs; with ``canary`` it is looked whether the machine drifts."""

    seed: int | None
    limits: Limits | None
    folder: Path | str | None
    watcher: Watcher | None
    label: str = ""
    cluster: Cluster | None = None
    canary: bool = False


def measure(question: Question, plan: Callable[[int], Planned], where: Where) -> Results:
    """Do the runs of a study, which ``plan`` gives for a seed, in a results folder."""
    programs, managers = question.compared.programs, question.compared.managers
    suitable.check(programs, managers.values())
    if where.cluster is None:
        conditions.check(managers.values(), where.limits or Limits())
    preloads = not all(manager.of_runtime_alone for manager in managers.values())
    narrow = question.narrow and not any(manager.preload for manager in managers.values())
    request = {
        "programs": [
            describe_program(program, check_program(program, preloads, narrow))
            for program in programs
        ],
        "managers": sorted(managers),
        "baseline": question.compared.baseline,
        **question.asked,
        **on_machine(where.limits),
        **({"cluster": True} if where.cluster else {}),
    }
    facts = {**facts_of(request, managers, where.seed), **question.facts}
    run = new_run(question.study, sys.argv, **facts)
    label = where.label or Path(programs[0].argv[0]).name
    folder = Path(where.folder) if where.folder else default_folder(question.study, label)
    watcher = where.watcher or Watcher()
    with Store(folder, run, key="request") as store:
        planned = plan(store.run.seed)
        left = max(planned.runs - len(store.records), 0)
        watcher.begin(question.doing, left, planned.seconds)
        known = dict(managers)
        rig = executor.Rig(
            {program.name: program for program in programs},
            known,
            _of_regions(managers, where.limits or Limits()),
            {**executor.OBSERVERS, **question.observers},
        )
        if where.cluster is not None:
            from tare.campaign.cluster import coordinator as campaign

            planners = {
                program: adding_managers(planner, known, store)
                for program, planner in planned.planners.items()
            }
            doing_runs = partial(campaign.execute, planners, rig, store, watcher, where.cluster)
            return _keeping_what_is_measured(store, watcher, doing_runs)
        planner = adding_managers(planned.planner, known, store)
        clock = canary.Clock() if where.canary else None
        with noting_pace(store) if question.timed else contextlib.nullcontext():
            return execute(store, planner, rig, watcher, clock)


@contextlib.contextmanager
def noting_pace(store: Store) -> Iterator[None]:
    """Keeps in run.json how fast the machine was before and after what is done within; of a folder
    that is finished, nothing more."""
    finished = store.run.finished
    if not finished and "start" not in store.run.canary_seconds:
        _note_pace(store, "start")
    yield
    if not finished:
        _note_pace(store, "end")


def _note_pace(store: Store, when: str) -> None:
    if seconds := canary.pace(store.workspace):
        store.update(canary_seconds={**store.run.canary_seconds, when: seconds})


def adding_managers(
    planner: executor.Planner, known: dict[str, Manager], store: Store
) -> executor.Planner:
    """The planner of runs under managers of which some are not ``known`` before it asks for them:
    they are added there, and to run.json."""

    def plan(records: Sequence[Record]) -> list[Run]:
        runs = planner(records)
        if added := {run.manager for run in runs} - known.keys():
            replayed = {run.manager for run in runs if run.observer in REPLAYING}
            new = {
                name: managers_module.resolve(name, replays=name in replayed)
                for name in sorted(added)
            }
            known.update(new)
            store.update(managers={**store.document["managers"], **describe_managers(new)})
        return runs

    return plan


def _of_regions(managers: Mapping[str, Manager], limits: Limits) -> Limits:
    """The limits of a comparison. With a manager that serves regions, what a program maps for those
    is what it is about."""
    serves_regions = not all(manager.layer_serves for manager in managers.values())
    return replace(limits, least_coverage=0.0) if serves_regions else limits


def on_machine(limits: Limits | None) -> dict[str, Any]:
    """What a request records of the machine's part that its runs are to have; nothing where that is
    not asked for, so that unfinished answers of earlier versions go on."""
    asked = limits.conditions.asked() if limits else {}
    return {"machine": asked} if asked else {}


def execute(
    store: Store,
    planner: executor.Planner,
    rig: executor.Rig,
    watcher: Watcher,
    clock: canary.Clock | None = None,
) -> Results:
    """Run what the planner asks for; on any interruption the folder is still made whole."""
    if store.run.observer_seconds is None:
        store.update(observer_seconds=observer_cost(store.workspace))
    return _keeping_what_is_measured(
        store, watcher, lambda: executor.execute(planner, rig, store, watcher.run, clock)
    )


def _keeping_what_is_measured(
    store: Store, watcher: Watcher, do_runs: Callable[[], None]
) -> Results:
    begun = time.monotonic()
    earlier = store.run.took_seconds or 0.0
    try:
        do_runs()
    except BaseException as error:
        with contextlib.suppress(TareError):  # the first trouble is the one to tell of
            store.finish()
        if isinstance(error, KeyboardInterrupt):
            raise InterruptedStudy(store.folder) from None
        raise
    finally:
        watcher.end()
    store.update(took_seconds=earlier + time.monotonic() - begun)
    results = store.finish()
    store.end()
    return Results(results.folder, store.document, results.measurements)


def check_counts(
    runs: int, warmup: int, most_runs: int = 0, precision: float | None = None
) -> None:
    """Raises UsageError for numbers of runs that no study can have."""
    if not 1 <= runs <= 100_000:
        raise UsageError(f"{runs} runs: give a number from 1 to 100000")
    if not 0 <= warmup <= 1000:
        raise UsageError(f"{warmup} warm-up runs: give a number from 0 to 1000")
    if precision is not None and not 0.0001 <= precision <= 1:
        raise UsageError(f"a precision of {precision}: give a fraction from 0.0001 to 1")
    if precision is not None and most_runs < runs:
        raise UsageError(f"at most {most_runs} runs is less than the {runs} asked for")


def programs_of(given: Command | Sequence[Program]) -> tuple[Program, ...]:
    """The programs that a function of the library was given, or the one of a list of words."""
    if isinstance(given, Program):
        return (given,)
    if isinstance(given, str):
        raise UsageError("a program is a list of words, not one string")
    if given and isinstance(given[0], Program):
        programs = tuple(item for item in given if isinstance(item, Program))
        if len({program.name for program in programs}) != len(given):
            raise UsageError("two programs have the same name")
        return programs
    return (program_from_command([str(word) for word in given]),)


def managers_of(
    names: Sequence[str],
    baseline: str,
    *,
    programs: Iterable[Program] = (),
    replays: bool = False,
) -> tuple[dict[str, Manager], str]:
    """Resolve names, for runs or for replays; the baseline comes first. The default baseline is
    glibc if it takes part, or what musl has if one of ``programs`` is linked with that."""
    usual = OWN if any(map(suitable.is_with_musl, programs)) else "glibc"
    wanted = list(names) or managers_module.default_managers(usual)
    found = [managers_module.resolve(name, replays=replays) for name in wanted]
    resolved = {manager.name: manager for manager in found}
    if baseline:
        first = managers_module.resolve(baseline, replays=replays)
    else:
        first = resolved.get(usual) or next(iter(resolved.values()))
        alone = len(resolved) == 1 and first.name not in ("glibc", OWN)
        if alone and first.runtime is None:
            first = managers_module.resolve(usual)
    ordered = {first.name: first, **{n: m for n, m in resolved.items() if n != first.name}}
    for each in ordered.values():
        if each.server is not None and not each.server.exists():
            raise MissingError(f"the object {each.server} of {each.name} no longer exists")
    return ordered, first.name


def facts_of(
    request: Mapping[str, Any], managers: Mapping[str, Manager], seed: int | None
) -> dict[str, Any]:
    """What run.json says of a question and of the managers in it; None for a new seed."""
    return {
        "request": dict(request),
        "programs": request["programs"],
        "baseline": request["baseline"],
        "seed": random.SystemRandom().randrange(1 << 31) if seed is None else seed,
        "managers": describe_managers(managers),
    }
