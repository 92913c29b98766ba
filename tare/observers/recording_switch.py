"""Turns the recorder on and off while a program runs: by the page that its processes share, and by
a control file that a user writes to. observers/recorder/switch.hpp has the other side."""

from __future__ import annotations

import mmap
import os
import select
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tare.base.errors import UsageError

FILE = "switch"
"""In the folder of a recording."""

_PAGE_BYTES = 4096
_HEAD = struct.Struct("<IIQ")
_UNTIL = struct.Struct("<Q")
_UNTIL_AT = 8
_CHANGE = struct.Struct("<QQ")
_MOST_CHANGES = (_PAGE_BYTES - _HEAD.size) // _CHANGE.size
_ON, _OFF = 0, 1
_MOST_LINE_BYTES = 64


class Switch:
    """The switch of a recording, a context manager; a new one is ``paused`` or on."""

    def __init__(self, recording: Path, *, paused: bool) -> None:
        path = recording / FILE
        head = _HEAD.pack(_OFF if paused else _ON, 0, 0)
        path.write_bytes(head.ljust(_PAGE_BYTES, b"\0"))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _PAGE_BYTES)

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        self._page.close()

    def turn(self, *, on: bool) -> None:
        """Nothing happens where it is so already, or has been turned too often."""
        power, used, _ = _HEAD.unpack_from(self._page)
        wanted = _ON if on else _OFF
        if power == wanted or used >= _MOST_CHANGES:
            return
        change = time.monotonic_ns() << 1 | wanted
        _CHANGE.pack_into(self._page, _HEAD.size + used * _CHANGE.size, change, 0)
        (until,) = _UNTIL.unpack_from(self._page, _UNTIL_AT)
        _HEAD.pack_into(self._page, 0, wanted, used + 1, until)

    def until(self, moment: float) -> None:
        """When a recorder that came into a running process leaves it by itself, in seconds of the
        monotonic clock."""
        _UNTIL.pack_into(self._page, _UNTIL_AT, int(moment * 1e9))


@contextmanager
def control_file(path: Path, switch: Switch, note: Callable[[str], None]) -> Iterator[None]:
    """While in the scope, a line ``on`` or ``off`` that is written to ``path`` turns the switch.
    The file is a named pipe: one that is there is used, else it is made, and removed at the end."""
    made = _make_pipe(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    waker, wake = os.pipe()
    reader = threading.Thread(target=_obey, args=(pipe, waker, switch, note), daemon=True)
    reader.start()
    try:
        yield
    finally:
        os.close(wake)
        reader.join()
        os.close(pipe)
        os.close(waker)
        if made:
            with suppress(OSError):
                path.unlink()


def _make_pipe(path: Path) -> bool:
    """Whether ``path`` was not there before."""
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if stat.S_ISFIFO(path.stat().st_mode):
            return False
        raise UsageError(
            f"the control file {path} exists and is not a named pipe", "name another"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot make the control file {path}: {error.strerror}") from None
    return True


def _obey(pipe: int, waker: int, switch: Switch, note: Callable[[str], None]) -> None:
    """Until the other end of ``waker`` is closed."""
    rest = b""
    while True:
        ready, _, _ = select.select([pipe, waker], [], [])
        if waker in ready:
            return
        *lines, rest = (rest + os.read(pipe, 4096)).split(b"\n")
        rest = rest[-_MOST_LINE_BYTES:]
        for line in lines:
            word = line[:_MOST_LINE_BYTES].decode(errors="replace").strip()
            if word in ("on", "off"):
                switch.turn(on=word == "on")
                note(f"recording is {word}")
            elif word:
                note(f"the control file takes the words on and off, not {word!r}")
