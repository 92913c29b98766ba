"""Records the heap trace of one run: by the recorder, by the instrument for what that lacks, or by
the agent of Java programs."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tare.base.errors import TareError, UsageError
from tare.base.version import __version__
from tare.heap_traces.conversion import convert
from tare.heap_traces.recording import read_processes
from tare.heap_traces.trace import is_trace, remove_trace
from tare.memory_managers.manager import Manager
from tare.observers import jvm_trace, protocol, recorder, runner
from tare.observers.asked import JVM, Asked
from tare.observers.instrument import Instrument, launcher, seeing_regions
from tare.observers.recording_switch import Switch, control_file
from tare.programs.program import Program, check_program, describe_program
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome, now

_COUNTED = ("allocated_bytes", "max_live_bytes", "instructions", "processes")
_PARTIAL = ".partial"
_PARTIAL_NAME = re.compile(r"\..+\.(\d+)\.[^.]+\.partial")


@dataclass(frozen=True)
class Wanted:
    """A heap trace in the folder ``target``, where one that is there is replaced. ``note`` is told
    what happens."""

    target: Path
    what: Asked
    note: Callable[[str], None] = lambda _: None


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path | None = None,
    keep_output: Path | None = None,
    *,
    wanted: Wanted,
) -> Outcome:
    """Run ``program`` under ``manager`` and leave the heap trace that is ``wanted``. Without a
    ``workspace`` the run's files lie beside it. See ``runner.run_once`` for the rest.

    However the run ends, what was recorded becomes a trace: meta.json then says that it is not
    complete, and why. So it does on KeyboardInterrupt, which goes on afterwards.

    The outcome has in ``details["trace"]`` what meta.json holds. Under the instrument it has the
    values and details of a count (see ``instrument.run_once``), under the recorder those of any
    run.
    """
    target, what, note = wanted.target, wanted.what, wanted.note
    if what.jvm:
        jvm_trace.check(program, what)
    facts: dict[str, Any] = {
        "tare": __version__,
        "observer": what.observer,
        "observed": what.observed(),
        "reachability_bytes": what.reachability_bytes,
        "sample_bytes": what.sample_bytes,
        "switched": what.has_switch,
        "last_seen": what.last_seen,
        "program": describe_program(program, check_program(program)),
        "manager": jvm_trace.MANAGER if what.jvm else manager.name,
        "manager_version": "" if what.jvm else manager.version,
        "started": now(),
        "machine": describe_machine(),
        "server": "",
        "wall_seconds": None,
        "status": "",
        **dict.fromkeys(_COUNTED),
    }
    with partial_folder(target, note) as partial:
        recording, folder = partial / "recording", partial / "trace"
        recording.mkdir()
        folder.mkdir()
        observed, observer = _observer(recording, manager, what)
        started = jvm_trace.under(program, recording, what, note) if what.jvm else program
        try:
            with _switch(recording, what, note):
                outcome = runner.run_once(
                    started, observed, limits, workspace or partial, keep_output, observer
                )
        except KeyboardInterrupt:
            note("interrupted: keeping what was recorded; interrupt again to discard it")
            finish(recording, folder, target, facts, "the recording was interrupted", note)
            raise
        wall = outcome.details.get("wall_seconds", outcome.values.get("wall_seconds"))
        facts |= {"server": outcome.server, "wall_seconds": wall, "status": str(outcome.status)}
        facts |= {name: _whole(outcome.values.get(name)) for name in _COUNTED}
        meta = finish(recording, folder, target, facts, outcome.reason, note)
    if outcome.status is Status.OK and not meta["processes"]:
        outcome = replace(outcome, status=Status.FAILED, reason=meta["reason"], values={})
    return replace(outcome, details={**outcome.details, "trace": meta})


@contextmanager
def _switch(recording: Path, what: Asked, note: Callable[[str], None]) -> Iterator[None]:
    """While in the scope, what the recording is turned on and off by is there."""
    with ExitStack() as scope:
        if what.has_switch:
            switch = scope.enter_context(Switch(recording, paused=what.paused))
            if what.control is not None:
                scope.enter_context(control_file(what.control, switch, note))
        yield


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _observer(recording: Path, manager: Manager, what: Asked) -> tuple[Manager, protocol.Observer]:
    """What watches the run, and the manager as it is then run."""
    if what.jvm:
        return manager, jvm_trace.JvmTrace(recording)
    if what.needs_instrument:
        return seeing_regions(manager), Instrument(*_options(recording, manager, what))
    in_front = recorder.in_front_of(
        manager,
        recording,
        stacks=what.sites,
        sample_bytes=what.sample_bytes,
        switched=what.has_switch,
        signal_number=what.signal_number,
    )
    return in_front, recorder.Recorder(recording, manager)


def require_observer(what: Asked) -> None:
    """Raise MissingError where what it takes to record this is not installed."""
    if what.jvm:
        if what.last_use or what.sample_bytes or what.has_switch:
            raise UsageError(
                "with --jvm all objects are recorded, and no uses",
                "leave out --last-use, --sample, --paused, --signal and --control",
            )
        if what.last_seen and not what.pointers:
            raise UsageError("--last-seen needs stores of pointers", "give --pointers as well")
        if what.reachability_bytes == 0:
            raise UsageError(
                "the deaths of a Java program are found by collections", "give --reachability"
            )
        jvm_trace.require()
    elif what.last_seen:
        raise UsageError("--last-seen is for Java programs", "give --jvm as well")
    elif what.needs_instrument:
        if what.sample_bytes:
            raise UsageError(
                "uses, pointers and reachability are recorded for all objects", "leave out --sample"
            )
        if what.has_switch:
            raise UsageError(
                "the instrument cannot be turned off: it must see all uses and pointers",
                "leave out --paused, --signal and --control",
            )
        launcher()
    else:
        recorder.require()


def _options(recording: Path, manager: Manager, what: Asked) -> Iterator[str]:
    yield f"--trace-folder={recording.resolve()}"
    yield f"--last-use={_yes(what.last_use)}"
    yield f"--sites={_yes(what.sites)}"
    yield f"--usable-size={_usable_size(manager)}"
    if what.pointers:
        yield "--pointers=yes"
    if what.reachability_bytes:
        yield f"--reachability={what.reachability_bytes}"


def _yes(wanted: bool) -> str:
    return "yes" if wanted else "no"


def _usable_size(manager: Manager) -> str:
    """How the tool learns of usable sizes: from the headers of glibc's chunks where glibc is sure
    to serve the program, else by calling the malloc_usable_size of what does."""
    return "glibc" if manager.name == "glibc" else "call"


@contextmanager
def partial_folder(target: Path, note: Callable[[str], None]) -> Iterator[Path]:
    """A folder beside ``target``, on its disk, for what is not finished; removed at the end. What
    one that was killed has left there is told."""
    for left in _left_behind(target.parent):
        note(f"{left} is left from a recording that was killed: remove it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = tempfile.mkdtemp(
            prefix=f".{target.name[:100]}.{os.getpid()}.", suffix=_PARTIAL, dir=target.parent
        )
    except OSError as error:
        raise TareError(
            f"cannot write to {target.parent}: {error.strerror or error}",
            "name another place with -o",
        ) from None
    try:
        yield Path(partial)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _left_behind(folder: Path) -> list[Path]:
    """Partial folders in ``folder`` whose process is no longer there."""
    try:
        there = [(path, _PARTIAL_NAME.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError:
        return []
    return sorted(
        path for path, name in there if name is not None and not Path("/proc", name[1]).is_dir()
    )


def finish(
    recording: Path,
    folder: Path,
    target: Path,
    facts: dict[str, Any],
    reason: str,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Make the trace of a recording, and put it at ``target`` when it is whole."""
    if facts["observer"] == "recorder":
        recorder.merge(recording, note)
        if facts["status"] == Status.OK:
            facts = facts | _sums(recording, sampled=facts["sample_bytes"] > 0)
    if facts["observer"] == JVM:
        if facts.get("last_seen"):
            jvm_trace.move_deaths(recording, note)
        found = jvm_trace.facts(recording, pointers="pointers" in facts["observed"])
        facts = {**facts, "clock": "events", "jvm": found}
        if facts["status"] == Status.OK:
            facts |= _sums(recording, sampled=False)
    meta = convert(recording, folder, facts, reason, note)
    refuse_occupied(target, replace_trace=True)
    if is_trace(target):
        remove_trace(target)
    try:
        folder.rename(target)
    except OSError as error:
        raise TareError(f"cannot write to {target}: {error.strerror or error}") from None
    return meta


def _sums(recording: Path, *, sampled: bool) -> dict[str, Any]:
    """What the processes of a recording add up to, for meta.json. What was alive at once does not
    follow from samples."""
    found = read_processes(recording)
    alive = None if sampled else sum(process.numbers["max_live_bytes"] for process in found)
    return {
        "allocated_bytes": sum(process.numbers["allocated_bytes"] for process in found),
        "max_live_bytes": alive,
        "processes": len({process.pid for process in found}),
    }


def refuse_occupied(target: Path, *, replace_trace: bool) -> None:
    """Raise UsageError where something is at ``target`` that a new trace must not replace."""
    if target.is_symlink() and not target.exists():
        raise UsageError(f"{target} is a broken link", "name another with -o")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not is_trace(target):
        raise UsageError(f"{target} exists and is not a heap trace", "name another with -o")
    if not replace_trace:
        raise UsageError(
            f"{target} holds a heap trace", "name another with -o, or replace it with --force"
        )
