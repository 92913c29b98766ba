"""What the command line does, as functions: each runs a study and returns its results folder.

import tare
results = tare.compare(["gawk", "-f", "x.awk"], managers=["jemalloc", "mimalloc"])
tare.summary(results)                 # a Polars frame; .to_pandas() for pandas
results.measurements                  # every row
tare.write_page(results)              # writes report.html, returns its path
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tare import (
    call_costs,
    drag_run,
    executor,
    instrument,
    recorder,
    regions_share,
    runtimes,
    space_run,
    tracing,
)
from tare import manager as managers_module
from tare import memsys as memsys_module
from tare.answers import (
    difference,
    explore,
    export_text,
    limits_broken,
    summary,
    worst_status,
    write_page,
)
from tare.bill import weigh
from tare.checking import check
from tare.cluster import Cluster
from tare.errors import MissingError, UsageError
from tare.events import as_text, read_events
from tare.executor import Observe
from tare.layers import delay as delay_layer
from tare.machine import describe_machine
from tare.manager import Manager
from tare.many_traces import drag_of_traces, space_of_traces
from tare.measuring import (
    Command,
    Planned,
    Watcher,
    Where,
    check_counts,
    in_rounds,
    managers_of,
    measure,
    programs_of,
)
from tare.planning import Plan, planned_runs
from tare.program import Program, check_program
from tare.results import Record, Results, Run, Store, default_folder, load, new_run, now
from tare.runner import Limits
from tare.sections.instructions import is_built
from tare.studies import compare as compare_study
from tare.studies import count as count_study
from tare.studies import delay as delay_study
from tare.studies import drag as drag_study
from tare.studies import frequency as frequency_study
from tare.studies import memsys as memsys_study
from tare.studies import regions as regions_study
from tare.studies import space as space_study
from tare.sweeps import Variant
from tare.trace import Trace, is_trace, open_trace
from tare.tracing import Asked

if TYPE_CHECKING:
    import polars

NOT_BUILT = (
    "the instrument is not built; it needs Debian's package valgrind and a new build of Tare"
)


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
    observe: Observe | None = None,
    cluster: Cluster | None = None,
    canary: bool = False,
) -> Results:
    """Time and memory of programs under each manager.

    ``managers`` empty means the installed defaults; ``baseline`` is added to them when it is not
    among them, and is ``glibc`` or else the first. ``precision`` 0.01 measures until each interval
    of the wall-time ratio is within 1% of it, ``most_runs`` at most. A ``folder`` that holds an
    interrupted study of the same question is resumed. ``observe`` watches the runs instead of the
    runner. With ``cluster`` its workers do the runs; ``canary`` also looks whether the machine
    drifts, as is always done on a cluster.
    """
    check_counts(runs, warmup, most_runs, precision)
    chosen = programs_of(programs)
    resolved, baseline = managers_of(managers, baseline)
    asked = {"runs": runs, "warmup": warmup, "precision": precision, "most_runs": most_runs}
    heaps: dict[str, Any] = {}
    if any(manager.runtime for manager in resolved.values()):
        from tare import runtime_heaps

        if runtime_heaps.has_multiples(resolved):
            folder = Path(folder) if folder else default_folder(study, label or chosen[0].argv[0])
            beside = folder.with_name(f"{folder.name}-least-heaps")
            settled, heaps = runtime_heaps.in_bytes(chosen, resolved, limits, beside, watcher)
            observe = runtime_heaps.observer(settled, observe or executor.OBSERVERS["runner"])
            resolved = settled[chosen[0].name]

    def plan(seed: int) -> Planned:
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
        return Planned(
            partial(compare_study.next_round, rounds),
            compare_study.planned_runs(rounds),
            {
                name: partial(compare_study.next_round, replace(rounds, programs=(name,)))
                for name in rounds.programs
            },
        )

    where = Where(seed, limits, folder, watcher, label, cluster, canary)
    facts: dict[str, Any] = {"heaps": heaps} if heaps else {}
    observers = {**executor.OBSERVERS, **({"runner": observe} if observe else {})}
    return measure(
        study,
        "time and memory",
        chosen,
        resolved,
        baseline,
        asked,
        plan,
        where,
        observers,
        **facts,
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
    """``doing`` is what progress says of the runs; ``others`` observe further ones, as many, by the
    names that the study gives them; ``narrow``: programs can have 32 bits."""

    study: _WatchedStudy
    doing: str
    observe: Observe
    runs: int = 1
    others: Mapping[str, Observe] = field(default_factory=dict)
    narrow: bool = False


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
    chosen = programs_of(programs)
    resolved, baseline = managers_of(managers, baseline)
    study = watched.study
    runtimes.check(chosen, resolved.values(), f"tare {study.STUDY}")
    plan = Plan(tuple(program.name for program in chosen), tuple(resolved), watched.runs)
    runs = planned_runs(plan) * (1 + len(watched.others))
    planned = Planned(lambda records: study.next_round(plan, records), runs)
    return measure(
        study.STUDY,
        watched.doing,
        chosen,
        resolved,
        baseline,
        asked,
        lambda _seed: planned,
        Where(seed, limits, folder, watcher),
        {**executor.OBSERVERS, study.OBSERVER: watched.observe, **watched.others},
        watched.narrow,
    )


def count(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    repeat: bool = True,
    events: Path | str | None = None,
    sites: bool = False,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Instructions of programs inside and outside each manager, by operation.

    ``managers``, ``baseline`` and ``folder`` are as for ``compare``. With ``repeat`` each is
    counted twice, to see whether the count repeats to the instruction. ``events`` is a file as
    docs/events.md describes it. With ``sites`` the operations are also told apart by call site.
    """
    instrument.launcher()
    runs = count_study.RUNS_TO_SEE_REPETITION if repeat else 1
    named = () if events is None else read_events(Path(events))
    asked = {
        "runs": runs,
        **({"events": as_text(named).splitlines()} if named else {}),
        **({"sites": True} if sites else {}),
    }
    observer_of = call_costs.observer_of if sites else instrument.observer_of
    watched = _Watched(count_study, "counting instructions", observer_of(named), runs)
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
    (chosen,) = programs_of(program)
    check_program(chosen)
    resolved = managers_module.resolve(manager)
    runtimes.check([chosen], [resolved], "tare trace")
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


