"""What the command line does, as functions: each runs a study and returns its results folder.

import tare
results = tare.compare(["gawk", "-f", "x.awk"], managers=["jemalloc", "mimalloc"])
tare.summary(results)                 # a Polars frame; .to_pandas() for pandas
results.measurements                  # every row
tare.write_page(results)              # writes report.html, returns its path
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tare import drag_run, executor, instrument, recorder, space_run, tracing
from tare import manager as managers_module
from tare import memsys as memsys_module
from tare.errors import InterruptedStudy, MissingError, TareError, UsageError
from tare.events import as_text, read_events
from tare.executor import Observe
from tare.layers import delay as delay_layer
from tare.machine import describe_machine
from tare.manager import OWN, Manager
from tare.measurement import Status
from tare.planning import Plan, planned_runs
from tare.program import Program, check_program, describe_program, hash_file, program_from_command
from tare.results import (
    PAGE_FILE,
    Record,
    Results,
    Run,
    Store,
    default_folder,
    load,
    new_run,
    now,
)
from tare.runner import Limits, observer_cost
from tare.sections.instructions import is_built
from tare.studies import compare as compare_study
from tare.studies import count as count_study
from tare.studies import delay as delay_study
from tare.studies import drag as drag_study
from tare.studies import frequency as frequency_study
from tare.studies import memsys as memsys_study
from tare.studies import regions as regions_study
from tare.studies import space as space_study
from tare.studies import studies
from tare.sweeps import Variant
from tare.trace import Trace, is_trace, open_trace
from tare.tracing import Asked
from tare.weighing import TOTAL_SECONDS, Effort, Setting, WeighSection, sections, shares

if TYPE_CHECKING:
    import polars

    from tare.diff import DiffResult

Command = Program | Sequence[str]
PILOT_STUDY = "pilot"
NOT_BUILT = (
    "the instrument is not built; it needs Debian's package valgrind and a new build of Tare"
)


class Watcher:
    """Told of the progress of a study; the methods do nothing here."""

    def note(self, text: str) -> None:
        """Something worth saying once."""

    def begin(self, title: str, runs: int, expected_seconds: float | None) -> None:
        """A part of the study starts, of about ``runs`` runs."""

    def run(self, run: Run, record: Record | None) -> None:
        """``run`` is about to start, or has ended with ``record``."""

    def end(self) -> None:
        """The part has ended."""


def compare(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    runs: int = 10,
    warmup: int = 1,
    seed: int | None = None,
    precision: float | None = None,
    most_runs: int = 100,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
    study: str = compare_study.STUDY,
    label: str = "",
) -> Results:
    """Time and memory of programs under each manager.

    ``managers`` empty means the installed defaults; ``baseline`` is added to them when it is not
    among them, and is ``glibc`` or else the first. ``precision`` 0.01 measures until each interval
    of the wall-time ratio is within 1% of it, ``most_runs`` at most. A ``folder`` that holds an
    interrupted study of the same question is resumed.
    """
    _check_counts(runs, warmup, most_runs, precision)
    chosen = _programs(programs)
    resolved, baseline = _managers(managers, baseline)
    asked = {"runs": runs, "warmup": warmup, "precision": precision, "most_runs": most_runs}

    def plan(seed: int) -> _Planned:
        rounds = compare_study.Plan(
            programs=tuple(program.name for program in chosen),
            managers=tuple(resolved),
            baseline=baseline,
            runs=runs,
            warmup=warmup,
            seed=seed,
            precision=precision,
            most_runs=most_runs,
        )
        return _Planned(
            lambda records: compare_study.next_round(rounds, records),
            compare_study.planned_runs(rounds),
        )

    where = _Where(seed, limits, folder, watcher, label)
    return _measure(study, "time and memory", chosen, resolved, baseline, asked, plan, where)


@dataclass(frozen=True)
class _Planned:
    """What to run next, and how many runs that makes when nothing fails."""

    planner: executor.Planner
    runs: int


@dataclass(frozen=True)
class _Where:
    """What all studies are given beside their question. ``label`` is for the folder's name."""

    seed: int | None
    limits: Limits | None
    folder: Path | str | None
    watcher: Watcher | None
    label: str = ""


