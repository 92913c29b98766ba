"""Files of events and phases: what they may say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.memory_managers.catalogue import (
    Collector,
    RecipeError,
    read_recipe,
)
from tare.memory_managers.manager import Manager, resolve
from tare.observers.event_files import (
    COLLECTION,
    MOST_AT_A_PLACE,
    MOST_LINES,
    MOST_NAMES,
    NAME_BYTES,
    as_text,
    collector_events,
    read_events,
)

# ---- what is wrong with a file ----


def read(tmp_path: Path, text: str | bytes) -> str:
    file = tmp_path / "x.events"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return as_text(read_events(file))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("count", "has 1 words"),
        ("count name", "has 2 words"),
        ("count name place more", "has 4 words"),
        ("counts name place", "begins with 'counts'"),
        ("COUNT name place", "begins with 'COUNT'"),
        (f"count {'n' * (NAME_BYTES + 1)} place", "printable text of at most"),
        ("count " + "\u00e9" * 32 + " place", "printable text of at most"),
        ("count a\u202eb place", "printable"),
        ("count tare.collection place", "reserved for Tare"),
        ("count name a\u202eb", "printable"),
        ("count name !symbol", "lacks the object"),
        ("count name a!b!c", "more than one !"),
        ("count name lib.so!", "is none of"),
        ("count name +5", "is none of"),
        ("count name lib.so!0x10", "write lib.so!+0x10"),
        ("count name 12ab", "cannot begin with a digit"),
        ("count name main+", "not a number"),
        ("count name main+x", "not a number"),
        ("count name main+-4", "not a number"),
        ("count name main+0X4", "not a number"),
        ("count name main+1_0", "not a number"),
        ("count name main+\u0664", "not a number"),
        ("count name main+18446744073709551616", "larger than an address"),
        ("end phase main", "which no line begins"),
        ("count phase main\nend phase main", "which no line begins"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)) as raised:
        read(tmp_path, f"# first\ncount good main\n{line}\n")
    number = 3 + line.count("\n")
    assert f"x.events, line {number}: " in raised.value.message
    assert raised.value.exit_code == 2
    assert raised.value.hint


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no events"):
        read(tmp_path, "# nothing\n\n")
    with pytest.raises(UsageError, match="line 2: is not UTF-8"):
        read(tmp_path, b"count a b\n\xff\xfe c d\n")
    with pytest.raises(UsageError, match="larger than"):
        read(tmp_path, b"#" * ((4 << 20) + 1))
    with pytest.raises(UsageError, match="cannot be read"):
        read_events(tmp_path)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_events(tmp_path / "missing")
    with pytest.raises(UsageError, match="lines allowed"):
        read(tmp_path, "".join(f"count a main+{i}\n" for i in range(MOST_LINES + 1)))
    with pytest.raises(UsageError, match=f"line {MOST_AT_A_PLACE + 1}: exceeds the"):
        read(tmp_path, "count a main+4\ncount b main+0x4\n" * MOST_AT_A_PLACE)
    with pytest.raises(UsageError, match=f"line {MOST_NAMES + 1}: exceeds the"):
        read(tmp_path, "".join(f"count n{i} main+{i}\n" for i in range(MOST_NAMES + 1)))


def test_what_the_tool_is_given(tmp_path: Path) -> None:
    given = read(
        tmp_path,
        "count a main\r\n\tbegin  b main+16 # here\nend b lib.so!main+0x10\n"
        "during a lib.so!+4096\ncount a 0x401000\ncount a main+0",
    )
    assert given == (
        "count a main\nbegin b main+0x10\nend b lib.so!main+0x10\n"
        "during a lib.so!+0x1000\ncount a 0x401000\ncount a main\n"
    )


# ---- recipes ----

RECIPE = """
schema = 1
name = "mine"
title = "a collector of mine"
version = "1"
licence = "MIT"
homepage = "https://example.org"
kind = "collector"
default_weigh = false
build = "none"
[collector]
work = ["collect", "sweep.part.0"]
collection = "collect"
[object]
file = "libmine.so"
"""


def recipe(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine" / "manager.toml"
    path.parent.mkdir()
    path.write_text(text)
    return path


def test_a_recipe_names_what_is_collection(tmp_path: Path) -> None:
    found = read_recipe(recipe(tmp_path, RECIPE))
    assert found.collector == Collector(("collect", "sweep.part.0"), "collect")
    manager = Manager("mine", server=tmp_path / "libmine.so", collector=found.collector)
    assert as_text(collector_events(manager)) == (
        f"count {COLLECTION} libmine.so!collect\n"
        f"during {COLLECTION} libmine.so!collect\n"
        f"during {COLLECTION} libmine.so!sweep.part.0\n"
    )
    assert collector_events(resolve("glibc")) == ()


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (
            'work = ["collect", "sweep.part.0"]',
            "work = []",
            "collector.work: must be a list of 1 to 100",
        ),
        (
            '["collect", "sweep.part.0"]',
            '["two words"]',
            "work: must be a list of 1 to 100 symbols",
        ),
        (
            '["collect", "sweep.part.0"]',
            "[1]",
            "work: must be a list of 1 to 100 symbols",
        ),
        (
            'collection = "collect"',
            'collection = "a!b"',
            "collection: must be the symbol",
        ),
        ('collection = "collect"', "", "collector.collection: is missing"),
        ('collection = "collect"', 'collection = "c"\nx = 1', "collector.x: unknown key"),
        ('kind = "collector"', 'kind = "malloc"', "collector: has no place"),
        ("libmine.so", "lib mine.so", "object.file: must have no space"),
    ],
)
def test_a_wrong_collector_is_named(tmp_path: Path, old: str, new: str, what: str) -> None:
    assert old in RECIPE
    with pytest.raises(RecipeError, match=re.escape(what)):
        read_recipe(recipe(tmp_path, RECIPE.replace(old, new)))
