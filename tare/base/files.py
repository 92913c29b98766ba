"""Files that are written: whole or not at all, and where a user says."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tare.base.errors import TareError

_DESCRIPTOR = re.compile(r"(-|/dev/stdout|/dev/stderr)|(?:/dev|/proc/self)/fd/(\d{1,6})")
_STANDARD = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
RUNS_ARE_KEPT = "; finished runs are kept; to resume: the same command with -o and their folder"


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content; empty for what is not a regular file (a pipe, a terminal)."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writing(
    folder: Path, *, reader_may_leave: bool = False, what_is_kept: str = RUNS_ARE_KEPT
) -> Iterator[None]:
    """Turn the operating system's refusals to write into a message about ``folder``."""
    try:
        yield
    except OSError as error:
        if reader_may_leave and isinstance(error, BrokenPipeError):
            raise
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise TareError(
            f"cannot write to {folder}: {error.strerror or error}",
            f"{'free some space or ' if full else ''}name another place{what_is_kept}",
        ) from None


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write ``content`` so that a reader, or a crash, sees the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def descriptor_of(path: Path) -> int | None:
    """The open file that a path such as - or /dev/fd/63 stands for."""
    found = _DESCRIPTOR.fullmatch(str(path))
    return None if found is None else _STANDARD.get(found[1] or "") or int(found[2])


def write_to(path: Path, content: str | bytes) -> None:
    """Write ``content`` where a user says: into a pipe or a device, else atomically, and through a
    link into what it names. TareError says what the system refuses."""
    data = content.encode() if isinstance(content, str) else content
    number = descriptor_of(path)
    with writing(path, reader_may_leave=number == 1, what_is_kept=""):
        if number == 1:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
        elif number is not None:
            with os.fdopen(os.dup(number), "wb") as file:
                file.write(data)
        elif path.exists() and not path.is_file():
            with path.open("wb") as file:
                file.write(data)
        else:
            write_atomically(Path(os.path.realpath(path)), data)
