"""What tests of replays share: the replayer itself, and what a schedule holds."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tare.base.native import native_file

ALLOCATORS = ("glibc", "jemalloc", "mimalloc")
Compiled = Callable[..., tuple[Path, dict[str, int]]]


def replayer(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [native_file("bin/tare-replay"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def shown(schedule: Path) -> list[str]:
    """The events of a schedule, each as a short text."""
    done = replayer("show", schedule)
    assert done.returncode == 0, done.stderr
    texts = []
    for line in done.stdout.splitlines():
        name, _, rest = line.partition(" { ")
        fields = dict(part.split(": ") for part in rest.rstrip(" }").split(", "))
        if fields.get("region") == "None":
            del fields["region"]
        texts.append(" ".join([name, *(text for text in fields.values() if text != "false")]))
    return texts
