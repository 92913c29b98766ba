"""Hands out the runs of a study to the workers of a Dask cluster, and collects what comes back.

The runs of a program are done one after another on one worker, those of different programs side by
side. Only this side decides what runs where: a worker that goes takes its task with it, and the run
is planned again. A run counts once its record is in the store, so none can be lost or count twice.
"""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.base import interrupts
from tare.base.errors import MissingError, TareError
from tare.base.files import hash_file, writing
from tare.campaign import canary, executor
from tare.campaign.cluster import Cluster
from tare.campaign.cluster import worker as there
from tare.campaign.cluster.connection import LOOK_SECONDS, connected, nobody_there, workers_of
from tare.campaign.cluster.machines import group_of, group_to_go_on, refusal
from tare.campaign.executor import Planner, Rig
from tare.campaign.watching import Watcher
from tare.programs.program import Program
from tare.programs.suite import load_suite, shipped_suites
from tare.records.metrics import Status
from tare.records.results import Store
from tare.records.runs import Outcome, Record, Run, now

if TYPE_CHECKING:
    from distributed import Client, Future

LOSSES_ALLOWED = 5
"""After so many workers have gone in a row while they ran a program under a manager, it is taken
for the cause: the run has failed."""


@dataclass
class _Job:
    """A task on a worker, and what is done with its result. Only measured runs have a ``run``."""

    future: Future
    done: Callable[[Any], None]
    run: Run | None = None


@dataclass
class _Worker:
    """``group`` is empty until the worker was looked at; ``refused`` says why it takes no part."""

    address: str
    name: str = ""
    host: str = ""
    group: str = ""
    refused: str = ""
    job: _Job | None = None
    clock: canary.Clock = field(default_factory=canary.Clock)

    @property
    def takes_part(self) -> bool:
        return bool(self.group) and not self.refused


def execute(
    planners: Mapping[str, Planner], rig: Rig, store: Store, watcher: Watcher, cluster: Cluster
) -> None:
    """Do rounds of runs until no planner, of which each program has one, has more. As
    ``executor.execute``, but on the workers of ``cluster``.

    On Ctrl-C or SIGTERM, and when this process dies, the programs on the workers are ended.
    """
    with interrupts.termination_as_interrupt(), connected(cluster.scheduler) as client:
        campaign = _Campaign(client, planners, rig, store, watcher, cluster)
        try:
            campaign.go()
        finally:
            campaign.let_go()


