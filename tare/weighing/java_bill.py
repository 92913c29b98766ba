"""What `tare weigh` does for a Java program: its managers are the collectors of a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tare.base.errors import UsageError
from tare.memory_managers import conditions, suitable
from tare.memory_managers.manager import Manager, describe_managers, parse_name, resolve
from tare.memory_managers.runtimes import jvm
from tare.memory_managers.runtimes.jvm.collectors import COLLECTORS
from tare.memory_managers.runtimes.jvm.collectors import OWN as OWN_COLLECTOR
from tare.observers.protocol import Observe
from tare.programs import java_command
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import Store
from tare.records.runs import Outcome
from tare.studykit.least_heap.executed import UNIT, in_heap

RUNTIME = jvm.NAME
OWN = f"{jvm.NAME}.{OWN_COLLECTOR}"
COLLECTOR = ""
"""The setting of a manager that its name says, for ``jvm.without``."""
HEAP_SETTINGS = ("heap", "young")
"""Those that the program may not have where a section varies the heap."""


def runtime_of(program: Program, managers: Sequence[str]) -> str:
    """The runtime whose collectors the bill compares, or "" where it compares allocators: that of
    the managers, and without any, of the command."""
    if not managers:
        return RUNTIME if java_command.is_java(program) else ""
    resolved = [resolve(name) for name in managers]
    found = {
        manager.runtime.runtime if manager.runtime and manager.of_runtime_alone else ""
        for manager in resolved
    }
    if len(found) > 1 or not found <= {"", RUNTIME}:
        raise UsageError(
            "a bill compares either allocators or the collectors of a JVM",
            "give managers of one kind; tare compare takes any together",
        )
    return found.pop()


def default_managers(program: Program) -> list[str]:
    """The collectors that the program's JVM has, of those that are for use."""
    names = [name for name in jvm.LIMITED if jvm.has(program, name.partition(".")[2])]
    return names or [OWN]  # whose run will say what is wrong with the JVM


def check(program: Program, managers: Iterable[Manager]) -> None:
    """Raise what ``runtimes.check`` raises for the runs of all sections."""
    managers = list(managers)
    suitable.check([jvm.without(program, COLLECTOR)], managers)
    in_heaps = [resolve(in_heap(name, UNIT)) for name in collectors(m.name for m in managers)]
    suitable.check([jvm.without(program, COLLECTOR, *HEAP_SETTINGS)], in_heaps)


def settle(
    store: Store,
    program: Program,
    pilot: Outcome,
    managers: Mapping[str, Manager],
    baseline: str,
    *,
    add_own: bool,
) -> tuple[dict[str, Manager], str]:
    """The managers and the baseline, now that the pilot run showed which collector the program runs
    under: that is the baseline if it takes part, as with ``add_own`` it does, unless another was
    asked for."""
    if pilot.status is Status.NOT_LOADED:
        raise UsageError(
            f"{program.name}: no JVM could be observed: {pilot.reason}",
            "collectors can be compared for Java 11 or later; "
            "tare weigh -m glibc compares allocators under any program",
        )
    processes = pilot.details.get(RUNTIME, {}).get("processes", [])
    shown = processes[0] if processes else {"collector": ""}
    named = {name: manager for name, manager in managers.items() if name != OWN}
    own = f"{RUNTIME}.{shown['collector']}"
    if (add_own or not named) and shown["collector"] in COLLECTORS:
        named[own] = resolve(own)
    first = baseline or (own if own in named else next(iter(named or managers)))
    ordered = {first: {**managers, **named}[first], **named}
    left_out = {
        "collector": jvm.own_options(program, COLLECTOR),
        "heap": jvm.own_options(program, *HEAP_SETTINGS),
    }
    store.update(
        baseline=first,
        managers=describe_managers(ordered),
        java={**shown, "left_out": left_out},
    )
    return ordered, first


def collectors(managers: Iterable[str]) -> list[str]:
    """The collectors of managers, without their options, of which a heap can be asked for that they
    keep to by collecting."""
    names = dict.fromkeys(parse_name(conditions.split_name(name)[0])[0] for name in managers)
    return [name for name in names if name not in (OWN, f"{RUNTIME}.epsilon")]


def without(observe: Observe, *settings: str) -> Observe:
    """``observe`` of the program without its own options that say what ``settings`` say."""
    return lambda program, *others: observe(jvm.without(program, *settings), *others)
