"""One start of a server: made ready, put under load, left idle, and ended.

The manager is under the server alone. The loads run beside it, under no manager, one after another;
all of it is over before the server is told to end.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from msgspec import to_builtins

from tare.base.errors import TareError, UsageError
from tare.base.native import native_file
from tare.memory_managers.manager import Manager
from tare.observers import runner
from tare.observers.protocol import Observer
from tare.programs.program import PORT, Program, Service
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.serve.details import Phase, Served
from tare.studies.serve.loads import Read, read_load
from tare.studies.serve.processes import Used, resident_bytes, tree_below, used_by
from tare.studies.serve.ready import Ready, answers, free_port, ready_of
from tare.studykit.printed import Pattern, missing_from

LONGEST = "latency_max_seconds"
URLS = ("http://", "redis://", "memcached://")
_OF_START = (
    *("peak_resident_bytes", "collections", "full_collections", "pauses"),
    *("collector_seconds", "max_pause_seconds"),
)
"""What is kept of the whole of a start."""
WARM_UP, LOAD, IDLE = "warm-up", "load", "idle"
_FOR = "--for"
_WARM_UP_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_READ_SECONDS = 1.0
_OUTPUTS = ("stdout", "stderr")
_FIRST_OUTPUT = 1 << 16
_FIRST_SAMPLES_SECONDS = 0.1
_MOST_SAMPLES = 1000
_COST_SHARE = 50
"""Looking at memory takes at most one part in so many of a processor's time."""
_STOP_SECONDS = 10.0
_OUTPUT_LIMIT = 16 << 20
_TAIL = 300
_GOOD_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Asked:
    """What is done with each start: after a load that does not count ``periods`` of them, with
    ``idle_seconds`` after each; it may take ``ready_seconds`` to be ready. ``own`` are the user's
    patterns for figures."""

    periods: int
    idle_seconds: float
    ready_seconds: float
    own: Sequence[Pattern] = ()


def serve_once(
    asked: Asked,
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None,
) -> Outcome:
    """As ``runner.run_once``, of a server that is measured as ``asked``. `{port}` in the commands
    becomes a port that is free."""
    port = free_port()
    if program.service is None:
        raise UsageError(f"{program.name} is no service: nothing says what puts it under load")
    service = replace(
        program.service,
        load=_filled(program.service.load, port),
        stop=_filled(program.service.stop, port),
    )
    ready = ready_of(program.service.ready.replace(PORT, str(port)))
    program = replace(program, argv=_filled(program.argv, port))
    if answers(ready.address()):
        host, used = ready.address() or ("", 0)
        raise UsageError(
            f"port {used} of {host} is in use by a process that Tare did not start",
            f"end it, or write {PORT} for the port in all commands: a free one is put there",
        )
    observer = _Service(asked, service, ready)
    return runner.run_once(program, manager, limits, workspace, keep_output, observer)


def _filled(words: Sequence[str], port: int) -> tuple[str, ...]:
    return tuple(word.replace(PORT, str(port)) for word in words)


def load_command(load: Sequence[str], most_seconds: float | None = None) -> list[str]:
    """A load that begins with a URL is Tare's own; it can last ``most_seconds`` at most."""
    if not load[0].startswith(URLS):
        return [*load]
    words = [str(native_file("bin/tare-load")), *load]
    if most_seconds is not None and _FOR in words[:-1]:
        place = words.index(_FOR) + 1
        words[place] = f"{min(float(words[place]), most_seconds):g}"
    return words


class _FailedError(Exception):
    """The start gives no figures; the text says why."""


