"""A command on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

CTRL_C = b"\x03"


class Terminal:
    """What the command draws is read, and keys are typed; Ctrl-C reaches all of its processes."""

    def __init__(
        self,
        words: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        columns: int = 80,
    ) -> None:
        self._screen, line = os.openpty()
        termios.tcsetwinsize(line, (24, columns))
        self._process = subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, "TERM": "xterm", **(environment or {})},
            stdin=line,
            stdout=line,
            stderr=line,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(line)
        self.drawn = ""
        """All so far, control characters included."""

    def wait_for(self, pattern: str) -> None:
        while not re.search(pattern, self.drawn):
            assert self._read(), f"ended without {pattern!r}: {self.drawn}"

    def press(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def end(self) -> int:
        """Waits for the end; the exit code, or less than 0: the signal."""
        while self._read():
            pass
        os.close(self._screen)
        return self._process.wait()

    def _read(self) -> bool:
        try:
            read = os.read(self._screen, 4096)
        except OSError:  # all have ended
            return False
        self.drawn += read.decode()
        return bool(read)
