"""One run of a Java program under the agent of observers/jvm/trace, which records its heap.

The agent writes the tables of a raw recording itself. docs/java-traces.md says what is in them.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tare.base.errors import MissingError, TareError, UsageError
from tare.base.libraries import NDArray, np
from tare.base.native import native_file
from tare.heap_traces.recording import Process, TableReader, read_processes
from tare.observers import event_agent
from tare.observers.asked import Asked
from tare.observers.protocol import Observer
from tare.programs import java_command
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Outcome

OBJECT = "lib/libtare-jvm-trace.so"
MOVER = "bin/tare-jvm-last-seen"
MANAGER = "jvm.serial"
"""What the traced program runs under, so that a forced collection finds all garbage at once."""
DEFAULT_PERIOD = 4 << 20
"""Bytes allocated between two forced collections."""
_OPTIONS = (
    "-XX:+UseSerialGC",
    # The other compiler takes longer over the rewritten classes than it saves, and leaves objects
    # out that the program asks for.
    "-XX:TieredStopAtLevel=1",
    "-Xshare:off",  # objects of the archive have hashes of their own
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=3",  # identity hashes are numbers that follow one another
    "-XX:+PreserveFramePointer",  # the agent follows them up the stack
)
_WIDE_POINTERS = "-XX:-UseCompressedOops"
_CLASHES = re.compile(
    r"-XX:[+-]Use(?!Serial)\w+GC$|-XX:-UseSerialGC$|"
    r"-XX:[+-]TieredCompilation$|-XX:TieredStopAtLevel=|-XX:hashCode=|"
    r"-XX:-PreserveFramePointer$|-Xshare:|-X(int|comp)$"
)
_CLASHES_WITH_POINTERS = re.compile(r"-XX:[+-]UseCompressedOops$")
_COUNTED = (
    "first_objects",
    "first_bytes",
    "late_objects",
    "objects_at_end",
    "objects_found_at_end",
    "missed_objects",
    "missed_bytes",
    "checked_stacks",
    "wrong_stacks",
)
_COUNTED_WITH_POINTERS = (
    "stores",
    "lost_stores",
    "unseen_copies",
    "rewritten_classes",
    "unchanged_classes",
)
_REFERENCES = ("source", "target")
_NUMBER_BITS = 32


def require() -> Path:
    """The object that a JVM loads. MissingError where Tare was built without it."""
    try:
        return native_file(OBJECT)
    except MissingError:
        raise MissingError(
            "the observer of Java heaps is not built",
            "apt-get install default-jdk-headless, and build Tare again",
        ) from None


def check(program: Program, what: Asked) -> None:
    """Raise UsageError where an option of the program says otherwise than the agent needs."""
    for word in java_command.options_of(program):
        if _CLASHES.match(word) or (what.pointers and _CLASHES_WITH_POINTERS.match(word)):
            raise UsageError(
                f"{program.name}: the JVM's option {word} clashes with what tare trace --jvm sets",
                f"leave {word} out of the command and of {java_command.VARIABLE}",
            )


def under(program: Program, recording: Path, what: Asked, note: Callable[[str], None]) -> Program:
    """The program with the options that let its JVMs be recorded into the folder ``recording``."""
    jar = event_agent.agent_jar(note) if what.pointers else ""
    settings = f"period={what.reachability_bytes},sites={int(what.sites)}"
    agent = f"-agentpath:{require()}={settings},rewriter={jar},folder={recording.resolve()}"
    wide = [_WIDE_POINTERS] if what.pointers else []
    return java_command.with_options(program, [*_OPTIONS, *wide, agent])


class JvmTrace(Observer):
    """The observer of one run, of which a JVM must have left a recording."""

    def __init__(self, recording: Path) -> None:
        self._recording = recording

    def complete(
        self,
        folder: Path,  # noqa: ARG002
        pids: Collection[int],  # noqa: ARG002
        outcome: Outcome,
    ) -> Outcome:
        if read_processes(self._recording):
            return outcome
        reason = "no JVM of the run wrote a recording"
        return replace(outcome, status=Status.FAILED, reason=reason, values={})


def move_deaths(recording: Path, note: Callable[[str], None]) -> None:
    """Date the deaths of a recording by when the objects were last seen, and not by the collections
    that found them."""
    note("dating deaths by stores")
    for process in read_processes(recording):
        command = [str(native_file(MOVER)), str(process.stem)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise TareError(f"deaths cannot be dated: {done.stderr.strip()[-500:]}")


def facts(recording: Path, *, pointers: bool) -> dict[str, Any]:
    """What meta.json says of the completeness of a recording, summed over its JVMs."""
    processes = read_processes(recording)
    told = [_told(process) for process in processes]
    names = (*_COUNTED, *(_COUNTED_WITH_POINTERS if pointers else ()))
    found: dict[str, Any] = {name: sum(each.get(name, 0) for each in told) for name in names}
    if pointers:
        known = [_known_references(*pair) for pair in zip(processes, told, strict=True)]
        found["references_at_end"] = sum(all_ for all_, _ in known)
        found["references_known"] = sum(seen for _, seen in known)
    return found


def _told(process: Process) -> dict[str, int]:
    try:
        raw = json.loads(process.stem.with_name(f"{process.stem.name}.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in raw.items() if type(value) is int and value >= 0}


def _known_references(process: Process, told: Mapping[str, int]) -> tuple[int, int]:
    """How many pointers between different objects there were at the end, from objects that were
    made while stores were recorded; and of how many a store had told."""
    first = told.get("first_objects", 0)
    parts = [
        _pairs(batch)[batch["source"] > first]
        for batch in TableReader(process.table("references"), "references", _REFERENCES)
    ]
    wanted = np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))
    seen = np.zeros(len(wanted), np.bool_)
    for batch in TableReader(process.table("pointers"), "pointers", _REFERENCES):
        if len(wanted):
            pairs = _pairs(batch)
            place = np.minimum(np.searchsorted(wanted, pairs), len(wanted) - 1)
            seen[place[wanted[place] == pairs]] = True
    return len(wanted), int(np.count_nonzero(seen))


def _pairs(batch: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return batch["source"] << np.uint64(_NUMBER_BITS) | batch["target"]
