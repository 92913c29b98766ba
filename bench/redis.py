"""A redis server behind a socket of its own, for as long as something is asked of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PROGRAMS = ("redis-server", "redis-benchmark", "redis-cli")
STARTS_SECONDS = 10


def is_installed() -> bool:
    return all(map(shutil.which, PROGRAMS))


@contextlib.contextmanager
def served(
    folder: Path, variables: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The server, with more variables, and its socket in ``folder``, once it answers. Ended if it
    has not ended by then."""
    socket = folder / "redis.socket"
    words = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        ["redis-server", *words], env={**os.environ, **variables}, stdout=quiet, stderr=quiet
    ) as server:
        try:
            # A client that cannot connect ends at once: it is begun again until it can.
            ping = ["redis-cli", "-s", str(socket), "ping"]
            deadline = time.monotonic() + STARTS_SECONDS
            while subprocess.run(ping, check=False, stdout=quiet, stderr=quiet).returncode:
                if time.monotonic() > deadline or server.poll() is not None:
                    raise RuntimeError("redis-server does not answer")
                time.sleep(0.01)
            yield server, socket
        finally:
            if server.returncode is None:
                server.terminate()
