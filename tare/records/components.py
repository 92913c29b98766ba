"""What storage management consists of: the components that instructions are charged to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OTHER = "other"
MALLOC = "malloc"
"""The descriptor of programs without a runtime that is known."""


class Certainty(StrEnum):
    """How sure it is that an instruction is its component's."""

    SURE = "sure"
    AMBIGUOUS = "ambiguous"
    FOLDED = "folded"


@dataclass(frozen=True)
class Component:
    """``explanation`` is one sentence for somebody who sees it first."""

    name: str
    title: str
    explanation: str


COMPONENTS: dict[str, Component] = {
    component.name: component
    for component in (
        Component(
            "allocation",
            "allocation",
            "Taking memory for new objects and setting pointers to them, inline and in functions.",
        ),
        Component(
            "gc_check",
            "check for a collection",
            "Comparing the allocation pointer with its limit, and jumping to the collector.",
        ),
        Component(
            "poll",
            "poll",
            "Checking whether the program has to stop, where nothing is allocated.",
        ),
        Component(
            "record_tag",
            "header words",
            "Writing the header words of objects.",
        ),
        Component(
            "closure_info",
            "closure information",
            "Writing the word that tells the collector of a closure's parts.",
        ),
        Component(
            "integer_tag",
            "integer tags",
            "Setting and removing the tags of integers.",
        ),
        Component(
            "pointer_tag",
            "pointer tags",
            "Checking by the tag of a pointer whether its object has a value, and which.",
        ),
        Component(
            "write_barrier",
            "write barrier",
            "Recording stores of pointers: calls, arguments and functions, or a store list.",
        ),
        Component(
            "position_independent",
            "position-independent code",
            "Keeping code movable: a base register, and addresses computed from it.",
        ),
        Component(
            "stack_check",
            "stack check",
            "Comparing the stack pointer with the limit of a stack that the runtime can move.",
        ),
        Component(
            "gc_entry",
            "entering the collector",
            "Saving and restoring registers, and deciding what to collect.",
        ),
        Component(
            "roots",
            "roots",
            "Stacks, registers, global data and remembered stores, as roots of a collection.",
        ),
        Component(
            "copy",
            "copying",
            "Scanning and copying live young objects.",
        ),
        Component(
            "promotion",
            "promotion",
            "Finding memory in the old generation for objects that are copied there.",
        ),
        Component(
            "major", "major collection", "Marking and sweeping, or copying, the old generation."
        ),
        Component(
            "moveback",
            "moving back",
            "Moving old objects together: compaction, or moving the heap back.",
        ),
        Component(
            "allocation_slow",
            "slow allocation",
            "What calls of malloc and similar functions take beyond the quickest of the program: "
            "searching, splitting, asking the system for memory.",
        ),
        Component(
            "zeroing",
            "zeroing",
            "Clearing memory in calloc, by the C library's functions.",
        ),
        Component("deallocation", "deallocation", "Giving memory back: free and the like."),
        Component(
            "deallocation_slow",
            "slow deallocation",
            "What calls of free and similar functions take beyond the quickest of the program: "
            "merging, giving memory back to the system.",
        ),
        Component(
            "resizing", "resizing", "Making objects larger or smaller: realloc, without copies."
        ),
        Component(
            "resize_copy",
            "copying by realloc",
            "Copying resized objects to another place, by the C library's functions.",
        ),
        Component(
            "retain",
            "retaining",
            "Counting one more reference to an object, with the checks around it.",
        ),
        Component(
            "release",
            "releasing",
            "Counting one reference to an object less, and whether it was the last.",
        ),
        Component(
            "cycle_collection",
            "collecting cycles",
            "Finding objects that only refer to each other, and freeing them.",
        ),
        Component(OTHER, "the program's own", "All other instructions."),
    )
}
"""In the order of tables and bars; they sum to all instructions."""
IN_COLLECTIONS = (
    "gc_entry",
    "roots",
    "copy",
    "promotion",
    "major",
    "moveback",
    "cycle_collection",
)
"""Those of a garbage collection; the rest, but for ``other``, are of the program between them."""
COUNTING = ("retain", "release")
"""Those that count references."""


def metric(component: str) -> str:
    return f"{component}_instructions"


def cycles_metric(component: str) -> str:
    return f"{component}_cycles"
