"""What is read of a process is anything: a walk of it ends, and finds nothing twice."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.base.libraries import np
from tare.observers.process_memory import Area
from tare.studies.space.glibc_heap import heaps_of

START = 0x5555_0000_0000


class Bytes:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.runs = np.array([[START, START + len(content)]], np.int64)

    def read(self, start: int, end: int) -> bytearray:
        inside = self._content[max(start - START, 0) : max(end - START, 0)]
        return bytearray(inside.ljust(end - start, b"\0"))


def heap(content: bytes, name: str = "[heap]") -> tuple[Bytes, list[Area]]:
    content = content.ljust(-(-len(content) // 4096) * 4096 or 4096, b"\0")
    return Bytes(content), [Area(START, START + len(content), "rw-p", name, len(content), 0)]


def cell(size: int, used_before: bool, first: int = 0, second: int = 0) -> bytes:
    return struct.pack("<4Q", 0, size | used_before, first, second).ljust(size, b"\1")


def link(address: int, following: int) -> int:
    return following ^ address >> 12


def test_cells_of_each_kind() -> None:
    key = 0x1234_5678_9ABC_DEF0
    sizes = [0x290, 64, 64, 96, 48]
    at = np.cumsum([START + 16, *sizes]).tolist()
    content = b"".join(
        [
            cell(0x290, True),
            cell(64, True, link(at[1], at[2]), key),
            cell(64, True, link(at[2], 0), key),
            cell(96, True),  # free, for the next one says so
            cell(48, False),
            cell(4096 - 0x290 - 64 - 64 - 96 - 48, True),
        ]
    )
    found = heaps_of(*heap(content), [])
    assert found.live.tolist() == [[at[0], at[0] + 0x288], [at[4], at[4] + 40]]
    assert found.cached.tolist() == [[at[1], at[1] + 56], [at[2], at[2] + 56]]
    assert found.free[:, 0].tolist() == [at[3], at[5]]
    assert found.caches_known
    assert len(found.undivided) == 0


def test_a_broken_heap_is_undivided_from_there() -> None:
    content = cell(64, True) + cell(64, True) + struct.pack("<2Q", 0, 17)
    found = heaps_of(*heap(content + bytes(4000)), [])
    assert found.live.tolist() == [[START + 16, START + 72], [START + 80, START + 136]]
    assert found.undivided.tolist() == [[START + 128, START + 8192]]


@pytest.mark.parametrize(("behind", "usable"), [(0, 4096), (16, 4088)])
def test_cells_that_are_mapped_end_with_their_page_until_glibc_2_43(
    behind: int, usable: int
) -> None:
    content = struct.pack("<2Q", 0, 8192 - behind | 2).ljust(8192, b"\1")
    found = heaps_of(*heap(content + struct.pack("<2Q", 0, 4096 - behind | 2), ""), [])
    assert found.live.tolist() == [
        [START + 16, START + 4096 + usable],
        [START + 8192 + 16, START + 8192 + usable],
    ]
    assert found.areas.tolist() == [[START, START + 8192 + 4096]]


@pytest.mark.parametrize(("top", "bins", "has_fast"), [(96, 112, True), (8, 24, False)])
def test_fast_bins_are_looked_for_where_the_arena_has_them(
    top: int, bins: int, has_fast: bool
) -> None:
    arena = START + 4096
    places = {arena + top: START + 64}
    for number in range(127):
        own = arena + bins - 16 + 16 * number
        places |= {own + 16: own, own + 24: own}
    if has_fast:
        places[arena + 16] = START + 32
    cells = cell(32, True) + cell(32, True, link(START + 48, 0)) + cell(4096 - 64, True)
    library = b"".join(struct.pack("<Q", places.get(at, 0)) for at in range(arena, arena + 4096, 8))
    memory, areas = heap(cells + library)
    areas = [
        Area(START, arena, "rw-p", "[heap]", 4096, 0),
        Area(arena, arena + 4096, "rw-p", "/usr/lib/libc.so.6", 4096, 0),
    ]
    found = heaps_of(memory, areas, [])
    assert found.fast_known
    last = START + 64 + 16
    assert found.free[:, 0].tolist() == ([START + 48, last] if has_fast else [last])


words = st.lists(
    st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([33, 65, 0x291, 4098, START + 16])),
    max_size=512,
)


@given(words, st.sampled_from(["[heap]", "", "/usr/lib/libc.so.6"]))
def test_anything(content: list[int], name: str) -> None:
    memory, areas = heap(struct.pack(f"<{len(content)}Q", *content), name)
    found = heaps_of(memory, areas, [])
    cells = np.concatenate([found.live, found.free, found.cached])
    cells = cells[np.argsort(cells[:, 0])]
    assert (cells[1:, 0] >= cells[:-1, 1]).all()
