"""Call stacks as text, and which frame is the place to change."""

from __future__ import annotations

from typing import Any

import pytest

from tare.heap_traces.frames import from_main, merged, place_of, site_text, stack_texts
from tare.heap_traces.spots import is_changeable
from tare.records.actions import LONGEST_FUNCTION, Place

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
        frame("alloc::raw_vec::RawVec$LT$T$C$A$GT$::reserve::h0123456789abcdef"),
        frame("__memcpy_chk", "/build/glibc-abc/debug/memcpy_chk.c", 3),
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


STARTED = [
    frame("__libc_start_call_main", object="/lib/libc.so.6"),
    frame("__libc_start_main@@GLIBC_2.34", object="/lib/libc.so.6"),
    frame(offset=0x6580),
]


def test_a_copy_in_rust_is_no_start_of_a_thread() -> None:
    to_vec = frame("to_vec<u8>", "/rustc/59807616e1fa/library/alloc/src/slice.rs", 448)
    clone = frame("clone", "/home/me/word.rs", 2)
    union = frame("union", "/home/me/main.rs", 91)
    started = [
        frame("clone", object="/usr/lib/x86_64-linux-gnu/libc.so.6"),
        frame("clone3", "../sysdeps/unix/sysv/linux/x86_64/clone3.S", 82),
    ]
    for start in started:
        assert stack_texts([to_vec, clone, union, start])[-1] == "union (main.rs:91)"


@pytest.mark.parametrize("file", ["/home/me/pool.c", ""])
@pytest.mark.parametrize("name", ["clone", "start_thread", "thread_start"])
def test_own_functions_named_like_starts_hide_no_callers(name: str, file: str) -> None:
    own, main = frame(name, file, 7), frame("main", "/home/me/main.c", 3)
    assert from_main([own, own, main, *STARTED]) == [own, own, main]


@pytest.mark.parametrize(
    "file",
    [
        "/rustc/59807616e1fa/library/alloc/src/alloc.rs",
        "/build/rustc-1.93-DHHnHq/rustc-1.93-1.93.1+dfsg/library/alloc/src/alloc.rs",
    ],
)
def test_without_own_code_the_place_is_in_a_crate_rather_than_in_the_language(file: str) -> None:
    alloc = frame("alloc", file, 95)
    crate = frame("with_nodes", "/home/me/.cargo/registry/src/x/petgraph-0.8.3/graph.rs", 9)
    found = place_of([alloc, crate])
    assert found is not None
    assert found.name == "with_nodes (graph.rs:9)"


def test_libraries_are_folded() -> None:
    own = frame("add", "/home/me/words.cc", 7)
    stack = [
        frame("std::string::_M_create", VECTOR, 1),
        frame("std::vector<int, std::allocator<int> >::push_back(int const&)", VECTOR, 1283),
        own,
        frame("qsort", object="/lib/libc.so.6"),
        frame("main", "/home/me/main.cc", 3),
        *STARTED,
    ]
    assert stack_texts(stack) == [
        "std::vector<int>::push_back (stl_vector.h:1283) + 1 inside",
        "add (words.cc:7)",
        "qsort (libc.so.6)",
        "main (main.cc:3)",
    ]
    assert site_text(stack) == "add (words.cc:7) ← main"
    assert stack_texts(stack[:2]) == ["std::vector<int>::push_back (stl_vector.h:1283) + 1 inside"]
    assert stack_texts([]) == []


def test_without_a_name_a_site_says_which_library_it_calls() -> None:
    called = [frame("__new_composite", object="/lib/libc.so.6"),
              frame("setlocale", object="/lib/libc.so.6")]  # fmt: skip
    outer = [frame(offset=0x384B), frame(offset=0x52DD), *STARTED]
    assert site_text([*called, *outer]) == "app+0x384b (setlocale) ← app+0x52dd"
    assert site_text(outer) == "app+0x384b ← app+0x52dd"


LONG = "store::Index<std::pair<unsigned int, unsigned int> >::insert_or_assign(unsigned int)"


@pytest.mark.parametrize(
    "first",
    [
        frame("add", "/home/me/words.cc", 7),
        frame("add", "/home/me/words.cc"),
        frame("add"),
        frame("app_main"),
        frame(LONG, "/home/me/index.h", 120),
        frame(LONG),
        frame(offset=0x384B),
        frame("Words.add", "/home/me/words.py", 7, object=""),
    ],
)
def test_a_site_begins_with_the_name_of_its_place(first: dict[str, Any]) -> None:
    """Tables name sites, what to do names places: a reader sees that they are the same."""
    place = place_of([first, frame("main", "/home/me/main.cc", 3)])
    assert place is not None
    assert site_text([first, frame("main", "/home/me/main.cc", 3)]) == f"{place.name} ← main"
    file = first["file"].rpartition("/")[2]
    assert file in place.name, "the name of a function is cut, and no place"
    assert len(place.name) <= LONGEST_FUNCTION + len(f" ({file or 'app'}:120)")


def test_sites_that_read_alike_become_one() -> None:
    def site(number: int, size: int, *names: str) -> dict[str, Any]:
        return {"site": number, "bytes": size, "frames": [frame(name) for name in names]}

    sites = [
        site(7, 10, "make", "work", "main", "a"),
        site(2, 5, "make", "main"),
        site(9, 1, "make", "work", "main", "b"),
    ]
    assert merged(sites, ["bytes"]) == [{**sites[0], "bytes": 11}, sites[1]]
    assert sites[0]["bytes"] == 10, "what was given stays as it was"
    assert merged([], ["bytes"]) == []


