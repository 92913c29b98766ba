"""Uses, births, deaths and call sites that the instrument records, of programs that know them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tare.heap_traces.trace import OPERATIONS
from tests.native.instrument.recordings.recorded import (
    Compile,
    built,
    either_way,
    recorded,
)

OBJECT, OBJECT_STEP, NEIGHBOUR, MARKER = 4160, 64, 2048, 60_000
"""As in uses.c."""


@either_way
def test_the_first_and_the_last_use_by_every_kind_of_access(tmp_path: Path, sites: str) -> None:
    program = built(tmp_path, "uses.c", "-mcx16")
    recording, printed = recorded(tmp_path, program, options=[f"--sites={sites}"])
    names = printed.split()
    count = len(names) // 2
    assert count > 70
    markers = np.array(
        [recording.births["instructions"][recording.only(MARKER + i)] for i in range(2 * count + 1)]
    )
    wrong = {}
    for way, name in enumerate(names[:count]):
        row = recording.only(OBJECT + OBJECT_STEP * way)
        uses = [recording.deaths[each][row] for each in ("first_use", "last_use")]
        # Between which markers; 0: before the first, so never.
        seen = [int(np.searchsorted(markers, use, side="right")) for use in uses]
        places = [way + 1, names.index(name, count) + 1]
        if seen != ([0, 0] if name.startswith("nothing") else places):
            wrong[name] = seen, places
        neighbour = recording.only(NEIGHBOUR + way)
        assert recording.deaths["first_use"][neighbour] == 0, f"beside what {name} uses"
    assert wrong == {}


@either_way
def test_how_far_each_object_was_touched(tmp_path: Path, sites: str) -> None:
    program = built(tmp_path, "touches.c")
    recording, printed = recorded(tmp_path, program, options=[f"--sites={sites}"])
    told = [tuple(map(int, line.split())) for line in printed.splitlines()]
    assert len(told) == 20
    seen = [(size, int(recording.deaths["touched"][recording.only(size)])) for size, _ in told]
    assert seen == told


BIRTHS = {
    # size: operation, alignment, grown out of the size, given back
    100_000_100: ("calloc", 0, None, True),
    3001: ("malloc", 0, None, True),
    3002: ("realloc", 0, 3001, True),
    3003: ("malloc", 0, None, True),
    200_005: ("realloc", 0, 3003, True),
    3006: ("realloc", 0, 200_005, True),
    3007: ("realloc", 0, None, True),
    3012: ("realloc", 0, None, True),
    3008: ("malloc", 0, None, True),
    3009: ("aligned", 128, None, True),
    3584: ("aligned", 512, None, True),
    3011: ("aligned", 1024, None, True),
    3013: ("aligned", 4096, None, True),
    3014: ("aligned", 4096, None, True),
    0: ("malloc", 0, None, True),
    3015: ("new", 0, None, True),
    3016: ("new", 0, None, True),
    3017: ("new", 0, None, True),
    3018: ("new", 0, None, True),
    3019: ("new", 0, None, True),
    3020: ("new", 64, None, True),
    3021: ("new", 64, None, True),
    2304: ("new", 256, None, True),
    1017: ("new", 0, None, True),
    3022: ("new", 0, None, False),
    3023: ("new", 0, None, True),
}
USED = {100_000_100, 3001, 3003, 200_005, 3023}
"""A realloc uses the object that it grows or shrinks, whose content it keeps."""


@either_way
def test_every_way_to_be_born(tmp_path: Path, sites: str) -> None:
    program = built(tmp_path, "births.cpp")
    recording, _ = recorded(tmp_path, program, options=[f"--sites={sites}"])
    births, deaths = recording.births, recording.deaths
    rows = {size: recording.only(size) for size in BIRTHS}
    ids = {size: row + 1 for size, row in rows.items()}
    for size, (operation, alignment, origin, freed) in BIRTHS.items():
        row = rows[size]
        assert OPERATIONS[births["operation"][row]] == operation, size
        assert births["alignment"][row] == alignment, size
        assert births["resized_from"][row] == (0 if origin is None else ids[origin]), size
        assert (deaths["free_instructions"][row] > 0) == freed, size
        assert (deaths["last_use"][row] > 0) == (size in USED), size
    order = list(rows.values())
    assert order == sorted(order)
    large = rows[100_000_100]
    assert deaths["first_use"][large] == deaths["last_use"][large]
    added = np.diff(births["bytes"][: len(order) + order[0]].astype(np.int64))
    assert added[rows[3002] - 1] == 1
    assert added[rows[200_005] - 1] == 200_005 - 3003
    assert added[rows[3006] - 1] == 0


DEPTH = 80_000
CALLS = {
    5001: ["direct", "main"],
    5002: ["recursive"] * (DEPTH + 1) + ["main"],
    5004: ["called", "by_pointer", "main"],
    5005: ["of_virtual", "Derived::make()", "main"],
    5006: ["last_call", "main"],
    5007: ["main"],
    5008: ["catches", "main"],
    5009: ["catches", "main"],
    5010: ["lands", "main"],
    5012: ["interrupted", "main"],
    5014: ["left", "main"],
    5017: ["after", "main"],
}
"""A function that jumps to another in place of a call is on nobody's stack."""


