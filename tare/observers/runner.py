"""One run of one program under one manager: started, watched, accounted for, proved.

The accounting comes from ``tare-launch``, the proof from ``tare-probe``; both are described in
observers/runner.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tare.base.errors import TareError, UsageError
from tare.base.files import hash_file
from tare.base.native import native_file
from tare.memory_managers import layers, runtimes, suitable
from tare.memory_managers.manager import Manager
from tare.observers import conditions, containers
from tare.observers.coverage import coverage_of, judged, with_own_allocators
from tare.observers.protocol import Observer
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

_ERROR_TAIL = 2000
_KEPT_OUTPUT = 1 << 20
_REPORT_LIMIT = 1 << 24
_PROOF_LIMIT = 1 << 26
_PROOF_FIELDS = 13
_LOOK_UP_SECONDS = 0.5
_LEAST_FREE_BYTES = 128 << 10
_ALWAYS = ("probe", "coverage")
_UNSAFE_IN_PRELOAD = (" ", ":", "\n", "\t")  # LD_PRELOAD splits at them and has no quoting

_ending = threading.Event()
"""Set while the runs that other threads wait for are to be ended."""
Made = TypeVar("Made")

# Name, perf event type, perf event configuration (see perf_event_open(2)).
_COUNTERS = (
    ("cpu_instructions", 0, 1),
    ("cpu_cycles", 0, 0),
    ("cache_misses", 0, 3),
    ("tlb_misses", 3, 3 | (1 << 16)),
)


@dataclass(frozen=True)
class _Proof:
    kind: str
    pid: int
    image: int
    executable: str
    server: str
    frees: str


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Run ``program`` under ``manager``, watched by ``observer`` if any, and wait for its end.

    KeyboardInterrupt leaves only after the program's whole tree has been ended.

    ``workspace`` is a folder for this run's files, all removed again; standard output, up to
    1 MiB of it, is copied to ``keep_output`` where that is given and does not exist yet.
    """
    # Layers and runtimes say themselves what they serve, and an observer sees what is allocated.
    sees_allocations = observer is not None and observer.sees_allocations
    looks = not sees_allocations and manager.layer is None and manager.runtime is None
    names = _ALWAYS if looks else _ALWAYS[:1]
    own = (native_file(f"lib/libtare-{name}.so") for name in names)
    preloaded = suitable.built_for(program, (*own, *manager.preload))
    # What a process shows may lie behind one of the links, so they stay until it is judged.
    with _folder(workspace) as folder, _preloadable(preloaded) as preload:
        proof = folder / "proof"
        proof.touch()
        # Absolute, because the program has it as its working directory.
        scratch = (folder / "scratch").resolve()
        if program.scratch:
            scratch.mkdir()
        with _under_runtime(program, manager, folder) as started:
            environment = _environment(started, manager, preload, proof, scratch)
            if manager.layer is not None:
                counters = folder / "counters"
                counters.mkdir()
                variable = layers.layers()[manager.layer_name].COUNTERS_VARIABLE
                environment[variable] = str(counters.resolve())
            prefix = observer.prefix(folder) if observer else ()
            limits = replace(limits, conditions=manager.conditions.over(limits.conditions))
            launched = _launch(started, limits, folder, scratch, environment, prefix)
            attending = observer.attend(launched.pid, folder) if observer else iter(())
            raw = _collect(launched, attending)
        if raw["end"] == "error":
            _raise_start_error(program, raw)
        _refuse_full_disk(folder)
        if observer is not None:
            raw = observer.ended(raw)
        lines = _read_proof(proof)
        proofs = _proofs(lines)
        if observer is not None:
            raw["programs"] = [seen for seen in raw["programs"] if not observer.hosts(seen[2])]
        outcome = _judge(raw, manager, proofs, folder / "stderr")
        outcome = with_own_allocators(outcome, lines)
        if outcome.status is Status.OK and (found := coverage_of(lines)) is not None:
            outcome = judged(outcome, found, manager, limits)
        if manager.layer is not None and outcome.status in (Status.OK, Status.FAILED):
            outcome = _judge_layer(outcome, manager, proofs, folder / "counters", raw["pid"])
        if manager.runtime is not None:
            runtime = runtimes.runtime(manager.runtime.runtime)
            outcome = runtime.judge(manager.runtime, outcome, folder)
        if observer is not None and outcome.status is Status.OK:
            pids = {*raw["pids"], *(proof.pid for proof in proofs)}
            outcome = observer.complete(folder, pids, outcome)
        outcome = replace(outcome, details={**outcome.details, **_steal(raw), **_container(raw)})
        output = folder / "stdout"
        if keep_output is not None and not keep_output.exists():
            _keep(output, keep_output)
        return _with_output(outcome, output, program)


