"""The command lines that the pages of the documentation show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ "
ASKS_CODE = f"{PROMPT}echo $?"


class CommandLine(NamedTuple):
    page: str
    text: str
    shown_code: int | None
    """What `echo $?` shows right after it."""


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> Iterator[str]:
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        if match["language"] in languages:
            yield match["code"]


def is_synopsis(line: str) -> bool:
    """A pattern and not an example: it holds a word in capitals, but for variables of the shell."""
    return re.search(r"(?<![$\w/])[A-Z]{3,}\b", line) is not None


def in_script(code: str) -> Iterator[tuple[str, int | None]]:
    """All lines of an `sh` block."""
    for line in code.splitlines():
        if line and not line.startswith("#"):
            yield line, None


def in_session(code: str) -> Iterator[tuple[str, int | None]]:
    """What is typed after a prompt in a `console` block."""
    lines = code.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(PROMPT) and line != ASKS_CODE:
            rest = iter(lines[number + 1 :])
            typed_next = next((after for after in rest if after.startswith(PROMPT)), "")
            code_shown = int(next(rest)) if typed_next == ASKS_CODE else None
            yield line.removeprefix(PROMPT), code_shown


def command_lines(page: Path) -> Iterator[CommandLine]:
    """In the order of the page, without synopses."""
    readers = {"sh": in_script, "console": in_session}
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        if reader := readers.get(match["language"]):
            for text, code in reader(match["code"].replace("\\\n", " ")):
                if not is_synopsis(text):
                    yield CommandLine(relative(page), text, code)
