"""`regions(M, as=…)`: the shims that serve the regions of unmodified programs, their options, and
the counters they leave.

The shims are managers/regions, preloaded in front of the manager M. malloc stays M's; what changes
is where the objects of APR's pools, of talloc and of glibc's obstacks come from. Each process under
them writes one file of counters; managers/regions/counters.hpp describes it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tare.base.errors import TareError
from tare.memory_managers import layers
from tare.memory_managers.catalogue import Option, Recipe

NAME = "regions"
OBJECT = "lib/libtare-regions.so"
COUNTERS_VARIABLE = "TARE_REGIONS_COUNTERS"
EFFECT = "the program's regions served in a way that is chosen"
SERVES_MALLOC = False
ROUTES = ("original", "emulation", "region", "reap")

RECIPE = Recipe(
    name=NAME,
    title="shims for programs with regions: APR pools, talloc and obstacks served in another way",
    version="1",
    licence="Apache-2.0",
    homepage="https://doi.org/10.1145/582419.582421",
    kind="layer",
    default_weigh=False,
    build="package",
    folder=Path(__file__).parent,
    options=(
        Option(
            "as",
            "what serves the objects of regions: the program itself, malloc for each object, a "
            "region that bumps a pointer, or a reap",
            "choice",
            "TARE_REGIONS_AS",
            {route: route for route in ROUTES},
            "original",
        ),
        Option(
            "statistics",
            "count objects and bytes, which costs time",
            "choice",
            "TARE_REGIONS_STATISTICS",
            {"yes": "yes", "no": "no"},
            "no",
        ),
    ),
    note="Takes a manager first: regions(glibc, as=reap). It changes nothing in a program that has "
    "no regions in a shared library.",
)


def environment(options: Mapping[str, str]) -> dict[str, str]:
    """The variables that carry these options and the defaults of the others."""
    return RECIPE.environment(options, {})


KINDS = {"apr": "APR pools", "talloc": "talloc", "obstack": "obstacks"}
"""By name as in the counters: what a reader knows them as."""

_MAGIC = 0x314E474552455254
_FILE_BYTES = 4096
_NAMES_AT = 512


@dataclass(frozen=True)
class Counts:
    """What was counted of one kind of regions, as in managers/regions/counters.hpp. The names that
    begin with ``live`` are of the end, those with ``most`` of the fullest moment."""

    regions: int
    live_regions: int
    most_regions: int
    objects: int
    live_objects: int
    most_objects: int
    bytes: int
    live_bytes: int
    most_bytes: int
    cleared: int
    freed_objects: int


_OF_KIND = len(fields(Counts))
_HEADER = struct.Struct(f"<5Q{len(KINDS) * _OF_KIND}Q6Q")


@dataclass(frozen=True)
class Process(layers.Process):
    """``most_objects`` and ``most_bytes`` are of all kinds together."""

    uncounted: int
    kinds: Mapping[str, Counts]
    most_objects: int
    most_bytes: int


def read_process(path: Path) -> Process | None:
    """The counters of one process; None if it was killed before it had begun them.

    Raises TareError for a file that is none.
    """
    with path.open("rb") as file:
        data = file.read(_FILE_BYTES)
    if not any(data):
        return None
    if len(data) < _FILE_BYTES:
        raise TareError(f"{path}: not a file of counters, {len(data)} bytes")
    magic, pid, _, forked, uncounted, *numbers = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise TareError(f"{path}: not a file of counters of this version of Tare")
    kinds = {
        name: Counts(*numbers[place * _OF_KIND : (place + 1) * _OF_KIND])
        for place, name in enumerate(KINDS)
    }
    most_objects, most_bytes = numbers[-4], numbers[-1]
    servers = layers.served_by(data[_NAMES_AT:])
    return Process(pid, bool(forked), servers, uncounted, kinds, most_objects, most_bytes)


def values(processes: Sequence[Process]) -> dict[str, float]:
    """The metrics of a run, over all its processes: sums, and of the most at a time the largest
    process. Objects and bytes only where they were counted."""
    if any(process.uncounted for process in processes):
        return {}
    every = [counts for process in processes for counts in process.kinds.values()]
    found: dict[str, float] = {"regions": sum(counts.regions for counts in every)}
    if not any(counts.objects for counts in every):
        return found
    return found | {
        "region_objects": sum(counts.objects for counts in every),
        "region_bytes": sum(counts.bytes for counts in every),
        "max_region_objects": max(process.most_objects for process in processes),
        "max_region_bytes": max(process.most_bytes for process in processes),
    }


def details(processes: Sequence[Process], _main: int) -> dict[str, Any]:
    """What the counters say beyond metrics: each kind that the program has, over all processes."""
    found = {}
    for name in KINDS:
        each = [process.kinds[name] for process in processes]
        if not any(counts.regions for counts in each):
            continue
        found[name] = {
            field.name: (max if field.name.startswith("most") else sum)(
                getattr(counts, field.name) for counts in each
            )
            for field in fields(Counts)
        }
    return {"processes": len(processes), "kinds": found}


def ran_out(_processes: Sequence[Process], _exit_code: int | None) -> str:
    """It has no limit of its own."""
    return ""
