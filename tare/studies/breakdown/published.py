"""The published figures of Tarditi and Diwan that tables stand beside."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tare.studykit import published as papers

Shares = Mapping[str, float]

PAPER = "Tarditi and Diwan 1994"
GROUPS: Mapping[str, tuple[str, ...]] = {
    "allocation, freeing": ("allocation", "deallocation", "resizing"),
    "slow, zeroing, copies": (
        "allocation_slow",
        "deallocation_slow",
        "zeroing",
        "resize_copy",
    ),
    "checks, polls": ("gc_check", "poll", "stack_check"),
    "headers, tags": ("record_tag", "closure_info", "integer_tag", "pointer_tag"),
    "write barrier": ("write_barrier",),
    "young collections": ("gc_entry", "roots", "copy", "promotion"),
    "old generation": ("major", "moveback"),
    "movable code": ("position_independent",),
    "counting references": ("retain", "release", "cycle_collection"),
}
"""Components as the figure shows them, one colour each."""


@functools.cache
def published() -> Mapping[str, Shares]:
    """By program of the paper, the share of its run time in each component."""
    return by_program("published")


def by_program(name: str) -> dict[str, dict[str, float]]:
    """The numbers of a file of the paper's, by program."""
    return {
        row["program"]: {title: float(row[title]) for title in row if title != "program"}
        for row in papers.published("breakdown", name)
    }


def by_group(shares: Shares) -> dict[str, float]:
    """Shares of components, in the groups of figures."""
    return {group: sum(shares.get(part, 0.0) for part in parts) for group, parts in GROUPS.items()}
