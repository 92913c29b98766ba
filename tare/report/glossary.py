"""The terms of the field. docs/glossary.md has all; a page explains each where it first stands."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from tare.base.libraries import markupsafe
from tare.base.text import shortened, visible


class Term(NamedTuple):
    name: str
    on_pages: bool
    meaning: str


@cache
def terms() -> tuple[Term, ...]:
    """By name, ascending."""
    text = files("tare.report").joinpath("glossary.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(Term(row["term"], row["on pages"] == "yes", row["meaning"]) for row in rows)


class Explaining:
    """A filter of templates: text with the meaning of each term where the page first has it."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._waiting = {term.name: term.meaning for term in terms() if term.on_pages}

    def __call__(self, text: str) -> markupsafe.Markup:
        escaped = str(markupsafe.escape(shortened(visible(text), self._longest)))
        if not self._waiting:
            return markupsafe.Markup(escaped)
        longest_first = sorted(self._waiting, key=len, reverse=True)
        known = re.compile(rf"\b({'|'.join(longest_first)})(?=s?\b)", re.IGNORECASE)
        return markupsafe.Markup(known.sub(self._explained, escaped))

    def _explained(self, found: re.Match[str]) -> str:
        meaning = self._waiting.pop(found[0].lower(), "")
        if not meaning:
            return found[0]
        return f'<abbr title="{markupsafe.escape(meaning)}">{found[0]}</abbr>'
