"""When a server is ready: what `--ready` says, and asking for it."""

from __future__ import annotations

import http.client
import random
import shlex
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tare.base.errors import UsageError
from tare.programs.program import PORT

LOCALHOST = "127.0.0.1"
_PATIENCE = 1.0
"""Seconds for one attempt."""
_MOST_LOG = 1 << 20
_PORTS = range(20_000, 32_000)
_FORMS = "tcp:PORT, tcp:HOST:PORT, http://HOST:PORT/PATH, log:TEXT or command:COMMAND"


@dataclass(frozen=True)
class Ready:
    """``kind`` is ``tcp``, ``http``, ``log`` or ``command``; ``what`` follows it."""

    kind: str
    what: str

    def address(self) -> tuple[str, int] | None:
        """Where it answers, if it is a matter of that."""
        if self.kind == "tcp":
            host, _, port = self.what.rpartition(":")
            return host.strip("[]") or LOCALHOST, int(port)
        if self.kind == "http":
            parts = urlsplit(f"http:{self.what}")
            return parts.hostname or LOCALHOST, parts.port or 80
        return None

    def is_so(self, output: Sequence[Path]) -> bool:
        """Whether the server, whose ``output`` goes to these files, is ready now."""
        match self.kind:
            case "tcp":
                return answers(self.address())
            case "http":
                return _serves(self.address(), f"http:{self.what}")
            case "log":
                return any(self.what.encode() in _start_of(path) for path in output)
            case _:
                return _succeeds(shlex.split(self.what))


def ready_of(text: str) -> Ready:
    """Of what is typed, `{port}` filled in or not."""
    kind, colon, what = text.partition(":")
    if not colon or kind not in ("tcp", "http", "log", "command") or not what:
        raise UsageError(f"--ready {text}: give {_FORMS}")
    try:
        if kind == "command" and not shlex.split(what):
            raise ValueError
        address = Ready(kind, what.replace(PORT, "1")).address()
        if address is not None and not 0 < address[1] < 1 << 16:
            raise ValueError
    except ValueError:
        raise UsageError(f"--ready {text}: give {_FORMS}") from None
    return Ready(kind, what)


def answers(address: tuple[str, int] | None) -> bool:
    """Whether something accepts connections there."""
    if address is None:
        return False
    try:
        with socket.create_connection(address, timeout=_PATIENCE) as made:
            # Where nobody listens, a connection can meet itself.
            return bool(made.getsockname() != made.getpeername())
    except OSError:
        return False


def free_port() -> int:
    """One that nothing listens on now, and that no connection is given by the kernel."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as tried, suppress(OSError):
            tried.bind((LOCALHOST, port))
            return port


def _serves(address: tuple[str, int] | None, url: str) -> bool:
    parts = urlsplit(url)
    if address is None:
        return False
    connection = http.client.HTTPConnection(*address, timeout=_PATIENCE)
    try:
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _start_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_LOG)
    except OSError:
        return b""


def _succeeds(command: Sequence[str]) -> bool:
    silent = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command, stdin=silent, stdout=silent, stderr=silent, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
