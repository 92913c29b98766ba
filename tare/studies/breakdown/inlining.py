"""The functions that an instruction belongs to, with those that are inlined there, as symbols and
debug information tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import unfold

_HASH = re.compile(r"::h[0-9a-f]{16}")
_SIGNS = {"LT": "<", "GT": ">", "C": ",", "u20": " ", "RF": "&", "BP": "*"}
_SIGN = re.compile(rf"\$({'|'.join(_SIGNS)})\$")


@dataclass(frozen=True)
class Place:
    """``functions``: the innermost first. ``known``: whether debug information describes it, so
    that no function inlined there is missing."""

    functions: tuple[str, ...]
    known: bool


def places(file: str, addresses: Sequence[int]) -> list[Place]:
    """For addresses in an object file, as this has them."""
    return [
        Place(tuple(_plain(frame.function) for frame in frames), bool(frames[0].file))
        for frames in unfold([Frame(object=file, offset=address) for address in addresses])
    ]


def _plain(name: str) -> str:
    """One of Rust's as its source has it."""
    if "$" in name:
        name = _SIGN.sub(lambda match: _SIGNS[match[1]], name.removeprefix("_")).replace("..", "::")
    return _HASH.sub("", name)
