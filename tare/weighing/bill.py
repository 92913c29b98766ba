"""The bill of one program, as `tare weigh` makes it: every section within its share of the time."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from tare.base.errors import MissingError, ProgramError, UsageError
from tare.campaign import executor
from tare.campaign.session import (
    adding_managers,
    check_counts,
    execute,
    facts_of,
    managers_of,
    noting_pace,
    on_machine,
    programs_of,
)
from tare.campaign.watching import Watcher
from tare.memory_managers import manager as managers_module
from tare.memory_managers import suitable
from tare.memory_managers.manager import OWN, Manager, describe_managers
from tare.observers import conditions
from tare.programs.program import Program, check_program, describe_program
from tare.records.coverage import Covered
from tare.records.metrics import Status
from tare.records.results import Results, Store, new_run
from tare.records.runs import Limits, Outcome, Run
from tare.report.comparison import NO_TERMINAL, OF_TERMINALS
from tare.studies.lbo import report as lbo
from tare.studykit.budget import (
    TOTAL_SECONDS,
    Effort,
    Setting,
    WeighSection,
    observers,
)
from tare.studykit.request import answers
from tare.weighing import java_bill, own_heap
from tare.weighing.plan import Plan
from tare.weighing.request import Weigh
from tare.weighing.sections import chosen as chosen_sections

PILOT_STUDY = "pilot"
_PAGE_SHARE = 0.085
_MOST_PAGE_SECONDS = 9.0
"""What the interpreter's start and the page may take of a bill's time: 5 seconds on a quiet
machine, 8 beside a load of 2 on two cores."""
SHELL_WORDS = frozenset(["|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"])
"""That stand alone where a user expected a shell."""


@answers(Weigh)
def weigh(request: Weigh) -> Results:
    """The whole bill of one program: every section that exists, within the time of ``effort``."""
    begun = time.monotonic()
    (chosen,) = programs_of(request.program)
    watcher = request.watcher or Watcher()
    limits = request.limits or Limits()
    described = describe_program(chosen, check_program(chosen))
    runtime = java_bill.runtime_of(
        chosen, [*request.managers, *([request.baseline] if request.baseline else [])]
    )
    names = list(request.managers)
    if runtime:
        names = names or java_bill.default_managers(chosen)
    resolved, first = managers_of(names, request.baseline, programs=[chosen])
    if runtime:
        java_bill.check(chosen, resolved.values())
    else:
        suitable.check([chosen], resolved.values())
    conditions.check(resolved.values(), limits)
    found = chosen_sections(runtime, request.effort, request.only, request.skip)
    asked = {
        "programs": [described],
        "managers": sorted(resolved),
        "baseline": first,
        "effort": str(request.effort),
        **_limited(request),
        **on_machine(limits),
    }
    run = new_run("weigh", sys.argv, **facts_of(asked, resolved, request.seed), runtime=runtime)
    budget = request.seconds or TOTAL_SECONDS[request.effort]
    folder = request.folder_or_new("weigh", Path(chosen.argv[0]).name)
    with Store(folder, run, key="request") as store:
        if runtime:
            pilot = _pilot(store, chosen, java_bill.OWN, limits, watcher)
            given = first if request.baseline else ""
            resolved, first = java_bill.settle(
                store, chosen, pilot, resolved, given, add_own=not request.managers
            )
        else:
            pilot = _pilot(store, chosen, OWN, limits, watcher)
            limits = own_heap.of_covered(
                chosen, pilot, limits, of_runtime=bool(storage_runtime(chosen))
            )
            resolved, first = _settle(
                store, pilot, resolved, first, watcher, asked=bool(request.managers)
            )
            if not request.managers:
                most = own_heap.MOST_OF_THE_TIME * budget
                revealing = own_heap.revealing(store, chosen, pilot, limits, most)
                resolved = {first: resolved[first], **revealing, **resolved}
                store.update(managers=describe_managers(resolved))
        store.update(storage_runtime=storage_runtime(chosen))
        store.update(asked_sections=[section.IDENTIFIER for section in found])
        besides = time.monotonic() - begun + min(_MOST_PAGE_SECONDS, _PAGE_SHARE * budget)
        setting = Setting(
            program=chosen.name,
            managers=tuple(resolved),
            baseline=first,
            effort=request.effort,
            pilot_seconds=store.run.pilot_seconds,
            budget_seconds=max(0.0, budget - besides),
            seed=store.run.seed,
            managers_asked=bool(request.managers),
            pilot=pilot.values,
            storage_runtime=store.run.storage_runtime,
            runs=request.runs or 0,
        )
        plan, shares = Plan(found, setting), {section.IDENTIFIER: 0.0 for section in found}
        results = store.finish()
        rig = executor.Rig({chosen.name: chosen}, resolved, limits)
        with noting_pace(store):
            while (step := plan.next()) is not None:
                section, part = step
                shares[section.IDENTIFIER] = part.budget_seconds
                store.update(shares=shares)
                results = _weigh_section(section, part, store, rig, watcher)
                plan.took(section, part, _spent(store, section), _runs_of(store, section))
        store.end()
        return Results(results.folder, store.document, results.measurements)


def _limited(request: Weigh) -> dict[str, Any]:
    """What the user said of time, runs and sections, for run.json; nothing where that is nothing,
    so that an unfinished bill of an earlier version goes on."""
    if request.seconds and request.effort is Effort.THOROUGH:
        raise UsageError("--thorough has no time limit", "leave out --time")
    if request.runs is not None:
        check_counts(request.runs, 0)
    given = {
        "seconds": request.seconds,
        "runs": request.runs,
        "only": list(request.only),
        "skip": list(request.skip),
    }
    return {name: value for name, value in given.items() if value}


def _runs_of(store: Store, section: WeighSection) -> int:
    return store.run.section_runs.get(section.IDENTIFIER, 0)


def _spent(store: Store, section: WeighSection) -> float:
    known = store.run.sections.get(section.IDENTIFIER)
    return float(known.took_seconds) if known else 0.0


def storage_runtime(program: Program) -> str:
    """The runtime whose storage management can be broken down; empty where none is known."""
    try:
        from tare.studies.breakdown.runtime_of import chosen_descriptors  # loads a disassembler
    except MissingError:  # on a processor whose code it does not know
        return ""

    found = chosen_descriptors(program, "")
    return found[0].name if len(found) == 1 else ""


def _weigh_section(
    section: WeighSection,
    setting: Setting,
    store: Store,
    rig: executor.Rig,
    watcher: Watcher,
) -> Results:
    expected = section.expected_seconds(setting)
    planned = section.expected_runs(setting)
    done, recorded = _runs_of(store, section), len(store.records)
    if planned and section.next_runs(setting, store.records):
        seconds = max(0.0, expected - _spent(store, section))
        watcher.begin(section.TITLE, max(1, planned - done), seconds)
    earlier = _spent(store, section)
    begun = time.monotonic()
    known = dict(rig.managers)
    planner = adding_managers(partial(section.next_runs, setting), known, store)
    rig = replace(rig, managers=known, observers=observers(section, setting))
    results = execute(store, planner, rig, watcher)
    done += len(store.records) - recorded
    store.update(section_runs={**store.run.section_runs, section.IDENTIFIER: done})
    costs = dict(store.document.get("sections", {}))
    took = earlier + time.monotonic() - begun
    if planned:
        costs[section.IDENTIFIER] = {"expected_seconds": expected, "took_seconds": took}
        store.update(sections=costs)
    return Results(results.folder, store.document, results.measurements)


def _pilot(store: Store, program: Program, own: str, limits: Limits, watcher: Watcher) -> Outcome:
    """One run as the program is, under the manager ``own``, to learn how long it takes."""
    done = [r for r in store.records if r.run.study == PILOT_STUDY]
    if not done:
        watcher.note("one run to see how long it takes")
        run = Run(PILOT_STUDY, program.name, own, 0, 0, warmup=True)
        executor.execute(
            lambda records: [] if records else [run],
            executor.Rig({program.name: program}, {own: managers_module.resolve(own)}, limits),
            store,
            lambda *_: None,
        )
        done = store.records
    outcome = done[0].outcome
    if outcome.status is Status.OK:
        store.update(pilot_seconds=outcome.values["wall_seconds"])
    elif outcome.status in (Status.FAILED, Status.TIMEOUT, Status.OUT_OF_MEMORY):
        words = [line.strip() for line in outcome.error_tail.splitlines() if line.strip()]
        said = f"it said: {words[-1][:300]}; " if words else ""
        remedies = f"; {NO_TERMINAL}" if OF_TERMINALS.search(outcome.error_tail) else ""
        if SHELL_WORDS.intersection(program.argv):
            line = shlex.quote(" ".join(program.argv))
            remedies += f"; no shell runs this command: for a pipe and the like, sh -c {line}"
        raise ProgramError(
            f"{program.name} failed in its first run: {outcome.reason or outcome.status}",
            f"{said}nothing more was run{remedies}",
        )
    else:
        store.update(pilot_seconds=limits.timeout_seconds or 1.0)
    return outcome


def _settle(
    store: Store,
    pilot: Outcome,
    managers: dict[str, Manager],
    baseline: str,
    watcher: Watcher,
    *,
    asked: bool,
) -> tuple[dict[str, Manager], str]:
    """The managers and the baseline, now that it is known what the program brings.

    A program that links another malloc than the C library's is its own baseline, and glibc one of
    the alternatives. One that calls an allocator of its own by other names than malloc's has that
    as an alternative: all sections see its objects only where they are redirected.
    """
    glibc = managers_module.resolve("glibc")
    brings_its_own = pilot.status is Status.OK and not glibc.serves(pilot.server)
    if brings_its_own and baseline == "glibc":
        watcher.note(f"the program links an allocator of its own, {pilot.server}")
        managers = {OWN: managers_module.resolve(OWN), **managers}
        baseline = OWN
        store.update(baseline=baseline, managers=describe_managers(managers))
    own = [each for each in pilot.details_as(Covered).own_allocators if each.prefix]
    if own and not brings_its_own:
        watcher.note(f"the program brings its own {own[0].called}")
        managers = managers if asked else {**managers, OWN: managers_module.resolve(OWN)}
        store.update(own_allocators=to_builtins(own), managers=describe_managers(managers))
    return managers, baseline


def exit_code(results: Results) -> int:
    return int(failed(results))


def failed(results: Results) -> bool:
    """Whether a run gave a status instead of a number, other than one in a heap that a section made
    too small to see what happens."""
    fine = {str(Status.OK)}
    ended = results.measurements.select("study", "status").unique().rows()
    return any(
        status not in (fine.union(lbo.TOO_SMALL) if study == lbo.STUDY else fine)
        for study, status in ended
    )
