"""What the instrument leaves of a program's code, read for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tare.base.native import native_file
from tare.heap_traces.recording import TableReader
from tare.observers import instrument

CODE = ("stretch", "object", "address", "length", "low", "high")
EXECUTIONS = ("stretch", "context", "count")


@dataclass
class Executed:
    """One process. ``by_instruction``: object file, address in it and bytes; ``by_context``: the
    instructions in the phases and the operation of a context; ``instructions``: the tool's own
    total, of the same process."""

    instructions: int
    description: dict[str, Any]
    by_instruction: Counter[tuple[str, int, bytes]] = field(default_factory=Counter)
    by_context: Counter[tuple[tuple[str, ...], str]] = field(default_factory=Counter)


def executed(folder: Path) -> list[Executed]:
    """What the tool left in ``folder``, by process."""
    found = instrument.read_process_files(folder, "tare-code", 2)
    return [_process(path, described) for path, described in found]


def _process(path: Path, described: dict[str, Any]) -> Executed:
    code: dict[int, list[tuple[str, int, bytes]]] = {}
    reader = TableReader(path.with_suffix(".code"), "code", CODE)
    for batch in reader:
        for stretch, number, address, length, low, high in zip(
            *(batch[name].tolist() for name in CODE), strict=True
        ):
            one = described["objects"][number]
            content = (low | high << 64).to_bytes(16, "little")[:length]
            in_file = (address - one["bias"]) % (1 << 64)
            code.setdefault(stretch, []).append((one["file"], in_file, content))
    assert not reader.damage
    result = Executed(described["instructions"], described)
    for batch in TableReader(path.with_suffix(".executions"), "executions", EXECUTIONS):
        for stretch, number, count in zip(
            *(batch[name].tolist() for name in EXECUTIONS), strict=True
        ):
            context = described["contexts"][number]
            instructions = code[stretch]
            for one in instructions:
                result.by_instruction[one] += count
            key = (tuple(context["phases"]), context["operation"])
            result.by_context[key] += count * len(instructions)
    return result


def run_tool(
    folder: Path, *command: str | Path, events: Sequence[str] = (), **environment: str
) -> list[Executed]:
    """Run a program under the bare tool."""
    code, counts = folder / "code", folder / "counts"
    for each in (code, counts):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir()
    options = []
    if events:
        (folder / "events").write_text("".join(f"{line}\n" for line in events))
        options.append(f"--events={folder / 'events'}")
    subprocess.run(
        [native_file(instrument.LAUNCHER), "--tool=tareinst", "--command-line-only=yes", "--quiet",
         "--vgdb=no", "--trace-children=yes", f"--count-folder={counts}", f"--code-folder={code}",
         *options, *command],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environment}, check=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return executed(code)
