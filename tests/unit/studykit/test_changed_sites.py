"""Call sites before and after a change, and what they are called."""

from __future__ import annotations

from typing import Any

from tare.heap_traces.frames import site_text
from tare.studykit.changed_sites import SiteSums, site_changes


def module(file: str, line: int) -> dict[str, Any]:
    return {"function": "<module>", "object": "", "file": file, "line": line, "offset": 0}


def site(file: str, line: int, size: float) -> SiteSums:
    return SiteSums("", [module(file, line)], {"bytes": size})


def test_modules_of_python_are_known_by_their_files() -> None:
    (changed,) = site_changes(
        [site("/a/write.py", 5, 100), site("/a/read.py", 5, 10)],
        [site("/b/write.py", 7, 40), site("/b/read.py", 5, 10)],
    )
    assert site_text(changed.frames) == "<module> (write.py:7)"
    assert changed.more("bytes") == -60


def test_several_lines_of_one_function_are_named_by_none() -> None:
    (changed,) = site_changes(
        [site("write.py", 2, 50), site("write.py", 5, 100)],
        [site("write.py", 2, 50), site("write.py", 5, 40)],
    )
    assert site_text(changed.frames) == "<module> (write.py)"
    assert (changed.base["bytes"], changed.head["bytes"]) == (150, 90)
