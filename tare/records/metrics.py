"""The metrics that studies publish: one table, from which every page takes its words.

A metric's name ends in its unit and keeps its meaning once published.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tare.records.components import COMPONENTS, cycles_metric, metric


class Status(StrEnum):
    """How one invocation ended. Only ``ok`` carries values."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    WRONG_OUTPUT = "wrong-output"
    NOT_LOADED = "not-loaded"


class Obtained(StrEnum):
    """Where a value comes from; shown wherever the value is shown."""

    EXECUTED = "executed"
    SIMULATED = "simulated"
    REPLAYED = "replayed"


@dataclass(frozen=True)
class Metric:
    """A published quantity. ``explanation`` is one sentence for somebody who sees it first."""

    name: str
    title: str
    unit: str
    explanation: str
    obtained: Obtained = Obtained.EXECUTED


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "wall_seconds",
            "wall time",
            "s",
            "Time from the start of the program to its end, as a clock on the wall shows it.",
        ),
        Metric(
            "user_seconds",
            "user time",
            "s",
            "Processor time that the program and its children spent in their own code, "
            "over all cores.",
        ),
        Metric(
            "system_seconds",
            "system time",
            "s",
            "Processor time that the kernel spent on behalf of the program, "
            "mapping memory among other things.",
        ),
        Metric(
            "peak_resident_bytes",
            "peak memory",
            "B",
            "The most physical memory that the program held at any moment, "
            "shared pages of a process tree counted once.",
        ),
        Metric(
            "minor_faults",
            "minor faults",
            "",
            "First touches of a page which the kernel could serve without reading a disk.",
        ),
        Metric(
            "major_faults",
            "major faults",
            "",
            "Touches of a page which had to wait for a disk.",
        ),
        Metric(
            "context_switches",
            "context switches",
            "",
            "How often a thread of the program gave up a core or was taken off it.",
        ),
        Metric(
            "processes",
            "processes",
            "",
            "How many processes the figures of a run cover: the program and all its children.",
        ),
        Metric(
            "cpu_instructions",
            "instructions",
            "",
            "Instructions retired, from the hardware counter; present where the machine has one.",
        ),
        Metric(
            "cpu_cycles",
            "cycles",
            "",
            "Core clock cycles, from the hardware counter; present where the machine has one.",
        ),
        Metric(
            "cache_misses",
            "cache misses",
            "",
            "Accesses that missed the last level of cache, from the hardware counter.",
        ),
        Metric(
            "tlb_misses",
            "TLB misses",
            "",
            "Loads that missed the data TLB, from the hardware counter.",
        ),
        Metric(
            "collections",
            "collections",
            "",
            "How often memory was reclaimed in bulk, for whatever cause: a delay released what it "
            "held, or a collector went over the heap.",
        ),
        Metric(
            "volume_collections",
            "by volume",
            "",
            "Collections because the bytes held had reached the threshold.",
        ),
        Metric(
            "capacity_collections",
            "by capacity",
            "",
            "Collections because a thread's list of objects was full.",
        ),
        Metric(
            "pause_seconds",
            "in collections",
            "s",
            "Time that threads spent in collections, summed over threads; of short collections "
            "only some are timed, so it is an estimate.",
        ),
        Metric(
            "max_pause_seconds",
            "longest pause",
            "s",
            "The longest collection that was timed.",
        ),
        Metric(
            "quarantined_bytes",
            "through quarantine",
            "B",
            "Bytes of the objects that the program freed and the layer held, up to their release.",
        ),
        Metric(
            "regions",
            "regions",
            "",
            "Regions that the program created: APR pools, talloc contexts, obstacks.",
        ),
        Metric(
            "region_objects",
            "objects in regions",
            "",
            "Objects that the program allocated in regions.",
        ),
        Metric(
            "region_bytes",
            "bytes in regions",
            "B",
            "Bytes that the program allocated in regions, as it asked.",
        ),
        Metric(
            "max_region_objects",
            "most objects in regions",
            "",
            "The most objects that lay in regions at a time, whether still used or not.",
        ),
        Metric(
            "max_region_bytes",
            "most bytes in regions",
            "B",
            "The most bytes that lay in regions at a time, whether still used or not.",
        ),
        Metric(
            "mutator_seconds",
            "mutator time",
            "s",
            "Wall time without the time in which a collection had stopped the program.",
        ),
        Metric(
            "collector_seconds",
            "collector time",
            "s",
            "Wall time in which a collection had stopped the program, or one of its processes.",
        ),
        Metric(
            "full_collections",
            "full ones",
            "",
            "Collections of the whole heap during which the program was stopped.",
        ),
        Metric(
            "collector_cpu_seconds",
            "collector CPU",
            "s",
            "Processor time of a runtime's collector threads, those that work beside the program "
            "included.",
        ),
        Metric(
            "stall_seconds",
            "stalls",
            "s",
            "Time that threads waited for a collector beside them to find memory, summed over "
            "threads, as the runtime's log tells.",
        ),
        Metric(
            "pause_cpu_seconds",
            "CPU in pauses",
            "s",
            "Processor time of the program's processes while a collection had stopped it, without "
            "that of a runtime's compiler.",
        ),
        Metric(
            "heap_bytes",
            "heap",
            "B",
            "The size that the runtime itself gave its heap, which it may have rounded up.",
        ),
        Metric(
            "max_used_after_bytes",
            "most after a collection",
            "B",
            "The most bytes of the heap in use right after a collection, as the runtime's log "
            "rounds them.",
        ),
        Metric(
            "heap_allocated_bytes",
            "allocated in the heap",
            "B",
            "Bytes allocated in a runtime's heap, headers included, as its log rounds them.",
        ),
        Metric(
            "marked_bytes",
            "marked",
            "B",
            "Bytes of the objects that collections found reachable, over all collections.",
        ),
        Metric(
            "swept_bytes",
            "swept",
            "B",
            "Bytes of the objects that collections found dead and gave to the allocator.",
        ),
        Metric(
            "peak_active_bytes",
            "peak of active pages",
            "B",
            "The most bytes of pages that hold an object at one moment; summed over processes.",
        ),
        Metric(
            "peak_requested_bytes",
            "peak of requested bytes",
            "B",
            "The most bytes of objects not yet given back at one moment, each as asked for and one "
            "more, in whole units of 16; summed over processes.",
        ),
        Metric(
            "instructions",
            "instructions",
            "",
            "Instructions that the program executed, counted one by one under Valgrind's core; "
            "all its processes and threads together.",
        ),
        Metric(
            "manager_instructions",
            "in the manager",
            "",
            "Instructions between the entry of an operation of the memory manager and its return.",
        ),
        Metric(
            "collector_instructions",
            "collecting",
            "",
            "Of the instructions in the manager, those of its collector: marking, sweeping and "
            "what goes with them.",
        ),
        Metric(
            "malloc_calls",
            "mallocs",
            "",
            "Calls that ask for an object: malloc, calloc, aligned allocation and operator new.",
        ),
        Metric(
            "malloc_instructions",
            "in malloc",
            "",
            "Instructions in calls that ask for an object.",
        ),
        Metric(
            "free_calls",
            "frees",
            "",
            "Calls that give an object back: free and operator delete, those of NULL included.",
        ),
        Metric(
            "free_instructions",
            "in free",
            "",
            "Instructions in calls that give an object back.",
        ),
        Metric("realloc_calls", "reallocs", "", "Calls that ask for another size of an object."),
        Metric(
            "realloc_instructions",
            "in realloc",
            "",
            "Instructions in calls that ask for another size of an object.",
        ),
        Metric(
            "objects",
            "objects",
            "",
            "Objects that the program was given; one that is resized stays the same object.",
        ),
        Metric(
            "allocated_bytes",
            "allocated",
            "B",
            "Bytes that the program asked for, over all objects; a realloc adds what it adds.",
        ),
        Metric(
            "max_live_objects",
            "most objects",
            "",
            "The most objects that a process held at one moment; summed over processes.",
        ),
        Metric(
            "max_live_bytes",
            "most bytes",
            "B",
            "The most bytes, as asked for, that the objects of a process held at one moment; "
            "summed over processes.",
        ),
        Metric(
            "peak_free_bytes",
            "peak of live bytes",
            "B",
            "The most bytes, as asked for, that objects held at one moment, with the frees of the "
            "program; the peaks of its processes summed.",
        ),
        Metric(
            "peak_unreachable_bytes",
            "peak, freed when unreachable",
            "B",
            "As the peak of live bytes, with each object given back when it was first found "
            "unreachable, if the program had not freed it by then.",
        ),
        Metric(
            "peak_last_use_bytes",
            "peak, freed after last use",
            "B",
            "As the peak of live bytes, with each object given back right after its last use; one "
            "that is never used is never held.",
        ),
        Metric(
            "drag_ratio",
            "total drag",
            "ratio",
            "Bytes held, summed over time, divided by what they would be if each object were given "
            "back right after its last use; 1 is the least that can be.",
        ),
        Metric(
            "use_share",
            "in use",
            "ratio",
            "Of the bytes held, summed over time, the share between first and last use.",
        ),
        Metric(
            "lag_share",
            "lag",
            "ratio",
            "Of the bytes held, summed over time, the share before the first use.",
        ),
        Metric(
            "drag_share",
            "drag",
            "ratio",
            "Of the bytes held, summed over time, the share after the last use.",
        ),
        Metric(
            "void_share",
            "void",
            "ratio",
            "Of the bytes held, summed over time, the share of objects that are never used.",
        ),
        Metric(
            "never_used_bytes",
            "never used",
            "B",
            "Bytes of all objects that were neither read nor written by the program.",
        ),
        Metric(
            "never_freed_bytes",
            "never freed",
            "B",
            "Bytes of the objects that were still there when their process ended.",
        ),
        Metric(
            "simulated_cycles",
            "cycles",
            "",
            "Cycles in the first model of the memory system: those of the instructions, and "
            "the stalls.",
            Obtained.SIMULATED,
        ),
        Metric(
            "stall_cycles",
            "stalls",
            "",
            "Cycles in which the processor of the model waits for memory.",
            Obtained.SIMULATED,
        ),
        Metric(
            "manager_stall_cycles",
            "stalls in the manager",
            "",
            "Stall cycles of the model between the entry of an operation of the memory manager "
            "and its return.",
            Obtained.SIMULATED,
        ),
        Metric(
            "fetch_misses",
            "fetch misses",
            "",
            "Instruction fetches that the first level of the model did not hold.",
            Obtained.SIMULATED,
        ),
        Metric(
            "read_misses",
            "read misses",
            "",
            "Reads of data that the first level of the model did not hold.",
            Obtained.SIMULATED,
        ),
        Metric(
            "write_misses",
            "write misses",
            "",
            "Writes of data that the first level of the model did not hold.",
            Obtained.SIMULATED,
        ),
        Metric(
            "memory_misses",
            "misses to memory",
            "",
            "Accesses that no level of the model held, those of instructions included.",
            Obtained.SIMULATED,
        ),
        Metric(
            "manager_memory_misses",
            "of the manager",
            "",
            "Accesses in operations of the memory manager that no level of the model held.",
            Obtained.SIMULATED,
        ),
        Metric(
            "mutator_memory_misses",
            "to memory, replay",
            "",
            "Accesses of a replay outside collections that no level of the model held, those of "
            "malloc and free included.",
            Obtained.SIMULATED,
        ),
        Metric(
            "collector_memory_misses",
            "to memory, collector",
            "",
            "Accesses of the collections of a replay that no level of the model held.",
            Obtained.SIMULATED,
        ),
        Metric(
            "translation_misses",
            "TLB misses",
            "",
            "Accesses whose page the translation lookaside buffer of the model did not hold.",
            Obtained.SIMULATED,
        ),
        Metric(
            "resident_bytes",
            "resident",
            "B",
            "Physical memory of the process at its peak, without that of the recorder; of several "
            "processes, that of the largest.",
        ),
        Metric(
            "requested_bytes",
            "requested",
            "B",
            "Of the resident bytes, those that the program asked for, of objects that it had not "
            "freed.",
        ),
        Metric(
            "internal_bytes",
            "internal",
            "B",
            "Of the resident bytes, those that objects not freed were given beyond what was asked "
            "for: internal fragmentation.",
        ),
        Metric(
            "metadata_bytes",
            "metadata",
            "B",
            "Of the resident bytes, those of the manager that were never part of an object: "
            "headers, tables, and what was never handed out.",
        ),
        Metric(
            "external_bytes",
            "external",
            "B",
            "Of the resident bytes, free cells in pages that hold an object: external "
            "fragmentation.",
        ),
        Metric(
            "retained_bytes",
            "retained",
            "B",
            "Of the resident bytes, pages of the heap that held objects and hold none now.",
        ),
        Metric(
            "delayed_bytes",
            "delayed",
            "B",
            "Of the resident bytes, objects that the program freed and a layer still holds.",
        ),
        Metric(
            "other_bytes",
            "other",
            "B",
            "Of the resident bytes, those that are no heap: code, static data, stacks and mappings "
            "of the program's own.",
        ),
        Metric(
            "unexplained_bytes",
            "unexplained",
            "B",
            "What is left of the resident bytes when all the other parts are taken away.",
        ),
        Metric(
            "heap_expansion_ratio",
            "heap expansion",
            "ratio",
            "The resident bytes of the heap at the peak, divided by the most bytes, as asked for, "
            "that were alive at one moment.",
        ),
        Metric(
            "peak_reserved_bytes",
            "peak of the heap",
            "B",
            "The most physical memory that the objects of a replay took with their manager: what "
            "the process had at its peak, less what it had before the first object.",
            Obtained.REPLAYED,
        ),
        Metric(
            "graph_digest",
            "digest of the graph",
            "",
            "A number made of the objects and pointers that lie in memory at the end of a replay; "
            "the same under every manager that kept them whole.",
            Obtained.REPLAYED,
        ),
        Metric(
            "nursery_collections",
            "of the nursery",
            "",
            "The collections that went over the objects born since the one before, and no others.",
            Obtained.REPLAYED,
        ),
        Metric(
            "pauses",
            "pauses",
            "",
            "How often a collector stopped the program, or its replay; one that marks beside it "
            "does so twice for a collection, or more often.",
        ),
        Metric(
            "median_pause_seconds",
            "median pause",
            "s",
            "Half of the times that a collector stopped the program took less.",
        ),
        Metric(
            "iteration_seconds",
            "time of an iteration",
            "s",
            "Of a program that does the same work again and again: the median of the iterations "
            "once it is steady, or of the last three.",
        ),
        Metric(
            "copy_reserve_bytes",
            "copy reserve",
            "B",
            "Of the peak of a collector's heap, the pages kept free to copy objects to.",
            Obtained.REPLAYED,
        ),
        Metric(
            "heap_live_bytes",
            "objects that live",
            "B",
            "Of a collector's heap at its fullest collection, the objects that live, with headers.",
            Obtained.REPLAYED,
        ),
        Metric(
            "heap_garbage_bytes",
            "garbage",
            "B",
            "Of a collector's heap at its fullest collection, what that gave back: garbage "
            "not collected until then.",
            Obtained.REPLAYED,
        ),
        Metric(
            "heap_fragmentation_bytes",
            "fragmentation",
            "B",
            "Of a collector's heap at its fullest collection, pages that it could not give "
            "back, beside the objects that live.",
            Obtained.REPLAYED,
        ),
        Metric(
            "heap_metadata_bytes",
            "metadata",
            "B",
            "Of a collector's heap at its fullest collection, the plan's own tables, as it "
            "accounts for them.",
            Obtained.REPLAYED,
        ),
        Metric(
            "heap_copy_reserve_bytes",
            "reserved to copy",
            "B",
            "Of a collector's heap at its fullest collection, pages kept free to copy objects to.",
            Obtained.REPLAYED,
        ),
        Metric(
            "heap_unused_bytes",
            "not used",
            "B",
            "Of a collector's heap at its fullest collection, what was too small or too "
            "scattered to be used.",
            Obtained.REPLAYED,
        ),
        Metric(
            "min_heap_low_bytes",
            "too small",
            "B",
            "The largest heap that was tried up to which the program, or its replay, never fitted.",
        ),
        Metric(
            "min_heap_high_bytes",
            "least heap",
            "B",
            "The smallest heap that was tried from which on the program, or its replay, always "
            "fitted; of a manager that takes no limit, the peak of its heap.",
        ),
        Metric(
            "trials",
            "trials",
            "",
            "The runs, or replays, that the least heap was found with.",
        ),
        Metric(
            "work_wall_seconds",
            "work, wall",
            "s",
            "Wall time of the work: of a steady iteration where the program reports them, or else "
            "of the whole run.",
        ),
        Metric(
            "stopped_wall_seconds",
            "stopped, wall",
            "s",
            "Of the wall time of the work, that in which a collection had stopped the program.",
        ),
        Metric(
            "work_cpu_seconds",
            "work, CPU",
            "s",
            "Processor time of the work: of a steady iteration where the program reports them, or "
            "else of the whole run.",
        ),
        Metric(
            "stopped_cpu_seconds",
            "stopped, CPU",
            "s",
            "Of the processor time of the work, that while a collection had stopped the program.",
        ),
        Metric(
            "lbo_wall_ratio",
            "overhead, wall",
            "ratio",
            "Wall time of the work divided by the least that is left of it, under any collector "
            "measured, without the time in which the program was stopped.",
        ),
        Metric(
            "lbo_cpu_ratio",
            "overhead, CPU",
            "ratio",
            "Processor time of the work divided by the least that is left of it, under any "
            "collector measured, without that while the program was stopped.",
        ),
        Metric(
            "replay_seconds",
            "replay time",
            "s",
            "The time of a replay, collections included.",
            Obtained.REPLAYED,
        ),
        Metric(
            "events",
            "events",
            "",
            "Calls of the methods that were timed, after the warm-up.",
        ),
        Metric(
            "interrupted_events",
            "interrupted",
            "",
            "Events that a collection or another stop of the program fell into; they are left out.",
        ),
        *(
            Metric(metric(component.name), component.title, "", component.explanation)
            for component in COMPONENTS.values()
        ),
        *(
            Metric(
                cycles_metric(component.name),
                f"{component.title}, cycles",
                "",
                f"Cycles in the first model of the memory system, stalls included: "
                f"{component.explanation[0].lower()}{component.explanation[1:]}",
                Obtained.SIMULATED,
            )
            for component in COMPONENTS.values()
        ),
        Metric(
            "integer_tag_high_instructions",
            "integer tags, at most",
            "",
            "Integer tags with what looks like them, and what does their work as well.",
        ),
        Metric(
            "unexplained_instructions",
            "no rule",
            "",
            "Of the program's own instructions, those in code that no rule is about.",
        ),
        *(
            Metric(
                f"{kind}latency_{point.replace('.', '')}_seconds",
                f"{title} {'at most' if point == 'max' else f'{point}%'}",
                "s",
                f"Time from {begin} to its end, {rarity}.",
            )
            for kind, title, begin in (
                ("", "latency", "the start of a request"),
                ("metered_", "metered latency", "when a request would start, if all came evenly,"),
            )
            for point, rarity in (
                ("50", "of the median request"),
                ("90", "that one request in 10 exceeds"),
                ("99", "that one request in 100 exceeds"),
                ("99.9", "that one request in 1,000 exceeds"),
                ("99.99", "that one request in 10,000 exceeds"),
                ("max", "of the longest request"),
            )
        ),
        *(
            Metric(
                f"after_{rank}{suffix}_ratio",
                f"event {rank} after{title}",
                "ratio",
                f"Median {clock} of the events that are number {rank} after a collection, each "
                "divided by the median of all events that do the same.",
            )
            for suffix, title, clock in (
                ("", "", "wall time"),
                ("_cpu", ", CPU", "processor time of the thread"),
            )
            for rank in (1, 2, 3, 5, 10, 20)
        ),
    )
}

FIRST_METRICS = {
    "runner": "wall_seconds",
    "instrument": "instructions",
    "regions-share": "instructions",
    "drag": "peak_free_bytes",
    "memsys": "simulated_cycles",
    "breakdown": "instructions",
    "pages": "instructions",
    "import": "wall_seconds",
    "space": "resident_bytes",
    "replay": "mutator_seconds",
    "replay-cache": "simulated_cycles",
    "minheap": "min_heap_high_bytes",
    "collectors": "min_heap_high_bytes",
    "minheap-executed": "min_heap_high_bytes",
    "lbo": "work_wall_seconds",
    "proximity": "after_1_ratio",
}
"""The metric under which a run that gave no figure is listed, by the observer of the run."""

REPLAYING = frozenset({"replay", "minheap", "collectors"})
"""The observers that follow a trace instead of a program."""


def obtained(metric: str, observer: str) -> Obtained:
    """Where the value comes from: all that a replay tells is replayed, its seconds as well."""
    return Obtained.REPLAYED if observer in REPLAYING else METRICS[metric].obtained


HARDWARE_METRICS = ("cpu_instructions", "cpu_cycles", "cache_misses", "tlb_misses")
"""Measured only where the machine offers the counters; elsewhere there is no column for them."""
