"""Which machines are alike, so that their runs may be compared, and which cannot take part."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tare.base.version import __version__
from tare.records.runs import Record

_ALIKE = (
    "processor",
    "architecture",
    "cores",
    "page_bytes",
    "kernel",
    "libc",
    "frequency_governor",
    "turbo",
    "transparent_huge_pages",
    "address_space_randomisation",
    "swap",
    "overcommit_memory",
    "hypervisor",
)
_PLACES = frozenset({"PATH", "LD_LIBRARY_PATH"})
"""Variables that may differ: what is found by them is compared by its hash."""
_SAME_MANAGER = ("version", "object_sha256", "layer_sha256")
_SAME_PROGRAM = ("executable_sha256", "stdin_sha256")


def group_of(machine: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    """A name that machines share whose hardware and settings are alike. ``machine`` and
    ``environment`` are as ``tare.records.machine`` describes them."""
    alike = {name: machine[name] for name in _ALIKE}
    alike["memory_gib"] = round(machine["memory_bytes"] / (1 << 30))
    steering = {k: v for k, v in environment["values"].items() if k not in _PLACES}
    text = json.dumps([alike, steering], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def refusal(found: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Why a worker, of which ``worker.examine`` found this, cannot take part in the study of a
    run.json; "" when it can."""
    if found["tare"] != __version__:
        return f"it has Tare {found['tare']}, and this machine has Tare {__version__}"
    if found["problem"]:
        return str(found["problem"])
    for name, wanted in document["managers"].items():
        if _differ(found["managers"][name], wanted, _SAME_MANAGER):
            there = found["managers"][name]
            return f"its {name} is a different build ({there['object'] or there['version']})"
    programs = {program["name"]: program for program in found["programs"]}
    for wanted in document["programs"]:
        if _differ(programs[wanted["name"]], wanted, _SAME_PROGRAM):
            there = programs[wanted["name"]]
            return (
                f"{wanted['name']} is a different program or has different input "
                f"({there['executable']})"
            )
    return ""


def _differ(there: Mapping[str, Any], wanted: Mapping[str, Any], names: Sequence[str]) -> bool:
    return any(there.get(name) != wanted.get(name) for name in names)


def group_to_go_on(program: str, records: Sequence[Record], present: Collection[str]) -> str | None:
    """Of the groups that are ``present`` the one that has most runs of the program; "" when it has
    none anywhere, and None when they are all elsewhere."""
    had = Counter(record.run.group for record in records if record.run.program == program)
    if not had:
        return ""
    here = [group for group in had if group in present]
    return max(here, key=lambda group: had[group]) if here else None
