"""Recordings that only the tool that wrote them reads: it is started to write them as text."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.process_groups import run_in_group
from tare.base.text import shortened_sentence

_SECONDS = 600.0
_MOST_REASON = 300


class TooLongError(UsageError):
    """What the tool writes is longer than can be read."""


def first_bytes(path: Path) -> bytes:
    """How a file begins, as it is; nothing of what is no file or cannot be read."""
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError:
        return b""


@contextmanager
def written_by(path: Path, command: Callable[[Path], Sequence[str]], most: int) -> Iterator[Path]:
    """A file of the name of ``path`` that the tool wrote, to its standard output or to where
    ``command`` is given. UsageError where it cannot, or takes ten minutes; TooLongError from
    ``most`` bytes on."""
    with tempfile.TemporaryDirectory(prefix="tare-import-") as name:
        target = Path(name) / "text" / path.name
        target.parent.mkdir()
        words = list(command(target))
        printed = Path(name) / "printed"
        with printed.open("wb") as output:
            try:
                done = run_in_group(
                    words,
                    _SECONDS,
                    stdout=output,
                    stderr=subprocess.PIPE,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
                )
            except subprocess.TimeoutExpired:
                raise UsageError(
                    f"{path}: {Path(words[0]).name} took more than {_SECONDS / 60:.0f} minutes"
                ) from None
        if not target.exists():
            printed.rename(target)
        if target.stat().st_size >= most:
            raise TooLongError(f"{path} is longer than {most >> 20} MiB as text")
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"]
            reason = shortened_sentence(said[-1], _MOST_REASON)
            raise UsageError(f"{path} cannot be read by {Path(words[0]).name}: {reason}")
        yield target