def breakdown(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    runtime: str = "",
    models: Sequence[str] = (),
    baseline: str = "",
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """The instructions of programs by component of storage management.

    ``runtime`` names the descriptor to go by; without it that of the runtime in each process's
    executable is taken, or that of malloc. ``managers`` serve malloc; none means glibc, and own for
    programs of 32 bits. ``models`` are memory systems, named as for ``memsys``, that are simulated
    in the same run; none means that only instructions are counted. ``baseline`` and ``folder`` are
    as for ``compare``.
    """
    from tare.breakdown import memory
    from tare.breakdown import run as breakdown_run
    from tare.studies import breakdown as study

    instrument.launcher()
    descriptors = breakdown_run.described(programs_of(programs), runtime)
    loaded = memory.load(models)
    watched = _Watched(
        study,
        "counting instructions by component",
        breakdown_run.observer(runtime, loaded),
        others={study.PAGES: breakdown_run.count_pages},
        narrow=True,
    )
    asked: dict[str, Any] = {"runtime": runtime, "descriptors": descriptors}
    if loaded:
        breakdown_run.refuse_narrow(programs_of(programs))
        asked["models"] = memory.describe(loaded)
    managers = managers or (breakdown_run.default_manager(programs_of(programs)),)
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
    check_counts(runs, warmup)
    given = {"scope": scope, "buffer": buffer, "order": order}
    defaults = {option.name: option.default for option in delay_layer.RECIPE.options}
    changed = {name: value for name, value in given.items() if value != defaults[name]}
    sizes = sizes or delay_study.DEFAULT_SIZES

    def variants(allocators: Sequence[str]) -> list[Variant]:
        return delay_study.variants(allocators, sizes, changed)

    chosen = programs_of(programs)
    resolved, baseline = _sweep(managers, variants)
    left_out = "it was not asked for" if not live else "" if is_built() else NOT_BUILT

    def plan(seed: int) -> Planned:
        timed = _rounds(delay_study, chosen, resolved, baseline, runs, warmup, seed)
        whole = delay_study.Plan(timed, live=not left_out)
        return Planned(
            lambda records: delay_study.next_round(whole, records), delay_study.planned_runs(whole)
        )

    asked = {"runs": runs, "warmup": warmup, "live": live}
    where = Where(seed, limits, folder, watcher)
    return measure(
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
    check_counts(runs, warmup)

    def variants(allocators: Sequence[str]) -> list[Variant]:
        return frequency_study.variants(
            allocators,
            periods or frequency_study.DEFAULT_PERIODS,
            reclaim or frequency_study.DEFAULT_RECLAIM,
        )

    chosen = programs_of(programs)
    resolved, baseline = _sweep(managers or frequency_study.DEFAULT_ALLOCATORS, variants)
    limits = limits or Limits()
    if limits.memory_bytes is None:
        limits = replace(limits, memory_bytes=describe_machine()["memory_bytes"] // 2)

    references = frequency_study.references(tuple(resolved))
    return measure(
        frequency_study.STUDY,
        "mutator time of collection periods",
        chosen,
        resolved,
        baseline,
        {"runs": runs, "warmup": warmup},
        in_rounds(frequency_study, chosen, resolved, baseline, runs, warmup, references),
        Where(seed, limits, folder, watcher),
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


class _AgainstOthers(Protocol):
    """A study that holds managers against others than the baseline."""

    def references(self, managers: Sequence[str]) -> tuple[str, ...]: ...


def _rounds(
    study: _AgainstOthers,
    programs: Sequence[Program],
    managers: Mapping[str, Manager],
    baseline: str,
    runs: int,
    warmup: int,
    seed: int,
) -> compare_study.Plan:
    names = tuple(managers)
    return compare_study.Plan(
        tuple(program.name for program in programs),
        names,
        baseline,
        runs,
        warmup,
        seed,
        references=study.references(names),
    )


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
    check_counts(runs, warmup)
    chosen = programs_of(programs)
    resolved, baseline = _sweep(managers, regions_study.variants)
    counted = managers_module.resolve(regions_study.counted(baseline).name)
    left_out = "it was not asked for" if not drag else "" if is_built() else NOT_BUILT
    dragged = "" if left_out else regions_study.dragged(baseline).name

    def plan(seed: int) -> Planned:
        timed = _rounds(regions_study, chosen, resolved, baseline, runs, warmup, seed)
        shared = baseline if is_built() else ""
        whole = regions_study.Plan(timed, counted.name, dragged, shared)
        return Planned(
            lambda records: regions_study.next_round(whole, records),
            regions_study.planned_runs(whole),
        )

    return measure(
        regions_study.STUDY,
        "time and memory of regions",
        chosen,
        {**resolved, counted.name: counted},
        baseline,
        {"runs": runs, "warmup": warmup, "drag": drag},
        plan,
        Where(seed, limits, folder, watcher),
        {**executor.OBSERVERS, regions_study.SHARE_OBSERVER: regions_share.run_once},
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


__all__ = [
    "Watcher",
    "breakdown",
    "check",
    "compare",
    "count",
    "delay",
    "difference",
    "drag",
    "drag_of_trace",
    "drag_of_traces",
    "examination",
    "explore",
    "export_text",
    "frequency",
    "limits_broken",
    "load",
    "managers",
    "memsys",
    "regions",
    "space",
    "space_of_traces",
    "suite_programs",
    "summary",
    "trace",
    "weigh",
    "worst_status",
    "write_page",
]