def _measure(
    study: str,
    doing: str,
    programs: Sequence[Program],
    managers: Mapping[str, Manager],
    baseline: str,
    asked: Mapping[str, Any],
    plan: Callable[[int], _Planned],
    where: _Where,
    observers: Mapping[str, Observe] = executor.OBSERVERS,
    **facts: Any,
) -> Results:
    """Do the runs of a study, which ``plan`` gives for a seed, in a results folder. ``doing`` is
    what progress says of them; ``asked`` is what the request holds beyond programs and managers,
    and ``facts`` are kept in run.json."""
    request = {
        "programs": [describe_program(program, check_program(program)) for program in programs],
        "managers": sorted(managers),
        "baseline": baseline,
        **asked,
    }
    run = new_run(study, sys.argv, **_facts(request, managers, where.seed), **facts)
    label = where.label or Path(programs[0].argv[0]).name
    folder = Path(where.folder) if where.folder else default_folder(study, label)
    watcher = where.watcher or Watcher()
    with Store(folder, run, key="request") as store:
        planned = plan(store.run["seed"])
        watcher.begin(doing, max(planned.runs - len(store.records), 0), None)
        return _execute(
            store,
            planned.planner,
            {program.name: program for program in programs},
            managers,
            where.limits or Limits(),
            watcher,
            observers,
        )


class _WatchedStudy(Protocol):
    """A study whose runs one observer other than the runner watches."""

    @property
    def STUDY(self) -> str: ...  # noqa: N802
    @property
    def OBSERVER(self) -> str: ...  # noqa: N802
    def next_round(self, plan: Plan, records: Sequence[Record]) -> list[Run]: ...


@dataclass(frozen=True)
class _Watched:
    """``doing`` is what progress says of the runs."""

    study: _WatchedStudy
    doing: str
    observe: Observe
    runs: int = 1


def _watch(
    watched: _Watched,
    programs: Command | Sequence[Program],
    managers: Sequence[str],
    baseline: str,
    asked: Mapping[str, Any],
    seed: int | None,
    limits: Limits | None,
    folder: Path | str | None,
    watcher: Watcher | None,
) -> Results:
    """Do the runs of a study that is not about time; ``asked`` is what its request holds beyond
    programs and managers."""
    chosen = _programs(programs)
    resolved, baseline = _managers(managers, baseline)
    study = watched.study
    plan = Plan(tuple(program.name for program in chosen), tuple(resolved), watched.runs)
    planned = _Planned(lambda records: study.next_round(plan, records), planned_runs(plan))
    return _measure(
        study.STUDY,
        watched.doing,
        chosen,
        resolved,
        baseline,
        asked,
        lambda _seed: planned,
        _Where(seed, limits, folder, watcher),
        {**executor.OBSERVERS, study.OBSERVER: watched.observe},
    )


