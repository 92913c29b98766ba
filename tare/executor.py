"""Starts what studies plan, one run at a time, and keeps every outcome as soon as it is there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tare import canary, drag_run, instrument, memsys, runner, space_run
from tare.manager import Manager
from tare.program import Program
from tare.results import OUTPUTS_FOLDER, Record, Run, Store, now
from tare.runner import Limits, Outcome

Observe = Callable[[Program, Manager, Limits, Path, Path | None], Outcome]
OBSERVERS: dict[str, Observe] = {
    "runner": runner.run_once,
    "instrument": instrument.run_once,
    "drag": drag_run.run_once,
    "memsys": memsys.run_once,
    "space": space_run.run_once,
}
"""What can watch a run; ``Run.observer`` names one."""

Planner = Callable[[Sequence[Record]], list[Run]]
Watcher = Callable[[Run, Record | None], None]
"""Called with a run before it starts (None) and with its record once it has ended."""


def execute(
    planner: Planner,
    programs: Mapping[str, Program],
    managers: Mapping[str, Manager],
    limits: Limits,
    store: Store,
    watch: Watcher,
    observers: Mapping[str, Observe] = OBSERVERS,
    clock: canary.Clock | None = None,
) -> None:
    """Do rounds of runs until ``planner`` has no more. ``observers`` are by the names in runs.
    ``clock`` says when the canary is visited between them.

    On Ctrl-C or SIGTERM the running program's whole tree is ended and KeyboardInterrupt goes on;
    what had finished is in the store.
    """
    with termination_as_interrupt():
        while runs := planner(store.records):
            for run in runs:
                watch(run, None)
                record = _execute_one(run, programs, managers, limits, store, observers)
                store.append(record)
                watch(run, record)
                if clock is not None:
                    for visited in canary.visits(store.workspace, store.records, clock):
                        store.append(visited)


def _execute_one(
    run: Run,
    programs: Mapping[str, Program],
    managers: Mapping[str, Manager],
    limits: Limits,
    store: Store,
    observers: Mapping[str, Observe],
) -> Record:
    started = now()
    outcome = observers[run.observer](
        programs[run.program],
        managers[run.manager],
        limits,
        store.workspace,
        None if programs[run.program].ignore_output else kept_output(store, run),
    )
    return Record(run, outcome, started)


def plain(text: str) -> str:
    """``text``, a name from outside, as a harmless part of a file's name; different texts give
    different parts."""
    import hashlib

    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in text)[:40].strip("-.")
    return f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def kept_output(store: Store, run: Run) -> Path:
    """One kept output per program and manager."""
    name = f"{plain(run.program)}.{plain(run.manager)}.stdout"
    return store.folder / OUTPUTS_FOLDER / name


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
