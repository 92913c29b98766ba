"""A unit test starts no process: what does belongs elsewhere."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from typing import Any

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
_started: list[str] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS:
        _started.append(f"{event} {arguments[0]!r}" if arguments else event)


platform.processor()  # starts uname, once in a process
sys.addaudithook(_note)


@pytest.fixture(autouse=True)
def no_process() -> Iterator[None]:
    _started.clear()
    yield
    assert not _started