def count(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    repeat: bool = True,
    events: Path | str | None = None,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Instructions of programs inside and outside each manager, by operation.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. With ``repeat`` each is
    counted twice, to see whether the count repeats to the instruction. ``events`` is a file as
    docs/events.md describes it.
    """
    instrument.launcher()
    runs = count_study.RUNS_TO_SEE_REPETITION if repeat else 1
    named = () if events is None else read_events(Path(events))
    asked = {"runs": runs, **({"events": as_text(named).splitlines()} if named else {})}
    watched = _Watched(count_study, "counting instructions", instrument.observer_of(named), runs)
    return _watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)


def drag(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = ("glibc",),
    *,
    baseline: str = "",
    how: drag_run.How | None = None,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """What programs hold in memory in vain, under each manager: lag, use, drag and void.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. Each run is recorded as a heap
    trace, which is kept in the folder ``traces`` of the results unless ``how`` discards it.
    """
    instrument.launcher()
    how = how or drag_run.How()
    asked = {"clock": how.clock, "reachability_bytes": how.reachability_bytes}
    watched = _Watched(drag_study, "recording lifetimes", drag_run.observer(how))
    return _watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)


def drag_of_trace(
    trace: Path | str,
    *,
    clock: str = "bytes",
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """As ``drag``, of a heap trace that is there already; nothing is run."""
    watcher = watcher or Watcher()
    outcome, facts = drag_run.outcome_of_trace(Path(trace), clock, watcher.note)
    run = new_run(drag_study.STUDY, sys.argv, **facts)
    where = Path(folder) if folder else default_folder(drag_study.STUDY, Path(trace).stem)
    with Store(where, run, key="request") as store:
        if not store.records:
            (program,), (manager,) = run["programs"], run["managers"]
            plan = Plan((program["name"],), (manager,))
            (planned,) = drag_study.next_round(plan, [])
            store.append(Record(planned, outcome, now()))
        results = store.finish()
        store.update(finished=now())
        return Results(results.folder, store.run, results.measurements)


def trace(
    program: Command,
    manager: str = "glibc",
    *,
    what: Asked | None = None,
    replace: bool = False,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Trace:
    """The heap trace of one run of ``program``, in the new folder ``folder``.

    The trace of a run that failed is there as well: ``meta["complete"]`` is then false, and
    ``meta["status"]`` and ``meta["reason"]`` say how it ended. On Ctrl-C what was recorded is kept,
    too. ``replace`` allows to replace a trace that is in ``folder``.
    """
    what = what or Asked()
    tracing.require_observer(what)
    (chosen,) = _programs(program)
    check_program(chosen)
    resolved = managers_module.resolve(manager)
    name = default_folder("trace", Path(chosen.argv[0]).name)
    target = Path(folder) if folder else name.with_name(f"{name.name}.tare")
    tracing.refuse_occupied(target, replace_trace=replace)
    watcher = watcher or Watcher()
    watcher.note("recording one run")
    try:
        with executor.termination_as_interrupt():
            tracing.run_once(
                chosen,
                resolved,
                limits or Limits(),
                target=target,
                what=what,
                note=watcher.note,
            )
    except KeyboardInterrupt:
        if is_trace(target):
            watcher.note(f"what was recorded until now is in {target}")
        raise
    return open_trace(target)


def memsys(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    models: Sequence[str] = (),
    curves: bool = False,
    baseline: str = "",
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Misses and stall cycles of programs in simulated memory systems, under each manager.

    ``models`` are names of shipped models, ``host``, or paths of TOML files with a slash; none
    means ``host``. The metrics are those of the first; the details of the runs have all. With
    ``curves`` the misses of caches of all sizes are found, too. ``managers``, ``baseline`` and
    ``folder`` are as for ``compare``.
    """
    instrument.launcher()
    how = memsys_module.how(models, curves)
    asked = {"models": memsys_module.describe(how), "curves": curves}
    watched = _Watched(memsys_study, "simulating the memory system", memsys_module.observer(how))
    return _watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)


