"""The bill of one program, as `tare weigh` makes it: every section within its share of the time."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tare import executor, runtimes
from tare import manager as managers_module
from tare.manager import OWN, Manager
from tare.measurement import REPLAYING, Status
from tare.measuring import (
    Command,
    Watcher,
    describe_managers,
    execute,
    facts_of,
    managers_of,
    programs_of,
)
from tare.program import Program, check_program, describe_program
from tare.results import Record, Results, Run, Store, default_folder, new_run, now
from tare.runner import Limits
from tare.weighing import TOTAL_SECONDS, Effort, Setting, WeighSection, sections, shares

PILOT_STUDY = "pilot"


def weigh(
    program: Command,
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    effort: Effort = Effort.DEFAULT,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """The whole bill of one program: every section that exists, within the time of ``effort``."""
    (chosen,) = programs_of(program)
    watcher = watcher or Watcher()
    limits = limits or Limits()
    described = describe_program(chosen, check_program(chosen))
    names = list(managers) or managers_module.default_managers()
    resolved, baseline = managers_of(names, baseline)
    runtimes.check([chosen], resolved.values(), "tare weigh")
    request = {
        "programs": [described],
        "managers": sorted(resolved),
        "baseline": baseline,
        "effort": str(effort),
    }
    run = new_run("weigh", sys.argv, **facts_of(request, resolved, seed))
    where = Path(folder) if folder else default_folder("weigh", Path(chosen.argv[0]).name)
    with Store(where, run, key="request") as store:
        resolved, baseline = _pilot(store, chosen, resolved, baseline, limits, watcher)
        found = sections()
        setting = Setting(
            program=chosen.name,
            managers=tuple(resolved),
            baseline=baseline,
            effort=effort,
            pilot_seconds=store.run["pilot_seconds"],
            budget_seconds=TOTAL_SECONDS[effort],
            seed=store.run["seed"],
            managers_asked=bool(managers),
        )
        results = None
        for section, share in zip(found, shares(found, setting), strict=True):
            results = _weigh_section(section, share, store, chosen, resolved, limits, watcher)
        assert results is not None
        store.update(finished=now())
        return Results(results.folder, store.run, results.measurements)


def _weigh_section(
    section: WeighSection,
    setting: Setting,
    store: Store,
    program: Program,
    managers: Mapping[str, Manager],
    limits: Limits,
    watcher: Watcher,
) -> Results:
    expected = section.expected_seconds(setting)
    watcher.begin(section.TITLE, section.expected_runs(setting), expected)
    earlier = store.run.get("sections", {}).get(section.IDENTIFIER, {}).get("took_seconds", 0.0)
    begun = time.monotonic()
    known = dict(managers)

    def planner(records: Sequence[Record]) -> list[Run]:
        runs = section.next_runs(setting, records)
        added = {run.manager for run in runs} - known.keys()
        if added:
            replayed = {run.manager for run in runs if run.observer in REPLAYING}
            new = {
                name: managers_module.resolve(name, replays=name in replayed)
                for name in sorted(added)
            }
            known.update(new)
            store.update(managers={**store.run["managers"], **describe_managers(new)})
        return runs

    observers = {**executor.OBSERVERS, **getattr(section, "OBSERVERS", {})}
    results = execute(store, planner, {program.name: program}, known, limits, watcher, observers)
    costs = dict(store.run.get("sections", {}))
    took = earlier + time.monotonic() - begun
    costs[section.IDENTIFIER] = {"expected_seconds": expected, "took_seconds": took}
    store.update(sections=costs)
    return Results(results.folder, store.run, results.measurements)


def _pilot(
    store: Store,
    program: Program,
    managers: dict[str, Manager],
    baseline: str,
    limits: Limits,
    watcher: Watcher,
) -> tuple[dict[str, Manager], str]:
    """One run as the program is: how long it takes, and whether it brings its own allocator.

    A program that links another malloc than the C library's is its own baseline, and glibc one of
    the alternatives.
    """
    done = [r for r in store.records if r.run.study == PILOT_STUDY]
    if not done:
        watcher.note("one run to see how long it takes")
        run = Run(PILOT_STUDY, program.name, OWN, 0, 0, warmup=True)
        own = {OWN: managers_module.resolve(OWN)}
        executor.execute(
            lambda records: [] if records else [run],
            {program.name: program},
            own,
            limits,
            store,
            lambda *_: None,
        )
        done = store.records
    outcome = done[0].outcome
    if outcome.status is Status.OK:
        store.update(pilot_seconds=outcome.values["wall_seconds"])
    else:
        store.update(pilot_seconds=limits.timeout_seconds or 1.0)
    glibc = managers_module.resolve("glibc")
    brings_its_own = outcome.status is Status.OK and not glibc.serves(outcome.server)
    if brings_its_own and baseline == "glibc":
        watcher.note(f"the program links an allocator of its own, {outcome.server}")
        managers = {OWN: managers_module.resolve(OWN), **managers}
        baseline = OWN
        store.update(baseline=baseline, managers=describe_managers(managers))
    return managers, baseline