@dataclass
class _Service(Observer):
    """Watches the server, and what it does under the loads."""

    sees_allocations: ClassVar[bool] = False

    asked: Asked
    service: Service
    ready: Ready
    launcher: int = 0
    folder: Path = Path()
    begun: float = 0.0
    phases: list[Phase] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    loads: list[Mapping[str, float]] = field(default_factory=list)
    reader: str = ""
    failure: str = ""
    told_to_end: bool = False
    killed: bool = False
    ready_seconds: float = 0.0
    idle_bytes: list[int] = field(default_factory=list)
    used: list[Used] = field(default_factory=list)
    _every: float = _FIRST_SAMPLES_SECONDS
    _next: float = 0.0
    _next_read: float = 0.0

    def attend(self, launcher: int, folder: Path) -> Iterator[float]:
        self.launcher, self.folder = launcher, folder
        try:
            yield from self._until_ready()
            yield from self._load(WARM_UP)
            for _ in range(self.asked.periods):
                before = used_by(tree_below(launcher))
                yield from self._load(LOAD)
                after = used_by(tree_below(launcher))
                self.used.append(
                    Used(
                        after.processor_seconds - before.processor_seconds,
                        after.minor_faults - before.minor_faults,
                    )
                )
                yield from self._idle()
        except _FailedError as failure:
            self.failure = str(failure)
        yield from self._end()

    def ended(self, raw: dict[str, Any]) -> dict[str, Any]:
        if not self.told_to_end or raw["end"] not in ("exited", "signaled"):
            return raw
        good = (0, *(128 + number for number in _GOOD_SIGNALS))
        as_told = raw["end"] == "exited" and raw["code"] in good
        by_signal = raw["end"] == "signaled" and raw["signal"] in _GOOD_SIGNALS
        if as_told or by_signal or self.killed:
            return {**raw, "end": "exited", "code": 0, "signal": 0}
        return raw

    def complete(self, _folder: Path, _pids: Collection[int], outcome: Outcome) -> Outcome:
        if not self.told_to_end:
            doing = f"during its {self.phases[-1].name}" if self.phases else "before it was ready"
            self.failure = (
                f"the server ended by itself {doing}, with exit status 0: start it so that it "
                "stays in the foreground"
            )
        if self.failure:
            return replace(outcome, status=Status.FAILED, reason=self.failure, values={})
        served = Served(
            round(self.ready_seconds, 4),
            tuple((round(when, 3), number) for when, number in self.memory),
            tuple(self.phases),
            tuple(self.loads),
            self.reader,
            self.killed,
        )
        return replace(
            outcome,
            values={
                **self._values(),
                **{name: outcome.values[name] for name in _OF_START if name in outcome.values},
            },
            details={**outcome.details, "serve": to_builtins(served)},
        )

    def _values(self) -> dict[str, float]:
        metrics = dict.fromkeys(metric for load in self.loads for metric in load)
        values: dict[str, float] = {}
        for metric in metrics:
            found = [load[metric] for load in self.loads if metric in load]
            values[metric] = max(found) if metric == LONGEST else median(found)
        under_load = [
            number
            for when, number in self.memory
            if any(each.name == LOAD and each.start <= when <= each.end for each in self.phases)
        ]
        if under_load:
            values["loaded_resident_bytes"] = median(under_load)
        values["idle_resident_bytes"] = self.idle_bytes[-1]
        values["load_processor_seconds"] = median(each.processor_seconds for each in self.used)
        values["load_minor_faults"] = median(each.minor_faults for each in self.used)
        values["ready_seconds"] = self.ready_seconds
        return values

    # ---- what is done, in turns ----

    def _until_ready(self) -> Iterator[float]:
        started = time.monotonic()
        output = [self.folder / "stdout", self.folder / "stderr"]
        while not self.ready.is_so(output):
            if time.monotonic() - started > self.asked.ready_seconds:
                raise _FailedError(
                    f"it was not ready within {self.asked.ready_seconds:g} s (--ready)"
                )
            yield _LOOK_SECONDS
        self.begun = time.monotonic()
        self.ready_seconds = self.begun - started

    def _load(self, name: str) -> Iterator[float]:
        folder = self.folder / f"load-{len(self.phases)}"
        limits = Limits(output_bytes=_OUTPUT_LIMIT)
        start = self._now()
        self.phases.append(Phase(name, round(start, 3), round(start, 3)))
        command = load_command(self.service.load, _WARM_UP_SECONDS if name == WARM_UP else None)
        look = partial(self._sampled_unless_failed, folder)
        raw = yield from _beside("the load", command, limits, folder, look)
        self._ends_phase()
        text = "".join(_text(folder / each) for each in _OUTPUTS)
        read = read_load(text, self.asked.own)
        said = read.trouble or " ".join(text[-_TAIL:].split())
        if raw["end"] == "output-limit":
            raise _FailedError(f"the load printed more than {_OUTPUT_LIMIT >> 20} MiB")
        if raw["end"] != "exited" or raw["code"] != 0:
            how = f"signal {raw['signal']}" if raw["end"] == "signaled" else f"status {raw['code']}"
            raise _FailedError(f"the load ended with {how}: {said}")
        _refuse(read)
        if missing := missing_from(read.values, self.asked.own):
            raise _FailedError(
                f"the load printed nothing that --metric finds for {missing}: {said}"
            )
        if name == LOAD:
            self.reader = read.reader
            self.loads.append({**read.values, "load_seconds": raw["wall_nanoseconds"] / 1e9})

    def _idle(self) -> Iterator[float]:
        start = self._now()
        self.phases.append(Phase(IDLE, round(start, 3), round(start, 3)))
        while (left := start + self.asked.idle_seconds - self._now()) > 0:
            yield min(left, self._sampled())
        self.idle_bytes.append(resident_bytes(tree_below(self.launcher)))
        self._ends_phase()

    def _end(self) -> Iterator[float]:
        """Tell the server to end, and wait until it has; what does not end is killed."""
        self.told_to_end = True
        started = time.monotonic()
        tree = tree_below(self.launcher)
        if self.service.stop:
            limits = Limits(timeout_seconds=_STOP_SECONDS)
            folder = self.folder / "stop"
            yield from _beside("--stop", self.service.stop, limits, folder, lambda: _LOOK_SECONDS)
        elif tree:
            _signal(tree[0], signal.SIGTERM)
        while time.monotonic() - started < _STOP_SECONDS:
            yield _LOOK_SECONDS
        self.killed = True
        for pid in tree_below(self.launcher):
            _signal(pid, signal.SIGKILL)

    # ---- looking ----

    def _now(self) -> float:
        """Seconds since the server was ready."""
        return time.monotonic() - self.begun

    def _ends_phase(self) -> None:
        last = self.phases[-1]
        self.phases[-1] = Phase(last.name, last.start, round(self._now(), 3))

    def _sampled_unless_failed(self, folder: Path) -> float:
        """As ``_sampled``; a load may go on for ever after it has said that its requests fail."""
        now = self._now()
        if now >= self._next_read:
            self._next_read = now + _READ_SECONDS
            _refuse(read_load("".join(_first_lines(folder / each) for each in _OUTPUTS)))
        return self._sampled()

    def _sampled(self) -> float:
        """Looks at the memory where it is time to; the seconds until it is worth looking again."""
        now = self._now()
        if now >= self._next:
            begun = time.thread_time()
            self.memory.append((now, resident_bytes(tree_below(self.launcher))))
            if len(self.memory) > _MOST_SAMPLES:
                self.memory = self.memory[::2]
                self._every *= 2
            self._next = now + max(self._every, _COST_SHARE * (time.thread_time() - begun))
        return _LOOK_SECONDS


def _beside(
    what: str, command: Sequence[str], limits: Limits, folder: Path, look: Callable[[], float]
) -> Generator[float, None, dict[str, Any]]:
    """Runs a command beside the server, with its output in a new ``folder``; its end, as the
    launcher reports it. ``look`` gives the seconds between looks at it."""
    folder.mkdir()
    launched = runner.launch_beside(Program(what, tuple(command)), limits, folder)
    try:
        while (raw := launched.report(0)) is None:
            yield look()
    finally:
        launched.end()
    if raw["end"] == "error":
        raise UsageError(
            f"{what} {shlex.join(command)} cannot be started: {os.strerror(raw['error_number'])}",
            "name a command that is installed",
        )
    return raw


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _refuse(read: Read) -> None:
    if read.trouble:
        raise _FailedError(f"the load had failed requests: {read.trouble}")


def _first_lines(path: Path) -> str:
    """Whole ones; none where nothing was written yet."""
    try:
        with path.open("rb") as file:
            text = file.read(_FIRST_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return ""
    return text[: text.rfind("\n") + 1]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise TareError(f"cannot read {path}: {error.strerror}") from None
