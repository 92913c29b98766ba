"""Commands that are ended with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any


def run_in_group(
    command: Sequence[str], timeout: float | None = None, **settings: Any
) -> subprocess.CompletedProcess[bytes]:
    """As ``subprocess.run``, of a command without input, in a session of its own. At the time
    limit, and at an interruption, the whole session is killed."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, **settings
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
