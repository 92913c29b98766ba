"""What a bill says of a program whose runtime serves objects itself, so that the allocators in it
see only the rest."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from tare.base.errors import ProgramError, UsageError
from tare.base.interrupts import termination_as_interrupt
from tare.base.libraries import pl
from tare.base.units import format_bytes, format_count
from tare.memory_managers import runtimes, suitable
from tare.memory_managers.manager import OWN, Manager, resolve
from tare.memory_managers.runtimes import OwnHeap, Runtime
from tare.observers import runner
from tare.observers.coverage import refusal
from tare.programs import java_command
from tare.programs.program import Program
from tare.records.header import Header, Tried
from tare.records.metrics import Status
from tare.records.results import Results, Store, read_records
from tare.records.runs import Limits, Outcome, Record
from tare.report.model import Section
from tare.studies.count import report as count
from tare.studies.space import report as space
from tare.studies.space.details import Details
from tare.studykit.advice import run_as

IDENTIFIER = "own-heap"
_REST = "Allocators of the malloc family see only the rest"
MOST_OF_THE_TIME = 0.05
"""What a run to see whether a manager serves the program may take of the bill's time."""


def of_covered(program: Program, pilot: Outcome, limits: Limits, *, of_runtime: bool) -> Limits:
    """The limits of a bill's runs. Where malloc serves too little of the program, there is no bill;
    but of a runtime whose own heap the bill tells of, in words or by component, and of a JVM's own
    use of malloc, all runs count."""
    tells = of_runtime or runtimes.with_own_heap(pilot.executable) is not None
    if tells or java_command.is_java(program):
        return replace(limits, least_coverage=0.0)
    if reason := refusal(pilot, limits):
        raise ProgramError(f"{program.name}: {reason}", "nothing more was run")
    return limits


# ---- the manager that shows all objects ----


def revealing(
    store: Store, program: Program, pilot: Outcome, limits: Limits, most_seconds: float
) -> dict[str, Manager]:
    """The manager that takes each object of the program's runtime from glibc, where there is one
    and a run under it, which may take ``most_seconds``, shows that it serves the program. An
    interrupted bill has that run no second time."""
    tried = store.run.revealing
    if tried is None:
        tried = Tried(_candidate(store.run, pilot, most_seconds))
        if tried.manager:
            trial = _tried(store, program, resolve(tried.manager), limits)
            tried = Tried(tried.manager, _fault(trial, pilot))
        store.update(revealing=structs.asdict(tried))
    return {tried.manager: resolve(tried.manager)} if tried.manager and not tried.fault else {}


def _candidate(run: Header, pilot: Outcome, most_seconds: float) -> str:
    found = runtimes.with_own_heap(pilot.executable)
    if found is None or pilot.values.get("wall_seconds", most_seconds) >= most_seconds:
        return ""
    module, _ = found
    settings = [key for key in module.OVER_MALLOC if not _is_set(run, module, key)]
    return f"{module.NAME}.{settings[0]}(glibc)" if settings else ""


def _tried(store: Store, program: Program, manager: Manager, limits: Limits) -> Outcome:
    """A run under the manager, or why there can be none."""
    try:
        suitable.check([program], [manager])
    except UsageError as error:
        return Outcome(Status.NOT_LOADED, error.message.removeprefix(f"{program.name}: "))
    with termination_as_interrupt():
        return runner.run_once(program, manager, limits, store.workspace)


def _fault(trial: Outcome, pilot: Outcome) -> str:
    """Why a bill cannot have the manager, or ""."""
    if trial.status is not Status.OK:
        return trial.reason or str(trial.status)
    same = trial.output_sha256 == pilot.output_sha256
    return "" if same else "the program prints something else under it"


def _is_set(run: Header, module: Runtime, setting: str) -> bool:
    """Whether the program has that setting already."""
    given = {**run.environment.values, **run.programs[0].environment}
    variables = module.OVER_MALLOC[setting].items()
    return all(str(given.get(name, "")).startswith(value) for name, value in variables)


# ---- what is said ----


def about(results: Results) -> Section | None:
    """Three sentences at most, and the command to type; None where there is nothing to say."""
    run, records = results.run, read_records(results.folder)
    of_space = next((each for each in records if _is_of_space(each, run.baseline)), None)
    usage = of_space.outcome.details_as(Details) if of_space else None
    found = None if run.runtime else _runtime(records, usage)
    if found is None:
        return None
    module, heap = found
    tried = run.revealing or Tried()
    command: tuple[str, ...] = ()
    if any(_is_set(run, module, setting) for setting in module.OVER_MALLOC):
        sentences = [f"{heap.served}."]
    elif runtimes.over_malloc(run.baseline) is not None:
        command = ("tare", "compare", "-m", OWN, "-m", run.baseline)
        sentences = [f"{heap.served}.", f"{_typed(command)} compares the two."]
    else:
        figures = " and ".join([*_of_objects(results, module), *_of_peak(heap, usage)])
        sentences = [f"{heap.held}: {figures}." if figures else f"{heap.held}."]
        if tried.fault:
            sentences.append(f"{_REST}, and {tried.manager} cannot show more: {tried.fault}.")
        else:
            command = heap.command
            sentences.append(f"{_REST}; {_typed(command)} {heap.shows}.")
    names = ", ".join(runtimes.names_with_options(module))
    sentences.append(f"Managers of {module.TITLE}: {names}.")
    line = shlex.join([*command, *run_as(run.programs[0])])
    commands = [("to see it", line)] if command else []
    return Section(IDENTIFIER, f"Objects of {module.TITLE}", sentences, commands=commands)


def _typed(command: Sequence[str]) -> str:
    return f"`{shlex.join(command)} -- …`"


def _is_of_space(record: Record, baseline: str) -> bool:
    is_good = record.outcome.status is Status.OK
    return is_good and record.run.study == space.STUDY and record.run.manager == baseline


def _runtime(records: Iterable[Record], usage: Details | None) -> tuple[Runtime, OwnHeap] | None:
    """That of what the program became, or else of its process with most memory."""
    became = next((one for each in records if (one := each.outcome.executable)), "")
    found = runtimes.with_own_heap(became)
    return runtimes.with_own_heap(_program(usage)) if found is None and usage else found


def _of_objects(results: Results, module: Runtime) -> Iterator[str]:
    """Those that only a manager which shows all objects saw."""
    run = results.run
    made = results.measurements.filter(
        pl.col("study") == count.STUDY, pl.col("metric") == "objects", pl.col("status") == "ok"
    )
    medians = dict(made.group_by("manager").agg(pl.col("value").median()).iter_rows())
    some = medians.get(run.baseline)
    for setting in module.OVER_MALLOC:
        every = medians.get(f"{module.NAME}.{setting}({run.baseline})")
        if some is not None and every is not None and every > some:
            yield f"{format_count(every - some)} of its {format_count(every)} objects"


def _of_peak(heap: OwnHeap, usage: Details | None) -> Iterator[str]:
    """What the runtime maps for itself, of what is resident."""
    if usage is None or not heap.programs.fullmatch(Path(_program(usage)).name):
        return
    mine = [each for each in usage.mapped if heap.mappers.fullmatch(Path(each.file).name)]
    if size := sum(each.resident for each in mine):
        yield f"{format_bytes(size)} of the {format_bytes(usage.peak.resident)} at the peak"


def _program(usage: Details) -> str:
    """Of the process that the figures are about."""
    return max(((each.peak_bytes, each.program) for each in usage.processes), default=(0, ""))[1]
