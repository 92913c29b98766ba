"""Which frame of a call stack is the place to change."""

from __future__ import annotations

from typing import Any

import pytest

from tare.heap_traces.frames import place_of
from tare.records.actions import Place

PROGRAM = "/home/me/app"
LIBSTDCXX = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30"
VECTOR = "/usr/include/c++/12/bits/stl_vector.h"


def frame(
    function: str = "", file: str = "", line: int = 0, object: str = PROGRAM, offset: int = 0
) -> dict[str, Any]:
    return {"function": function, "object": object, "file": file, "line": line, "offset": offset}


@pytest.mark.parametrize(
    "library",
    [
        frame("operator new(unsigned long)", object=LIBSTDCXX),
        frame("std::vector<int>::push_back(int const&)", VECTOR, 1283),
        frame("void std::vector<int>::_M_realloc_insert<int>(int&&)"),
        frame("", object=LIBSTDCXX, offset=0xD44A2),
        frame("Json::parse", "/usr/include/json/reader.h", 12),
        frame("xmlNewNode", object="/usr/lib/x86_64-linux-gnu/libxml2.so.2"),
        frame("strdup"),
    ],
)
def test_the_place_is_the_first_frame_of_own_code(library: dict[str, Any]) -> None:
    own = frame("Words::add(Word const&)", "/home/me/words.cc", 7)
    place = place_of([frame("malloc", object="/lib/libc.so.6"), library, own, frame("main")])
    assert place == Place("Words::add", "/home/me/words.cc", 7, PROGRAM)


def test_a_place_without_debug_information_has_module_and_offset() -> None:
    assert place_of([frame(offset=0x1A2B)]) == Place("app+0x1a2b", module=PROGRAM)


def test_without_own_code_the_place_is_in_a_library() -> None:
    library = frame("xmlNewNode", object="/usr/lib/libxml2.so.2")
    assert place_of([frame("strdup"), library]) == Place("xmlNewNode", module=library["object"])
    assert place_of([frame("strdup")]) == Place("strdup", module=PROGRAM)
    assert place_of([frame(object="")]) is None
    assert place_of([]) is None
