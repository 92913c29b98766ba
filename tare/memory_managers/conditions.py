"""`machine(M, cpus=0, hugepages=never)`: the manager M on a part of the machine.

It is no layer: nothing is preloaded for it, and it goes around any other name.
"""

from __future__ import annotations

import re

from tare.base.errors import UsageError
from tare.memory_managers.catalogue import options_in
from tare.memory_managers.layers import split_at_commas
from tare.records.conditions import WHOLE_MACHINE, Conditions, conditions_of

NAME = "machine"
_PLACES = re.compile(r"[\d\s-]+")


def begins(text: str) -> bool:
    return re.match(rf"{NAME}\s*(\(|\Z)", text.strip()) is not None


def split_name(text: str) -> tuple[str, Conditions]:
    """The manager within a name that ``begins`` so, and what is said around it; another name is the
    manager, with nothing around it. Raises UsageError."""
    if not begins(text):
        return text, WHOLE_MACHINE
    match = re.fullmatch(rf"{NAME}\s*\((?P<inside>.*)\)", text.strip(), re.DOTALL)
    inner, *given = split_at_commas(match["inside"] if match else "")
    if not inner or not given or re.match(r"[a-z-]+\s*=", inner):
        raise UsageError(
            f"'{text}' must name a manager and its part of the machine",
            f"write it like {NAME}(glibc, cpus=0)",
        )
    parts: list[str] = []
    for part in given:
        if parts and _PLACES.fullmatch(part):  # of a list: cpus=0,2-3
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return inner, conditions_of(options_in(parts, text))


def name_of(inner: str, conditions: Conditions) -> str:
    """The inverse of ``split_name``."""
    settings = [f"{key}={value}" for key, value in conditions.asked().items()]
    return f"{NAME}({', '.join([inner, *settings])})"
