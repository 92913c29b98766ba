"""Pointers and reachability in recordings, of programs that know them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tare.heap_traces.recording import TABLES
from tare.memory_managers.manager import resolve
from tests.native.instrument.recordings.recorded import (
    NO_GUARDS,
    Compile,
    Recording,
    built,
    either_way,
    recorded,
)


def graph_at_end(recording: Recording) -> dict[tuple[int, int], int]:
    """Which object each word of an object points into: (source, offset) to target, by rows from 1;
    static memory has 0 for its source and addresses for offsets."""
    births, stores = recording.births, recording.pointers
    graph: dict[tuple[int, int], int] = {}
    events: list[tuple[int, int, tuple[int, ...]]] = [
        (int(births["instructions"][row]), 0, (int(births["resized_from"][row]), int(row) + 1))
        for row in np.flatnonzero(births["resized_from"])
    ]
    rows = zip(*(stores[name].tolist() for name in TABLES["pointers"]), strict=True)
    events += [(when, 1, tuple(store)) for when, *store in rows]
    for _, kind, values in sorted(events, key=lambda event: event[:2]):
        if kind == 0:  # a realloc takes along what fits
            before, after = values
            taken = {at: to for (source, at), to in graph.items() if source == before}
            room = int(births["size"][after - 1])
            graph |= {(after, at): to for at, to in taken.items() if at + 8 <= room}
            continue
        source, offset, target = values
        graph.pop((source, offset), None)
        if target != 0:
            graph[source, offset] = target
    alive = {0, *(np.flatnonzero(recording.deaths["free_instructions"] == 0) + 1).tolist()}
    return {place: to for place, to in graph.items() if place[0] in alive and to in alive}


@either_way
def test_the_graph_from_the_stores_of_pointers(tmp_path: Path, sites: str) -> None:
    program = built(tmp_path, "pointers.c")
    options = ["--pointers=yes", f"--sites={sites}"]
    recording, printed = recorded(tmp_path, program, options=options)
    size = recording.births["size"]
    graph = graph_at_end(recording)
    found = {(int(size[s - 1]), at, int(size[to - 1])) for (s, at), to in graph.items() if s != 0}
    true = {tuple(map(int, line.split())) for line in printed.splitlines()}
    edges = {edge for edge in true if edge[0] != 0}
    assert len(edges) > 1500
    assert found == edges
    roots = {(0, at, int(size[to - 1])) for (source, at), to in graph.items() if source == 0}
    assert {edge for edge in true if edge[0] == 0} <= roots


NODES, FIRST_LIST, LOST_MARKER = 40, 600, 50_000
"""As in lost.c."""
HELD, LOST, HELD_THEN_LOST, HALF_LOST = range(4)
LISTS = {
    "held by nothing": LOST,
    "held by a static variable, then overwritten": HELD_THEN_LOST,
    "held by a thread-local variable": HELD,
    "held in memory that the program maps": HELD,
    "held by a pointer to the last byte": HELD,
    "held by a pointer with a tag": HELD,
    "a circle, held by nothing": LOST,
    "held by the middle": HALF_LOST,
    "held by another object, that is then lost": HELD_THEN_LOST,
    "held by the stack of a thread, then overwritten": HELD_THEN_LOST,
    "held by a thread-local variable of another thread": HELD,
}


@pytest.mark.parametrize("manager", ["glibc", "jemalloc", "mimalloc", "snmalloc"])
def test_lost_objects_are_found_by_the_next_search(tmp_path: Path, manager: str) -> None:
    preload = ":".join(map(str, resolve(manager).preload))
    program = built(tmp_path, "lost.c")
    recording, _ = recorded(
        tmp_path, program, options=["--reachability=32768"], env={"LD_PRELOAD": preload}
    )
    born, found = recording.births["instructions"], recording.deaths["unreachable_instructions"]
    assert len(recording.marks["bytes"]) >= 14
    held_by_chance: list[str] = []
    for place, (what, expected) in enumerate(LISTS.items()):
        size = FIRST_LIST + 8 * place
        rows = recording.of_size(size)
        assert len(rows) == NODES, what
        # The marker is large enough for a search at its birth.
        when = [born[recording.only(LOST_MARKER + size)]]
        if expected == HELD_THEN_LOST:
            when.append(born[recording.only(LOST_MARKER + size + 1)])
        lost = [np.count_nonzero(found[rows] == each) for each in when]
        held = np.count_nonzero((found[rows] == 0) | (found[rows] > when[-1]))
        assert sum(lost) + held == NODES, what
        if expected == HELD:
            assert lost == [0], what
        elif lost != {HELD_THEN_LOST: [0, NODES], LOST: [NODES]}.get(expected, [NODES // 2]):
            assert lost[-1] < NODES, what
            held_by_chance.append(what)
    # The search is conservative. Heaps that are mapped lie beside other mappings. The end of such
    # a one, as the dynamic linker keeps of its own first memory, can be the address of an object.
    assert len(held_by_chance) <= (0 if manager == "glibc" else 1), held_by_chance


def test_a_search_passes_over_guards_within_a_mapping(tmp_path: Path, program: Compile) -> None:
    """Stacks of glibc 2.42 have them. To read one would end the program."""
    path = program("""
      const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
      char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, kind, -1, 0);
      void **behind = (void **)(memory + 131072), **removed = (void **)memory;
      if (madvise(memory, 65536, 102) != 0) return puts("no guards") < 0;
      *behind = malloc(701);
      for (int i = 0; i < 100; ++i) free(malloc(1000));
      madvise(memory, 4096, 103);
      *removed = malloc(702);
      for (int i = 0; i < 100; ++i) free(malloc(1000));
      *behind = *removed = NULL;
      for (int i = 0; i < 100; ++i) free(malloc(1000));""")
    recording, printed = recorded(tmp_path, path, options=["--reachability=50000"])
    if printed:
        pytest.skip(NO_GUARDS)
    searches = recording.marks["instructions"]
    assert len(searches) >= 6
    found = recording.deaths["unreachable_instructions"]
    for size in (701, 702):
        assert found[recording.only(size)] in searches[-2:]


def test_what_each_of_several_stacks_in_one_mapping_holds(tmp_path: Path, program: Compile) -> None:
    """As those of glibc 2.42 lie. The program says so where its kernel has no guards."""
    path = program(
        """
      const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
      char *memory = mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, kind, -1, 0);
      pthread_barrier_init(&barrier, NULL, 3);
      pthread_t threads[3];
      for (long i = 0; i < 3; ++i) {
        if (madvise(memory + i * STACK, 4096, 102) != 0) return puts("no guards") < 0;
        pthread_attr_t where;
        pthread_attr_init(&where);
        pthread_attr_setstack(&where, memory + i * STACK + 4096, STACK - 4096);
        if (i != 1) pthread_create(&threads[i], &where, work, (void *)i);
      }
      pthread_barrier_wait(&barrier);
      for (int i = 0; i < 100; ++i) free(malloc(1000));
      pthread_barrier_wait(&barrier);
      pthread_join(threads[0], NULL);
      pthread_join(threads[2], NULL);""",
        """enum { STACK = 1 << 20 };
        static pthread_barrier_t barrier;
        static void *work(void *number) {
          void *volatile held = malloc(700 + (long)number);
          pthread_barrier_wait(&barrier);
          pthread_barrier_wait(&barrier);
          free(held);
          return number; }""",
    )
    recording, printed = recorded(tmp_path, path, options=["--reachability=50000"])
    if printed:
        pytest.skip(NO_GUARDS)
    assert len(recording.marks["instructions"]) >= 2
    for size in (700, 702):
        row = recording.only(size)
        assert recording.deaths["unreachable_instructions"][row] == 0
        assert recording.deaths["free_instructions"][row] > 0