def side_by_side(runs: Sequence[Callable[[], Made]]) -> list[Made]:
    """What each of ``runs`` gives, all done at the same time. Should one raise, or the wait for
    them be interrupted, the programs of the others are ended before that goes on."""
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    if len(runs) == 1:
        return [runs[0]()]
    try:
        with ThreadPoolExecutor(len(runs)) as pool:
            started = [pool.submit(run) for run in runs]
            try:
                ended, _ = wait(started, return_when=FIRST_EXCEPTION)
                for run in ended:
                    run.result()
            except BaseException:
                _ending.set()
                raise
            return [run.result() for run in started]
    finally:
        _ending.clear()


def observer_cost(workspace: Path, pairs: int = 5) -> float:
    """Seconds that the probe and its companion add to each process: the median difference between
    runs of ``true`` with and without them, taken in turns."""
    program = Program("true", ("true",))
    objects = " ".join(str(native_file(f"lib/libtare-{name}.so")) for name in _ALWAYS)
    differences = []
    with _folder(workspace) as folder:
        proof = folder / "proof"
        proof.touch()
        for _ in range(pairs):
            walls = []
            for preload in (objects, ""):
                environment = {**os.environ, "LD_PRELOAD": preload, "TARE_PROOF": str(proof)}
                limits = Limits(timeout_seconds=10)
                raw = _collect(_launch(program, limits, folder, folder, environment, ()), iter(()))
                walls.append(float(raw["wall_nanoseconds"]) / 1e9)
            differences.append(walls[0] - walls[1])
    return statistics.median(differences)


@contextmanager
def _folder(workspace: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=workspace))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _preloadable(objects: tuple[Path, ...]) -> Iterator[str]:
    """The value for LD_PRELOAD, by way of links where a path holds a separator."""
    links: Path | None = None
    try:
        names = []
        for number, path in enumerate(objects):
            text = str(path.resolve())
            if any(separator in text for separator in _UNSAFE_IN_PRELOAD):
                links = links or Path(tempfile.mkdtemp(prefix="tare-", dir="/tmp"))
                link = links / f"{number}-{path.name.translate(str.maketrans(' :', '__'))}"
                link.symlink_to(text)
                text = str(link)
            names.append(text)
        yield " ".join(names)
    finally:
        if links is not None:
            shutil.rmtree(links, ignore_errors=True)


@contextmanager
def _under_runtime(program: Program, manager: Manager, folder: Path) -> Iterator[Program]:
    """The program as the manager's runtime is to start it, if it has one. What that leaves goes
    into a folder whose path holds nothing that an option of a runtime could take for its own."""
    if manager.runtime is None:
        yield program
        return
    left = (folder / runtimes.FOLDER).resolve()
    left.mkdir()
    links = Path(tempfile.mkdtemp(prefix="tare-", dir="/tmp"))
    try:
        link = links / runtimes.FOLDER
        link.symlink_to(left)
        yield runtimes.runtime(manager.runtime.runtime).under(manager.runtime, program, link)
    finally:
        shutil.rmtree(links, ignore_errors=True)


def _environment(
    program: Program, manager: Manager, preload: str, proof: Path, scratch: Path
) -> dict[str, str]:
    environment = {**os.environ, **program.environment, **manager.environment}
    inherited = environment.get("LD_PRELOAD", "")
    environment["LD_PRELOAD"] = f"{preload} {inherited}".strip()
    environment["TARE_PROOF"] = str(proof.resolve())
    if manager.server is not None:
        environment["TARE_REDIRECT"] = "1"
    if program.scratch:
        for name, value in program.environment.items():
            environment[name] = value.replace("{scratch}", str(scratch))
    return environment