def up_to(functions: Sequence[str], last: str) -> list[str]:
    return list(functions[: functions.index(last) + 1])


def test_the_calls_that_lead_to_an_object(tmp_path: Path) -> None:
    recording, _ = recorded(tmp_path, built(tmp_path, "calls.cpp"))
    for size, expected in CALLS.items():
        calls = recording.calls(recording.only(size))
        assert up_to(calls, "main") == expected, size
        assert len(calls) - len(expected) <= 3, "what stands above main"
    for size, innermost, called in ((5011, "handler", "interrupted"), (5015, "compares", "sorts"),
                                    (5013, "leaving_handler", "left")):  # fmt: skip
        calls = up_to(recording.calls(recording.only(size)), "main")
        # Between them, what the C library calls.
        assert (calls[0], *calls[-2:]) == (innermost, called, "main")
    assert recording.calls(recording.only(5016))[0] == "in_thread"
    first, second = (recording.births["site"][row] for row in recording.of_size(5003))
    assert first != second
    frames = [recording.frames[int(recording.sites["frame"][each - 1])] for each in (first, second)]
    assert [frame.function for frame in frames] == ["two_lines", "two_lines"]
    assert frames[0].line + 1 == frames[1].line
    assert frames[0].file.endswith("calls.cpp")
    assert frames[0].offset < frames[1].offset


def test_of_an_endless_recursion_the_inner_half_is_kept(tmp_path: Path) -> None:
    deep = 1_200_000
    recording, _ = recorded(tmp_path, built(tmp_path, "calls.cpp"), str(deep))
    calls = recording.calls(recording.only(5002))
    assert deep / 3 < len(calls) < deep
    assert set(calls) == {"recursive"}
    assert recording.calls(recording.only(5017))[0] == "after"


def test_what_is_read_to_be_freed_is_told_from_work(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      struct node *lists[2] = {make(700), make(800)};
      long sum = work(100000);
      destroy(lists[0]);
      free(malloc(16));
      for (struct node *node = lists[1], *next; node != NULL; node = next) {
        next = node->next;
        sum += work(node->value + 1000);
        free(node);
      }
      return sum == 0;""",
        """struct node { struct node *next; long value; };
        static struct node *make(size_t size) {
          struct node *first = NULL;
          for (int i = 0; i < 100; ++i) {
            struct node *node = malloc(size);
            *node = (struct node){first, i};
            first = node;
          }
          return first; }
        static long work(long steps) {
          volatile long sum = 0;
          for (long i = 0; i < steps; ++i) sum += i;
          return sum; }
        static void destroy(struct node *node) {
          for (struct node *next; node != NULL; node = next) {
            next = node->next;
            free(node);
          } }""",
    )
    recording, _ = recorded(tmp_path, path)
    deaths = recording.deaths
    torn, worked = (recording.of_size(size) for size in (700, 800))
    assert len(torn) == len(worked) == 100
    # Before the first free, of the node made last, the dynamic linker looks free up.
    before = deaths["before_teardown"][torn][:-1]
    assert (before > 0).all()
    assert (before < deaths["last_use"][torn][:-1] - 100_000).all(), "before the work"
    assert (deaths["before_teardown"][worked] == 0).all(), "its work is a use"
    assert (deaths["free_thread"][torn] == 1).all()
    assert (deaths["free_site"][torn] > 0).all()
