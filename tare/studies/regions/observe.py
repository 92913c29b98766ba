"""The share of a program's instructions that memory operations take, in a library of regions and in
malloc: one run under the instrument, of the program as it is.

It stands for the share of the run time in table 3 of Berger, Zorn and McKinley, Reconsidering
Custom Memory Allocation (OOPSLA 2002).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tare.observers import instrument
from tare.observers.event_files import Event, Events, in_manager
from tare.records.runs import Outcome

PHASE = "tare.regions"
FUNCTIONS = (
    # APR
    *"apr_palloc apr_pcalloc apr_pool_clear apr_pool_destroy apr_pool_create_ex".split(),
    *"apr_pool_create_core_ex apr_pool_create_unmanaged_ex".split(),
    *"apr_allocator_alloc apr_allocator_free".split(),
    # talloc
    *"_talloc _talloc_array _talloc_free _talloc_memdup _talloc_pooled_object".split(),
    *"_talloc_realloc _talloc_realloc_array _talloc_steal_loc _talloc_zero".split(),
    *"_talloc_zero_array talloc_free_children talloc_named talloc_named_const".split(),
    *"talloc_pool talloc_realloc_fn talloc_reparent talloc_strdup talloc_strndup".split(),
    *"talloc_unlink".split(),
    # obstacks; what the macros do is in the program
    *"_obstack_begin _obstack_begin_1 _obstack_free _obstack_newchunk obstack_free".split(),
)
"""What takes memory from a region, gives it back, or makes or ends a region."""


@dataclass(frozen=True)
class Share:
    """Instructions. ``malloc`` is that of the malloc family outside of ``library``, which is with
    all that the library's functions call."""

    program: int
    library: int
    malloc: int

    @property
    def of_program(self) -> float:
        """From 0 to 1."""
        return (self.library + self.malloc) / self.program


def events() -> Events:
    """What the instrument is to count as the phase."""
    return tuple(Event("during", PHASE, "", function, 0) for function in FUNCTIONS)


run_once = instrument.observer_of(events())
"""A count that has the functions of region libraries as a phase."""


def share_of(outcome: Outcome) -> Share | None:
    """What a run has shown; None where it gave no values."""
    phases: Mapping[str, Any] = outcome.details.get("phases", {})
    if not outcome.values.get("instructions") or PHASE not in phases:
        return None
    phase = phases[PHASE]
    in_malloc = int(outcome.values["manager_instructions"])
    return Share(
        program=int(outcome.values["instructions"]),
        library=phase["instructions"],
        malloc=in_malloc - in_manager(phase),
    )