def _launch(
    program: Program,
    limits: Limits,
    folder: Path,
    scratch: Path,
    environment: Mapping[str, str],
    prefix: Sequence[str],
) -> Launched:
    place = conditions.arguments(limits.conditions)
    timeout = limits.timeout_seconds or program.timeout_seconds
    directory = scratch if program.scratch else program.directory
    report_read, report_write = os.pipe()
    groups = containers.make(limits.container) if limits.container else []
    command = [
        str(native_file("bin/tare-launch")),
        *("--report-fd", str(report_write)),
        *("--stdin", str(program.stdin or "/dev/null")),
        *("--stdout", str(folder / "stdout")),
        *("--stderr", str(folder / "stderr")),
        *("--output-limit", str(limits.output_bytes)),
        *place,
        *(word for group in groups for word in ("--group", str(group))),
    ]
    if timeout is not None:
        command += ["--timeout-ms", str(max(1, round(timeout * 1000)))]
    if limits.memory_bytes is not None:
        command += ["--memory-limit", str(limits.memory_bytes)]
    if directory is not None:
        command += ["--directory", str(directory)]
    for name, kind, configuration in _COUNTERS:
        command += ["--counter", f"{name}:{kind}:{configuration}"]
    arguments = list(program.argv)
    if program.scratch:
        arguments = [argument.replace("{scratch}", str(scratch)) for argument in arguments]
    try:
        launcher = subprocess.Popen(
            [*command, "--", *prefix, *arguments],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            pass_fds=(report_write,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(report_read)
        containers.remove(groups)
        raise UsageError(f"{program.name}: cannot be started: {error.strerror}") from None
    finally:
        os.close(report_write)
    return Launched(launcher, report_read, groups)


class Launched:
    """A command under tare-launch, which ends all that it started when this process ends, and
    removes the ``groups`` that it ran in."""

    def __init__(
        self, launcher: subprocess.Popen[bytes], report: int, groups: Sequence[Path] = ()
    ) -> None:
        self._launcher = launcher
        self._report = report
        self._groups = groups
        self._is_read = False
        self.pid = launcher.pid

    def report(self, wait: float) -> dict[str, Any] | None:
        """What it reports of its end, should that come within ``wait`` seconds."""
        if not select.select([self._report], [], [], wait)[0]:
            return None
        with open(self._report, "rb") as pipe:
            text = pipe.read(_REPORT_LIMIT)
        self._is_read = True
        self._launcher.wait()
        if not text:
            raise TareError(
                f"tare-launch ended without a report (exit status {self._launcher.returncode})",
                "is the machine out of memory or of processes?",
            )
        report: dict[str, Any] = json.loads(text)
        return report

    def end(self) -> None:
        """End its whole tree, if that has not ended."""
        if self._launcher.poll() is None:
            self._launcher.send_signal(signal.SIGTERM)
            self._launcher.wait()
        containers.remove(self._groups)  # of a launcher that was killed
        if not self._is_read:
            os.close(self._report)
            self._is_read = True


def launch_beside(program: Program, limits: Limits, folder: Path) -> Launched:
    """Start a command beside the program that is measured, under no manager; its output goes into
    ``folder`` as of a run."""
    return _launch(program, limits, folder, folder, {**os.environ, **program.environment}, ())


def _collect(launched: Launched, attending: Iterator[float]) -> dict[str, Any]:
    """Wait for the launcher's report; whatever interrupts the wait, its tree is ended first.
    ``attending`` is asked what to wait between looks, and does its own work when asked."""
    try:
        # A signal that another thread of this process took does not end a wait; so look up.
        while (report := launched.report(next(attending, _LOOK_UP_SECONDS))) is None:
            if _ending.is_set():
                raise KeyboardInterrupt
        if report["end"] == "interrupted":
            raise KeyboardInterrupt
        return report
    finally:
        if isinstance(attending, Generator):
            attending.close()
        launched.end()


def _raise_start_error(program: Program, raw: Mapping[str, Any]) -> None:
    problem = os.strerror(raw["error_number"])
    subject = raw["error_subject"]
    match raw["error_what"]:
        case "exec" | "directory" | "input":
            raise UsageError(f"{program.name}: cannot start, {subject}: {problem}")
        case "setting":
            raise TareError(
                f"{program.name}: the kernel refused the requested container, processors, memory "
                f"nodes or huge pages: {problem}"
            )
        case _:
            raise TareError(f"cannot write {subject}: {problem}", "is the disk full?")


def _refuse_full_disk(folder: Path) -> None:
    """A run whose output found no room on the disk must not pass for a failure of the program."""
    space = os.statvfs(folder)
    if space.f_bavail * space.f_frsize < _LEAST_FREE_BYTES:
        raise TareError(
            f"the disk that holds {folder.parent} is full",
            "free some space or name another folder with -o; the runs so far are kept",
        )


def _read_proof(path: Path) -> list[list[str]]:
    """The fields of each line."""
    with path.open("rb") as file:
        text = os.fsdecode(file.read(_PROOF_LIMIT))
    lines = [line.split("\t") for line in text.split("\n")]
    return [fields for fields in lines if fields[0] == "2"]


def _proofs(lines: Sequence[Sequence[str]]) -> list[_Proof]:
    return [
        _Proof(fields[1], int(fields[2]), int(fields[4]), fields[5], fields[6], fields[9])
        for fields in lines
        if len(fields) == _PROOF_FIELDS
    ]


def _in_proof(path: str) -> str:
    """As the probe writes it, whose fields end with a tab and whose lines with a newline."""
    return path.replace("\t", "?").replace("\n", "?")


def _judge(raw: Mapping[str, Any], manager: Manager, proofs: list[_Proof], errors: Path) -> Outcome:
    pids = set(raw["pids"]) | {proof.pid for proof in proofs}
    main = [proof for proof in proofs if proof.pid == raw["pid"]]
    # A process can become another program, or the same again: each image that was seen must have
    # shown its malloc. A child that still runs its parent's image is on its way to its own.
    images = {(proof.pid, proof.image) for proof in proofs}
    executables = {(proof.pid, proof.executable) for proof in proofs}
    unshown = []
    for pid, parent, path, image in raw["programs"]:
        shown, by = (images, image) if image else (executables, _in_proof(path))
        if not {(pid, by), (parent, by)} & shown:
            unshown.append((pid, path))
    unshown_main = [path for pid, path in unshown if pid == raw["pid"]]
    silent = (pids - {proof.pid for proof in proofs}) | {pid for pid, _ in unshown}
    status, reason = _status(raw, manager, main, proofs, unshown_main)
    sampled = len(pids) > 1
    values: dict[str, float] = {}
    if status is Status.OK:
        peak = raw["largest_process_bytes"]
        values = {
            "wall_seconds": raw["wall_nanoseconds"] / 1e9,
            "user_seconds": raw["user_microseconds"] / 1e6,
            "system_seconds": raw["system_microseconds"] / 1e6,
            "peak_resident_bytes": max(peak, raw["tree_bytes"]) if sampled else peak,
            "minor_faults": raw["minor_faults"],
            "major_faults": raw["major_faults"],
            "context_switches": raw["context_switches"],
            "processes": len(pids),
            **raw["counters"],
        }
    return Outcome(
        status=status,
        reason=reason,
        values=values,
        exit_code=raw["code"],
        signal=raw["signal"],
        server=main[-1].server if main else "",
        executable=main[-1].executable if main else "",
        silent_processes=len(silent - {raw["pid"]}),
        left_behind=raw["left_behind"],
        memory_is_sampled=sampled,
        error_tail=_tail(errors) if status is not Status.OK else "",
    )


def _steal(raw: Mapping[str, Any]) -> dict[str, Any]:
    """As ``tare.records.steal.Steal``; nothing where the kernel does not tell."""
    stolen, busy = raw["stolen_milliseconds"], raw["busy_milliseconds"]
    if stolen < 0 or busy < 0:
        return {}
    share = stolen / (stolen + busy) if stolen else 0.0
    return {"steal": {"seconds": stolen / 1e3, "share": round(share, 4)}}


def _container(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The most memory that the control group had, with files and what the kernel keeps for it."""
    peak = raw["group_peak_bytes"]
    return {"container": {"peak_bytes": peak}} if peak >= 0 else {}


def _judge_layer(
    outcome: Outcome, manager: Manager, proofs: list[_Proof], counters: Path, main: int
) -> Outcome:
    """``outcome`` with what the layer counted, or with a status of its own: the layer ran into its
    limit, or did not show that the manager stands behind it in every process."""
    layer = layers.layers()[manager.layer_name]
    processes = layers.read_folder(layer, counters)
    if outcome.status is Status.FAILED:
        reason = layer.ran_out(processes, outcome.exit_code)
        return replace(outcome, status=Status.OUT_OF_MEMORY, reason=reason) if reason else outcome
    started = [proof.pid for proof in proofs if proof.kind == "start"]
    reason = layers.fault(processes, started, manager.stands_behind)
    for proof in proofs:
        if not manager.serves(proof.frees):
            reason = f"free of {proof.executable} is served by {proof.frees}"
    if reason:
        return replace(outcome, status=Status.NOT_LOADED, reason=reason, values={})
    values = {**outcome.values, **layer.values(processes)}
    if "collector_seconds" in values:
        values["mutator_seconds"] = values["wall_seconds"] - values["collector_seconds"]
    return replace(
        outcome,
        values=values,
        details={**outcome.details, manager.layer_name: layer.details(processes, main)},
    )


def _status(
    raw: Mapping[str, Any],
    manager: Manager,
    main: list[_Proof],
    proofs: list[_Proof],
    unshown_main: list[str],
) -> tuple[Status, str]:
    """The status of a run and, unless it is ok, why. One process that another malloc serves is
    enough to spoil it: it may be the one that does the work."""
    match raw["end"]:
        case "timeout":
            return Status.TIMEOUT, "it was still running at the time limit and was killed"
        case "memory-limit":
            return Status.OUT_OF_MEMORY, "it exceeded the memory limit and was killed"
        case "output-limit":
            return Status.FAILED, "it printed more than the output limit and was killed"
    if raw["group_kills"] > 0:
        return Status.OUT_OF_MEMORY, "the kernel killed a process of it at its container's limit"
    match raw["end"]:
        case "signaled" if raw["signal"] == signal.SIGKILL and raw["oom_kills"] > 0:
            return Status.OUT_OF_MEMORY, "the kernel killed it for lack of memory"
        case "signaled":
            return Status.FAILED, f"it was killed by {_signal_name(raw['signal'])}"
    if not main and not manager.of_runtime_alone:  # a runtime shows itself
        return Status.NOT_LOADED, "the program did not show which object serves its malloc"
    if unshown_main and (manager.layer or manager.server) is not None:
        became = unshown_main[0]
        return Status.NOT_LOADED, f"it executed {became}, which did not show what serves its malloc"
    for proof in proofs:
        if not manager.serves(proof.server):
            return Status.NOT_LOADED, f"malloc of {proof.executable} is served by {proof.server}"
    if raw["setting_broken"]:
        reason = f"it left its part of the machine: {raw['setting_broken']}"
        return Status.NOT_LOADED, reason
    if raw["code"] != 0:
        return Status.FAILED, f"it ended with exit status {raw['code']}"
    return Status.OK, ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _ERROR_TAIL))
            return file.read(_ERROR_TAIL).decode(errors="replace")
    except OSError:
        return ""


def _keep(output: Path, kept: Path) -> None:
    if not output.exists():
        return
    kept.parent.mkdir(exist_ok=True)
    with output.open("rb") as source:
        kept.write_bytes(source.read(_KEPT_OUTPUT))


def _with_output(outcome: Outcome, output: Path, program: Program) -> Outcome:
    if program.ignore_output or not output.exists():
        return outcome
    return replace(outcome, output_sha256=hash_file(output), output_bytes=output.stat().st_size)