class _Campaign:
    """The state of one call of ``execute``. ``homes`` has the worker that each program under way is
    done on, and ``pending`` what is left of its round."""

    def __init__(
        self,
        client: Client,
        planners: Mapping[str, Planner],
        rig: Rig,
        store: Store,
        watcher: Watcher,
        cluster: Cluster,
    ) -> None:
        self._client = client
        self._planners = planners
        self._rig = rig
        self._store = store
        self._watcher = watcher
        self._cluster = cluster
        self._study = uuid.uuid4().hex
        self._source = _source(rig.programs, cluster.suite)
        self._compared = {name for name, each in rig.programs.items() if not each.ignore_output}
        self._workers: dict[str, _Worker] = {}
        self._homes: dict[str, str] = {}
        self._pending: dict[str, list[Run]] = {}
        self._finished: set[str] = set()
        self._waiting_since: dict[str, float] = {}
        self._losses: Counter[tuple[str, str]] = Counter()
        self._order = max((record.run.order for record in store.records), default=0)
        self._events: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._looked = float("-inf")

    def go(self) -> None:
        while self._finished != set(self._planners):
            self._look_at_workers()
            for worker in list(self._workers.values()):
                if worker.takes_part and worker.job is None:
                    self._hand_out(worker)
            self._collect()

    def let_go(self) -> None:
        """End what is under way."""
        futures = [worker.job.future for worker in self._workers.values() if worker.job]
        if futures:
            with contextlib.suppress(Exception):  # whatever ended the campaign is what is told
                self._client.cancel(futures, force=True)

    # Workers

    def _look_at_workers(self) -> None:
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        present = workers_of(self._client, self._cluster.scheduler)
        for worker in list(self._workers.values()):
            if worker.address not in present:
                self._lose(worker)
        for address in sorted(present - self._workers.keys()):
            worker = self._workers[address] = _Worker(address)
            self._submit(
                worker,
                partial(self._meet, worker),
                there.examine,
                self._study,
                self._source,
                {name: manager.runtime for name, manager in self._rig.managers.items()},
                self._rig.limits,
            )
        self._check_that_someone_is_there()

    def _meet(self, worker: _Worker, found: Mapping[str, Any]) -> None:
        worker.name, worker.host = f"{found['name']}@{found['host']}", found["host"]
        if reason := refusal(found, self._store.document):
            self._refuse(worker, reason)
            return
        worker.group = group_of(found["machine"], found["environment"])
        kept = {key: value for key, value in found.items() if key not in ("managers", "programs")}
        entry = {"group": worker.group, "joined": now(), **kept}
        machines = self._store.document.get("machines", {})
        self._store.update(machines={**machines, worker.name: entry})
        self._watcher.note(f"worker {worker.name} joined (group {worker.group})")
        if any(
            other is not worker and other.takes_part and other.host == worker.host
            for other in self._workers.values()
        ):
            self._watcher.note(
                f"several workers share {worker.host}: their runs disturb each other"
            )

    def _refuse(self, worker: _Worker, reason: str) -> None:
        worker.refused = reason
        self._leave_home(worker)
        self._watcher.note(f"worker {worker.name or worker.address} cannot take part: {reason}")

    def _lose(self, worker: _Worker) -> None:
        del self._workers[worker.address]
        self._leave_home(worker)
        job, worker.job = worker.job, None
        if worker.refused:
            return
        self._watcher.note(f"worker {worker.name or worker.address} is gone")
        if job is None:
            return
        self._client.cancel([job.future], force=True)
        if job.run is not None:
            self._blame(job.run)

    def _blame(self, run: Run) -> None:
        self._losses[run.program, run.manager] += 1
        if self._losses[run.program, run.manager] >= LOSSES_ALLOWED:
            reason = f"{LOSSES_ALLOWED} workers in a row were lost while it ran"
            self._keep(run, Outcome(Status.FAILED, reason), now())

    def _leave_home(self, worker: _Worker) -> None:
        for program in [name for name, home in self._homes.items() if home == worker.address]:
            del self._homes[program]
            self._pending.pop(program, None)

    def _check_that_someone_is_there(self) -> None:
        if any(not worker.refused for worker in self._workers.values()):
            self._waiting_since.pop("", None)
            return
        if self._workers:
            reasons = [f"{w.name or w.address}: {w.refused}" for w in self._workers.values()]
            raise MissingError(f"no worker can take part. {'. '.join(reasons)}")
        if not self._waited(""):
            return
        raise nobody_there(self._cluster.scheduler, bool(self._store.run.machines))

    def _waited(self, subject: str) -> bool:
        """Whether a program, or with "" everything, has waited for workers long enough."""
        if subject not in self._waiting_since:
            self._waiting_since[subject] = time.monotonic()
            self._watcher.note(
                f"{subject} waits for a machine like the one it was measured on"
                if subject
                else "waiting for workers"
            )
        waited = time.monotonic() - self._waiting_since[subject]
        return waited >= self._cluster.patience_seconds

    # Runs

    def _hand_out(self, worker: _Worker) -> None:
        if worker.clock.due():
            self._submit(worker, lambda result: self._keep_visit(worker, *result), there.visit)
            return
        run = self._next_run(worker)
        if run is None:
            return
        self._order += 1
        run = replace(run, order=self._order, machine=worker.name, group=worker.group)
        self._watcher.run(run, None)
        self._submit(
            worker,
            lambda result: self._keep(run, result[1], result[0], result[2]),
            there.measure,
            self._study,
            run,
            self._rig.observers[run.observer],
            self._rig.limits,
            run.program in self._compared and not self._output_of(run).exists(),
            run=run,
        )

    def _next_run(self, worker: _Worker) -> Run | None:
        while True:
            at_home = [name for name, home in self._homes.items() if home == worker.address]
            program = at_home[0] if at_home else self._pick(worker)
            if program is None:
                return None
            self._homes[program] = worker.address
            if not self._pending.get(program):
                mine = [
                    record
                    for record in self._store.records
                    if record.run.program == program and record.run.group == worker.group
                ]
                self._pending[program] = self._planners[program](mine)
            if self._pending[program]:
                return self._pending[program].pop(0)
            self._finished.add(program)
            del self._homes[program]

    def _pick(self, worker: _Worker) -> str | None:
        """The first program that nobody does and that this worker may."""
        present = {each.group for each in self._workers.values() if each.takes_part}
        for program in self._planners:
            if program in self._finished or program in self._homes:
                continue
            group = group_to_go_on(program, self._store.records, present)
            if group is not None:
                self._waiting_since.pop(program, None)
            if group in ("", worker.group) or (group is None and self._waited(program)):
                return program
        return None

    def _submit(
        self,
        worker: _Worker,
        done: Callable[[Any], None],
        function: Callable[..., Any],
        *arguments: Any,
        run: Run | None = None,
    ) -> None:
        future = self._client.submit(
            function, *arguments, workers=[worker.address], pure=False, retries=0
        )
        worker.job = _Job(future, done, run)
        future.add_done_callback(self._events.put)

    def _collect(self) -> None:
        """Take in what has ended; wait for it a while."""
        with contextlib.suppress(queue.Empty):
            self._take(self._events.get(timeout=LOOK_SECONDS))
            for _ in range(self._events.qsize()):
                self._take(self._events.get_nowait())

    def _take(self, future: Future) -> None:
        worker = next(
            (w for w in self._workers.values() if w.job and w.job.future.key == future.key), None
        )
        if worker is None or worker.job is None:
            return  # its worker was given up meanwhile
        job = worker.job
        error = future.exception() if future.status == "error" else None
        if future.status == "cancelled" or isinstance(error, there.Unknown | there.LetGo):
            self._lose(worker)
            return
        if error is not None:
            worker.job = None
            self._refuse(worker, _words(error))
            return
        try:
            result = future.result(timeout=LOOK_SECONDS)
        except TimeoutError:
            # Slow, or gone with the worker after it had ended: the next look tells which.
            self._events.put(future)
            return
        except CancelledError:
            self._lose(worker)
            return
        worker.job = None
        job.done(result)

    def _keep(self, run: Run, outcome: Outcome, started: str, output: bytes | None = None) -> None:
        path = self._output_of(run)
        if output is not None and not path.exists():
            with writing(self._store.folder):
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(output)
        record = Record(run, outcome, started)
        self._store.append(record)
        self._losses.pop((run.program, run.manager), None)
        self._watcher.run(run, record)

    def _keep_visit(
        self, worker: _Worker, started: str, seconds: float, outcomes: list[Outcome]
    ) -> None:
        worker.clock.visited(seconds)
        for record in canary.records_of(
            outcomes, started, self._store.records, worker.name, worker.group
        ):
            self._store.append(record)

    def _output_of(self, run: Run) -> Path:
        return executor.kept_output(self._store, run)


def _source(programs: Mapping[str, Program], suite: str) -> there.Source:
    """What workers are told of the programs: places are those of this machine."""
    here = Path.cwd()
    absolute = tuple(
        replace(
            program,
            directory=program.directory or here,
            stdin=program.stdin.absolute() if program.stdin else None,
        )
        for program in programs.values()
    )
    if not suite:
        return there.Source(absolute, here)
    path = load_suite(suite).path
    name = suite if suite in shipped_suites() else str(path)
    return there.Source(absolute, here, name, hash_file(path))


def _words(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"Tare, or this version of it, is not installed there ({error})"
    if isinstance(error, TareError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    return f"{type(error).__name__}: {error}"