def delay(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    sizes: Sequence[int] = (),
    scope: str = "thread",
    buffer: str = "grow",
    order: str = "fifo",
    runs: int = 10,
    warmup: int = 1,
    live: bool = True,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Time, memory and pauses of programs when their frees are held back and done in bulk.

    ``managers`` are the allocators that the delays stand before; none means the installed defaults.
    ``sizes`` are bytes to hold back, to which 1 is added; none means 4 KiB to 2 MiB. ``scope``,
    ``buffer`` and ``order`` are options of the layer. With ``live`` the program's live bytes are
    counted, in one run under the instrument, unless that would take too long.
    """
    _check_counts(runs, warmup)
    given = {"scope": scope, "buffer": buffer, "order": order}
    defaults = {option.name: option.default for option in delay_layer.RECIPE.options}
    changed = {name: value for name, value in given.items() if value != defaults[name]}
    sizes = sizes or delay_study.DEFAULT_SIZES

    def variants(allocators: Sequence[str]) -> list[Variant]:
        return delay_study.variants(allocators, sizes, changed)

    chosen = _programs(programs)
    resolved, baseline = _sweep(managers, variants)
    left_out = "it was not asked for" if not live else "" if is_built() else NOT_BUILT

    def plan(seed: int) -> _Planned:
        names = [program.name for program in chosen]
        timed = delay_study.timed_plan(names, list(resolved), baseline, runs, warmup, seed)
        whole = delay_study.Plan(timed, live=not left_out)
        return _Planned(
            lambda records: delay_study.next_round(whole, records), delay_study.planned_runs(whole)
        )

    asked = {"runs": runs, "warmup": warmup, "live": live}
    where = _Where(seed, limits, folder, watcher)
    return _measure(
        delay_study.STUDY,
        "time and memory of delays",
        chosen,
        resolved,
        baseline,
        asked,
        plan,
        where,
        live_left_out=left_out,
    )


def frequency(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    periods: Sequence[int] = (),
    reclaim: Sequence[int] = (),
    runs: int = 12,
    warmup: int = 1,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Mutator time of programs under a mark-sweep collector that collects more or less often.

    ``managers`` are the allocators that the collector stands before; none means glibc. ``periods``
    are bytes allocated between collections; none means 256 KiB to 16 MiB. ``reclaim`` has numbers
    N: free at each Nth collection only; none means 1, 4 and 16, and 0 and 1 are added. Nothing is
    freed without a collection, so runs without a limit of memory get half of the machine's.
    """
    _check_counts(runs, warmup)

    def variants(allocators: Sequence[str]) -> list[Variant]:
        return frequency_study.variants(
            allocators,
            periods or frequency_study.DEFAULT_PERIODS,
            reclaim or frequency_study.DEFAULT_RECLAIM,
        )

    chosen = _programs(programs)
    resolved, baseline = _sweep(managers or frequency_study.DEFAULT_ALLOCATORS, variants)
    limits = limits or Limits()
    if limits.memory_bytes is None:
        limits = replace(limits, memory_bytes=describe_machine()["memory_bytes"] // 2)

    def plan(seed: int) -> _Planned:
        names = [program.name for program in chosen]
        rounds = frequency_study.plan(names, list(resolved), baseline, runs, warmup, seed)
        return _Planned(
            lambda records: frequency_study.next_round(rounds, records),
            compare_study.planned_runs(rounds),
        )

    return _measure(
        frequency_study.STUDY,
        "mutator time of collection periods",
        chosen,
        resolved,
        baseline,
        {"runs": runs, "warmup": warmup},
        plan,
        _Where(seed, limits, folder, watcher),
    )


def _sweep(
    names: Sequence[str], variants: Callable[[Sequence[str]], Sequence[Variant]]
) -> tuple[dict[str, Manager], str]:
    """Resolve the variants of allocators, those named or the defaults; and the baseline: glibc if
    it takes part, else the first."""
    allocators = [
        managers_module.resolve(name) for name in names or managers_module.default_managers()
    ]
    for allocator in allocators:
        if allocator.layer_name:
            raise UsageError(
                f"{allocator.name} has a layer already", "give the allocator that it stands before"
            )
    bare = list(dict.fromkeys(allocator.name for allocator in allocators))
    resolved = {m.name: m for m in (managers_module.resolve(v.name) for v in variants(bare))}
    return resolved, "glibc" if "glibc" in bare else bare[0]


def regions(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    runs: int = 10,
    warmup: int = 1,
    drag: bool = True,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Time and memory of programs with their regions, and with these served in other ways.

    ``managers`` are the allocators that serve the regions' objects one by one; none means the
    installed defaults. Plain regions and reaps are tried under the first. With ``drag`` a run under
    the instrument shows what the regions hold in vain, unless that would take too long.
    """
    _check_counts(runs, warmup)
    chosen = _programs(programs)
    resolved, baseline = _sweep(managers, regions_study.variants)
    counted = managers_module.resolve(regions_study.counted(baseline).name)
    left_out = "it was not asked for" if not drag else "" if is_built() else NOT_BUILT
    dragged = "" if left_out else regions_study.dragged(baseline).name

    def plan(seed: int) -> _Planned:
        names = [program.name for program in chosen]
        timed = regions_study.timed_plan(names, list(resolved), baseline, runs, warmup, seed)
        whole = regions_study.Plan(timed, counted.name, dragged)
        return _Planned(
            lambda records: regions_study.next_round(whole, records),
            regions_study.planned_runs(whole),
        )

    return _measure(
        regions_study.STUDY,
        "time and memory of regions",
        chosen,
        {**resolved, counted.name: counted},
        baseline,
        {"runs": runs, "warmup": warmup, "drag": drag},
        plan,
        _Where(seed, limits, folder, watcher),
        drag_left_out=left_out,
    )


def space(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    keep_trace: bool = False,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Where the resident memory of programs goes under each manager, at the peak and over time.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. With ``keep_trace`` the heap
    traces stay in the folder ``traces`` of the results.
    """
    recorder.require()
    watched = _Watched(space_study, "looking at memory", space_run.observer(not keep_trace))
    asked = {"keep_trace": keep_trace}
    return _watch(watched, programs, managers, baseline, asked, seed, limits, folder, watcher)


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
    (chosen,) = _programs(program)
    watcher = watcher or Watcher()
    limits = limits or Limits()
    described = describe_program(chosen, check_program(chosen))
    names = list(managers) or managers_module.default_managers()
    resolved, baseline = _managers(names, baseline)
    request = {
        "programs": [described],
        "managers": sorted(resolved),
        "baseline": baseline,
        "effort": str(effort),
    }
    run = new_run("weigh", sys.argv, **_facts(request, resolved, seed))
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
            new = {name: managers_module.resolve(name) for name in sorted(added)}
            known.update(new)
            store.update(managers={**store.run["managers"], **_describe_managers(new)})
        return runs

    results = _execute(store, planner, {program.name: program}, known, limits, watcher)
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
        store.update(baseline=baseline, managers=_describe_managers(managers))
    return managers, baseline


def _execute(
    store: Store,
    planner: executor.Planner,
    programs: Mapping[str, Program],
    managers: Mapping[str, Manager],
    limits: Limits,
    watcher: Watcher,
    observers: Mapping[str, executor.Observe] = executor.OBSERVERS,
) -> Results:
    """Run what the planner asks for; on any interruption the folder is still made whole."""
    begun = time.monotonic()
    earlier = store.run.get("took_seconds", 0.0)
    if "observer_seconds" not in store.run:
        store.update(observer_seconds=observer_cost(store.workspace))
    try:
        executor.execute(planner, programs, managers, limits, store, watcher.run, observers)
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
    store.update(finished=now())
    return Results(results.folder, store.run, results.measurements)


def summary(results: Results) -> polars.DataFrame:
    """Medians, intervals, ratios to the baseline and verdicts, a row per program, manager and
    metric; see ``tare.studies.compare.summarise`` for the columns."""
    import polars as pl

    measurements, run = results.measurements, results.run
    summaries: pl.DataFrame = pl.concat(
        study.summarise(
            measurements.filter(pl.col("study") == study.STUDY), run["baseline"], run["seed"]
        )
        for study in studies()
    )
    return summaries.unique(["program", "manager", "metric"], keep="first", maintain_order=True)


def write_page(results: Results) -> Path:
    """Write the page of a results folder; returns its path."""
    from tare.report import page
    from tare.report.build import build_report
    from tare.results import writing

    path = results.folder / PAGE_FILE
    with writing(results.folder):
        page.write_page(build_report(results), path)
    return path


def difference(old: Results, new: Results, threshold: float = 0.02) -> DiffResult:
    """What changed beyond noise: ``.rows`` is a frame, ``.regressed`` says whether anything got
    worse by more than ``threshold``; see ``tare.diff.diff``."""
    from tare.diff import diff

    return diff(old, new, threshold=threshold)


def export_text(results: Results, name: str) -> str:
    """``results`` as text in one of the formats of ``tare export``: json, csv, markdown, …"""
    from tare.export import FORMATS

    if name not in FORMATS:
        raise UsageError(f"there is no format '{name}'", f"known: {', '.join(FORMATS)}")
    return FORMATS[name].render(results, summary(results))


def suite_programs(
    name_or_path: str, only: Sequence[str] = (), report: Callable[[str], None] = print
) -> list[Program]:
    """The programs of a suite that can run here, their inputs made, for ``compare``.

    ``only`` names some of them. ``report`` is told of those that cannot run, of what to install
    for them, and of what is made. Raises MissingError when none can run.
    """
    from tare.suite import as_program, load_suite, missing, prepare

    suite = load_suite(name_or_path)
    if unknown := sorted(set(only) - {program.name for program in suite.programs}):
        raise UsageError(f"the suite {suite.name} has no program {', '.join(unknown)}")
    ready = []
    needed: set[str] = set()
    for program in suite.programs:
        if only and program.name not in only:
            continue
        if lack := missing(program):
            needed.update(lack.packages)
            wanted = ", ".join([*lack.packages, *lack.files])
            report(f"SKIPPED {program.name}: not installed: {wanted}")
            continue
        prepare(program, report)
        ready.append(as_program(program))
    mend = f"apt-get install {' '.join(sorted(needed))}" if needed else ""
    if not ready:
        raise MissingError(f"no program of the suite {suite.name} can run here", mend)
    if mend:
        report(f"to run what was skipped too: {mend}")
    return ready


def examination() -> polars.DataFrame:
    """What works here: a row per check, with the columns subject, state, detail, mend, needed."""
    import polars as pl

    from tare.doctor import Finding, examine

    columns = [field.name for field in fields(Finding)]
    return pl.DataFrame([astuple(finding) for finding in examine()], schema=columns, orient="row")


def managers() -> polars.DataFrame:
    """Every manager that Tare knows: name, version, kind, installed, object, title."""
    import polars as pl

    from tare.recipes import load_recipes, object_path

    rows = []
    for recipe in load_recipes().values():
        found = object_path(recipe)
        there = recipe.kind == "system" or found is not None
        rows.append(
            (recipe.name, recipe.version, recipe.kind, there, str(found or ""), recipe.title)
        )
    columns = ["name", "version", "kind", "installed", "object", "title"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _check_counts(
    runs: int, warmup: int, most_runs: int = 0, precision: float | None = None
) -> None:
    if not 1 <= runs <= 100_000:
        raise UsageError(f"{runs} runs: give a number from 1 to 100000")
    if not 0 <= warmup <= 1000:
        raise UsageError(f"{warmup} warm-up runs: give a number from 0 to 1000")
    if precision is not None and not 0.0001 <= precision <= 1:
        raise UsageError(f"a precision of {precision}: give a fraction from 0.0001 to 1")
    if precision is not None and most_runs < runs:
        raise UsageError(f"at most {most_runs} runs is less than the {runs} asked for")


def _programs(given: Command | Sequence[Program]) -> tuple[Program, ...]:
    if isinstance(given, Program):
        return (given,)
    if isinstance(given, str):
        raise UsageError("a program is a list of words, not one string")
    if given and isinstance(given[0], Program):
        programs = tuple(item for item in given if isinstance(item, Program))
        if len({program.name for program in programs}) != len(given):
            raise UsageError("two programs of the same name")
        return programs
    return (program_from_command([str(word) for word in given]),)


def _managers(
    names: Sequence[str], baseline: str, *, replays: bool = False
) -> tuple[dict[str, Manager], str]:
    """Resolve names, for runs or for replays; the baseline comes first. The default baseline is
    glibc if it takes part."""
    wanted = list(names) or managers_module.default_managers()
    found = [managers_module.resolve(name, replays=replays) for name in wanted]
    resolved = {manager.name: manager for manager in found}
    if baseline:
        first = managers_module.resolve(baseline, replays=replays)
    else:
        first = resolved.get("glibc") or next(iter(resolved.values()))
        if len(resolved) == 1 and first.name not in ("glibc", OWN):
            first = managers_module.resolve("glibc")
    ordered = {first.name: first, **{n: m for n, m in resolved.items() if n != first.name}}
    for each in ordered.values():
        if each.server is not None and not each.server.exists():
            raise MissingError(f"the object {each.server} of {each.name} has gone")
    return ordered, first.name


def _facts(
    request: Mapping[str, Any], managers: Mapping[str, Manager], seed: int | None
) -> dict[str, Any]:
    return {
        "request": dict(request),
        "programs": request["programs"],
        "baseline": request["baseline"],
        "seed": random.SystemRandom().randrange(1 << 31) if seed is None else seed,
        "managers": _describe_managers(managers),
    }


def _describe_managers(managers: Mapping[str, Manager]) -> dict[str, Any]:
    return {
        name: {
            "version": manager.version,
            "title": manager.title,
            "object": str(manager.server) if manager.server else None,
            "object_sha256": hash_file(manager.server) if manager.server else None,
            **_describe_layer(manager),
            "environment": dict(manager.environment),
        }
        for name, manager in managers.items()
    }


def _describe_layer(manager: Manager) -> dict[str, str]:
    layer = manager.layer
    return {"layer": str(layer), "layer_sha256": hash_file(layer)} if layer else {}


def worst_status(results: Results) -> bool:
    """Whether any measured run gave a status instead of a number."""
    return bool((results.measurements["status"] != str(Status.OK)).any())


__all__ = [
    "Watcher",
    "compare",
    "count",
    "delay",
    "difference",
    "drag",
    "drag_of_trace",
    "examination",
    "export_text",
    "frequency",
    "load",
    "managers",
    "memsys",
    "regions",
    "space",
    "suite_programs",
    "summary",
    "trace",
    "weigh",
    "worst_status",
    "write_page",
]
