"""`tare memsys`: descriptions of memory systems, and what is asked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tare.base.errors import MissingError, TareError, UsageError
from tare.observers import memory_system
from tare.observers.memory_model import (
    host_model,
    load_model,
    read_model,
    shipped_models,
)

# ---- models ----


def test_shipped_models() -> None:
    assert {"decstation-5000-200", "two-level"} <= set(shipped_models())
    for name in shipped_models():
        assert load_model(name).name == name
    decstation = load_model("decstation-5000-200")
    reference = {
        ("instructions", "size"): 65536, ("instructions", "line"): 16, ("instructions", "ways"): 1,
        ("data", "size"): 65536, ("data", "line"): 4, ("data", "ways"): 1,
        ("data", "read_fetch"): 16, ("data", "miss_cycles"): 15,
        ("instructions", "miss_cycles"): 15, ("data", "write_miss_cycles"): 0,
    }  # fmt: skip
    for (holds, key), value in reference.items():
        assert getattr(decstation.cache(1, holds), key) == value
    buffer = decstation.write_buffer
    assert buffer is not None
    assert (buffer.entries, buffer.width) == (6, 4)
    assert (buffer.same_page_cycles, buffer.other_page_cycles) == (1, 5)
    in_words = load_model("decstation-5000-200-words")
    assert in_words.cache(1, "instructions") == decstation.cache(1, "instructions")
    for key in ("size", "line", "read_fetch"):
        wide, narrow = (getattr(model.cache(1, "data"), key) for model in (in_words, decstation))
        assert wide == 2 * narrow
    assert in_words.write_buffer == replace(buffer, width=8)


GOOD = """
title = "mine"
[[cache]]
level = 1
size = "32KiB"
ways = 8
miss_cycles = 10
"""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("32KiB", "32769B"), "multiple"), (("ways = 8", "ways = 0"), "ways"),
        (("ways = 8", "ways = true"), "ways"), (("ways = 8", ""), "missing"),
        (("level = 1", "level = 2"), "level 1"), (("level = 1", "level = 7"), "level"),
        (("level", "lewel"), "level"), (("miss_cycles", "hit_cycles = 1\nmiss_cycles"), "known"),
        (('"32KiB"', "32768"), "size"), (('"32KiB"', '"32 kilos"'), "32 kilos"),
        (("ways = 8", "ways = 8\nline = '48B'"), "power"),
        (("[[cache]]", "cache = 3\n[x]"), "list of tables"),
        (("ways = 8", "ways = 8\nwrite_miss = 'no-fetch'"), "write buffer"),
        (('"32KiB"', '"48KiB"'), "power of two"), (("title", "titel"), "known"),
        (('"32KiB"', '"1024GiB"'), "lines"), (('title = "mine"', "straddling = 3"), "straddling"),
        (("level = 1", "level = 1\nholds = 'data'"), "neither"), (("=", "is"), "cannot be read"),
        (('title = "mine"', "cycles_per_instruction = 'one'"), "number"),
        (("[[cache]]", "[write_buffer]\nentries = 6\nsame_page_cycles = 1\nother_page_cycles = 5\n"
          "[[cache]]"), "split"),
    ],
)  # fmt: skip
def test_a_wrong_model_is_refused(change: tuple[str, str], complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert read_model(path).name == "mine"
    path.write_text(GOOD.replace(*change))
    with pytest.raises(UsageError, match=re.escape(complaint)):
        read_model(path)


def test_models_by_name_and_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no memory model 'vax'"):
        load_model("vax")
    with pytest.raises(UsageError, match="cannot be read"):
        load_model(str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="two models have the name"):
        memory_system.how(["two-level", "two-level"], False)
    with pytest.raises(UsageError, match="at most 8"):
        memory_system.how([f"./{n}.toml" for n in range(9)] and ["two-level"] * 9, False)
    large = tmp_path / "large.toml"
    large.write_text("# " + "x" * 100_000)
    with pytest.raises(UsageError, match="too large"):
        load_model(str(large))


def test_the_host_s_caches(tmp_path: Path) -> None:
    def index(number: int, **facts: str) -> None:
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, value in facts.items():
            (folder / name).write_text(f"{value}\n")

    with pytest.raises(MissingError):
        host_model(tmp_path)
    line = {"coherency_line_size": "64"}
    index(0, level="1", type="Data", size="48K", ways_of_associativity="12", **line)
    index(1, level="1", type="Instruction", size="32K", ways_of_associativity="8", **line)
    index(2, level="2", type="Unified", size="1024K", ways_of_associativity="16", **line)
    index(3, level="3", type="Unified", size="33M", ways_of_associativity="0", **line)
    model = host_model(tmp_path)
    assert model.levels == 3
    assert [cache.size for cache in model.caches] == [48 << 10, 32 << 10, 1 << 20, 33 << 20]
    assert model.cache(3, "data").sets == 1


def test_files_that_are_not_the_tool_s(tmp_path: Path) -> None:
    what = memory_system.how(["two-level"], False)
    for content in ("{", "{}", '{"format": "tare-memsys", "version": 9}',
                    '{"format": "tare-memsys", "version": 1, "models": ["other"]}'):  # fmt: skip
        (tmp_path / "1.0.json").write_text(content)
        with pytest.raises(TareError):
            memory_system.read_files(tmp_path, what)
