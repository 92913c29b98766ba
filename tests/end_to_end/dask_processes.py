"""Schedulers and workers of Dask as processes of their own, for tests that kill them.

As a program it is what they are forked from, for each would take seconds to import Dask anew: it
reads a JSON object a line, starts what that asks for, and answers with its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any


class Processes:
    """What was started, by name."""

    def __init__(self, parent: subprocess.Popen[str]) -> None:
        self._parent = parent
        self.pids: dict[str, int] = {}

    def _start(self, name: str, **request: Any) -> str:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps({"name": name, **request}) + "\n")
        self._parent.stdin.flush()
        answer = json.loads(self._parent.stdout.readline())
        self.pids[name] = answer["pid"]
        return str(answer["address"])

    def scheduler(self, name: str = "scheduler") -> str:
        """A new scheduler's address."""
        return self._start(name)

    def worker(self, name: str, scheduler: str, **changes: Any) -> None:
        """A worker; returns when it is registered. ``changes`` are those of ``_worker``."""
        self._start(name, scheduler=scheduler, **changes)

    def kill(self, name: str) -> None:
        with contextlib.suppress(ProcessLookupError):  # some die of themselves
            os.kill(self.pids.pop(name), signal.SIGKILL)


@contextlib.contextmanager
def processes() -> Iterator[Processes]:
    """Processes that have ended when this is left."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.dask_processes", scratch],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "DASK_LOGGING__DISTRIBUTED": "error"},
            text=True,
        ) as parent,
    ):
        started = Processes(parent)
        try:
            yield started
        finally:
            for name in list(started.pids):
                started.kill(name)
            assert parent.stdin is not None
            parent.stdin.close()
            parent.wait()


async def _scheduler(answer: int) -> None:
    from distributed import Scheduler

    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        _answer(answer, scheduler.address)
        await scheduler.finished()


async def _worker(
    answer: int,
    scratch: str,
    name: str,
    scheduler: str,
    version: str = "",
    one_core: bool = False,
    variables: dict[str, str] | None = None,
) -> None:
    """``version`` is what the worker says that its Tare is."""
    from distributed import Worker

    from tare.campaign.cluster import worker as ours

    ours.__version__ = version or ours.__version__  # type: ignore[attr-defined]
    os.environ.update(variables or {})
    if one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    async with Worker(
        scheduler, name=name, nthreads=2, local_directory=scratch, dashboard_address="127.0.0.1:0"
    ) as worker:
        _answer(answer, worker.address)
        await worker.finished()


def _answer(pipe: int, address: str) -> None:
    os.write(pipe, json.dumps({"pid": os.getpid(), "address": address}).encode() + b"\n")
    os.close(pipe)


def _serve(scratch: str) -> None:
    import distributed  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what is killed
    for line in sys.stdin:
        request = json.loads(line)
        answer, pipe = os.pipe()
        if os.fork() == 0:
            os.close(answer)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            task = _worker(pipe, scratch, **request) if "scheduler" in request else _scheduler(pipe)
            asyncio.run(task)
            os._exit(0)
        os.close(pipe)
        with os.fdopen(answer) as told:
            print(told.readline().strip() or "{}", flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