def test_a_function_that_returns_a_string_is_the_programs() -> None:
    name = "std::vector<int, std::allocator<int> > mine::made<int>(int)"
    assert place_of([frame(name, "/home/me/a.cc", 3)]) == Place(
        "mine::made<int>", "/home/me/a.cc", 3, PROGRAM
    )
    assert site_text([frame(name), frame("main")]) == "mine::made<int> (app) ← main"


INTERPRETER = frame("PyList_New", "/src/Objects/listobject.c", 9, "/opt/lib/libpython3.12.so.1.0")


def python(function: str, file: str, line: int = 1) -> dict[str, Any]:
    return frame(function, file, line, object="")


@pytest.mark.parametrize(
    "library",
    [
        python("JSONDecoder.decode", "/opt/py/lib/python3.12/json/decoder.py"),
        python("read_csv", "/opt/py/lib/python3.12/site-packages/pandas/io.py"),
        python("split", "/usr/lib/python3/dist-packages/yaml/scanner.py"),
        python("_find_and_load", "<frozen importlib._bootstrap>"),
        python("argmap_empty_graph_9", "<class 'networkx.argmap'> compilation 16", 4),
        frame("scan", "/src/_json.c", 1, "/opt/py/lib/python3.12/lib-dynload/_json.cpython.so"),
    ],
)
def test_the_place_in_a_python_program_is_its_own_line(library: dict[str, Any]) -> None:
    own = python("Words.<locals>.<lambda>", "/home/me/words.py", 7)
    main = python("<module>", "/home/me/words.py", 20)
    place = place_of([INTERPRETER, library, own, main])
    assert place == Place("Words.<locals>.<lambda>", "/home/me/words.py", 7)


def test_a_python_program_may_have_names_of_the_c_library() -> None:
    assert place_of([INTERPRETER, python("malloc", "<string>", 3)]) == Place(
        "malloc", "<string>", 3
    )


def test_a_python_program_without_own_code_is_in_its_library() -> None:
    decode = python("decode", "/opt/py/lib/python3.12/json/decoder.py", 5)
    assert place_of([INTERPRETER, decode]) == Place("decode", decode["file"], 5)
    package = python("load", "/opt/py/lib/python3.12/site-packages/yaml/__init__.py", 8)
    assert place_of([INTERPRETER, decode, package]) == Place("load", package["file"], 8)
    assert place_of([INTERPRETER]) == Place(
        "PyList_New", INTERPRETER["file"], 9, INTERPRETER["object"]
    )


PACKAGES = "/opt/py/lib/python3.12/site-packages"
TOOL = python("check", f"{PACKAGES}/tool/api.py", 39)
NUMPY = python("zeros", f"{PACKAGES}/numpy/core.py", 3)
OTHER = python("check", f"{PACKAGES}/toolbox/api.py", 3)


@pytest.mark.parametrize(
    "starts",
    [
        [python("<module>", "/opt/py/bin/tool", 8)],
        [python("<module>", f"{PACKAGES}/tool/__main__.py", 2), python("run", "<frozen runpy>")],
    ],
)
def test_an_installed_tool_of_python_is_the_program(starts: list[dict[str, Any]]) -> None:
    place = Place("check", TOOL["file"], 39)
    assert place_of([INTERPRETER, NUMPY, OTHER, TOOL, *starts]) == place
    assert place_of([INTERPRETER, TOOL, TOOL, *starts]) == place


@pytest.mark.parametrize("script", ["/home/me/bin/report", "/home/me/report.py", "<string>"])
def test_a_package_that_a_script_of_ones_own_calls_is_a_library(script: str) -> None:
    own = python("<module>", script, 4)
    assert place_of([INTERPRETER, TOOL, own]) == Place("<module>", script, 4)


@pytest.mark.parametrize(
    ("function", "file"),
    [
        ("<app::Word as core::clone::Clone>::clone", ""),
        ("<app::Word as core::clone::Clone>::clone::h0123456789abcdef", ""),
        ("app::word::{impl#3}::clone", "/home/me/word.rs"),
        ("clone", "/home/me/word.rs"),
    ],
)
def test_a_copy_in_rust_is_made_where_it_is_asked_for(function: str, file: str) -> None:
    clone = frame(function, file, 2)
    union = frame("app::union", "/home/me/main.rs", 91)
    assert place_of([clone, clone, union]) == Place("app::union", "/home/me/main.rs", 91, PROGRAM)
    assert place_of([clone]) is not None


@pytest.mark.parametrize(
    "own",
    [
        frame("strdup", "/home/me/strings.c", 4),
        frame("std::hash<Word>::operator()(Word const&) const", "/home/me/word.hpp", 9),
        frame("grow", "/home/me/src/ext/list.c", 4),
        frame("core::Engine::start()"),
        frame("link", object="/opt/x/ld.gold"),
    ],
)
def test_what_only_looks_like_a_library_is_the_programs(own: dict[str, Any]) -> None:
    place = place_of([own, frame("main", "/home/me/main.c", 2)])
    assert place is not None
    assert (place.file, place.line) == (own["file"], own["line"])


@pytest.mark.parametrize(
    ("module", "file", "changeable"),
    [
        ("/home/me/app", "", True),
        ("/opt/lib/libmine.so.1", "", True),
        ("/usr/lib/x86_64-linux-gnu/libz.so.1", "", False),
        ("/usr/bin/python3.11", "", False),
        ("/opt/python/lib/libpython3.13.so.1.0", "", False),
        ("/usr/bin/node", "", False),
        ("/usr/lib/node_modules/addon/build/addon.node", "", True),
        ("", "/home/me/app.py", True),
    ],
)
def test_what_can_be_changed_is_no_library_of_the_system_and_no_interpreter(
    module: str, file: str, changeable: bool
) -> None:
    assert is_changeable(Place("made", file, 3, module)) == changeable
