"""Runs a server in the foreground for as long as its load takes, and leaves nothing behind.

The driver and the load are processes of the measured tree: what they cost is part of the figures,
the same under every manager.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

START_SECONDS = 10.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.002


def _guard(server: int) -> tuple[int, int]:
    """Starts a process that kills the server when the driver is gone; returns its id and a pipe.

    The kernel's own signal at the death of a parent (PR_SET_PDEATHSIG) is not enough: it is lost
    when a server gives up the rights of root, as apache does.
    """
    read_end, write_end = os.pipe()
    guard = os.fork()
    if guard == 0:
        os.close(write_end)
        # A byte says that all is well; the end of the pipe, that the driver was killed.
        if os.read(read_end, 1) == b"":
            with contextlib.suppress(ProcessLookupError):
                os.kill(server, signal.SIGKILL)
        os._exit(0)
    os.close(read_end)
    return guard, write_end


@contextlib.contextmanager
def serving(command: Sequence[str], connect: Callable[[], socket.socket]) -> Iterator[None]:
    """The server runs, and accepts connections, inside this context."""
    # A stop signal becomes an exception, so that the server is stopped in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    guard, pipe = _guard(server.pid)
    try:
        _wait_until_ready(server, connect)
        yield
        server.terminate()
        server.wait(STOP_SECONDS)
    finally:
        os.write(pipe, b".")
        os.waitpid(guard, 0)
        if server.poll() is None:
            server.kill()
            server.wait()


def _wait_until_ready(
    server: subprocess.Popen[bytes], connect: Callable[[], socket.socket]
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        if server.poll() is not None:
            sys.exit(f"the server ended with status {server.returncode} before it served")
        try:
            connect().close()
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"the server did not serve within {START_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        else:
            return


def unix_connection(path: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(path)
    except OSError:
        client.close()
        raise
    return client


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
