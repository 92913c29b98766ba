"""What run.json says of a heap trace that was recorded before, as of a program that is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tare.base.files import hash_file
from tare.base.text import shortened, writable
from tare.heap_traces.trace import META_FILE, Trace
from tare.programs.program import NAME_LIMIT
from tare.records.machine import describe_machine


def facts_of(trace: Trace, **asked: Any) -> dict[str, Any]:
    """What run.json says of the analysis of a trace; ``asked`` is what its request holds beyond the
    trace."""
    folder = trace.folder
    manager = shortened(writable(trace.header.manager or "unknown"))
    program = _described(trace.header.program, folder)
    return {
        "request": {
            "trace": str(folder.resolve()),
            "meta_sha256": hash_file(folder / META_FILE),
            **asked,
        },
        "programs": [program],
        "baseline": manager,
        "seed": 0,
        "managers": {manager: _described_manager(trace.meta)},
        **_where_and_when(trace.meta),
    }


def _described(program: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A program as run.json describes one, of what a trace from anywhere says."""

    def text(name: str) -> str:
        value = program.get(name)
        return value[:4096] if isinstance(value, str) else ""

    words = program.get("argv")
    words = words[:1000] if isinstance(words, list) else []
    return {
        "name": writable(text("name") or folder.stem or "program")[:NAME_LIMIT],
        "argv": [word for word in words if isinstance(word, str)],
        "executable": text("executable"),
        "executable_sha256": text("executable_sha256"),
        "ignore_output": True,
        "output_sha256": "",
    }


def _described_manager(meta: Mapping[str, Any]) -> dict[str, Any]:
    version, server = meta.get("manager_version"), meta.get("server")
    return {
        "version": version[:100] if isinstance(version, str) else "",
        "title": "",
        "object": server[:4096] if isinstance(server, str) else None,
        "object_sha256": None,
        "environment": {},
    }


def _where_and_when(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The machine and the start of the recording, where the trace has them."""
    facts: dict[str, Any] = {}
    machine = meta.get("machine")
    kinds = {
        name: (int, float) if isinstance(value, float) else type(value)
        for name, value in describe_machine().items()
    }
    if isinstance(machine, dict) and all(
        isinstance(machine.get(name), kind) for name, kind in kinds.items()
    ):
        facts["machine"] = {name: machine[name] for name in kinds}
    if isinstance(started := meta.get("started"), str):
        facts["started"] = started[:40]
    return facts
