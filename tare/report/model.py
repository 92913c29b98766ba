"""What a study hands to a report: tables and figures which the terminal and the page both draw.

Studies build these; nothing here knows where they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tare.base.display import Displayed
from tare.records.actions import Action


@dataclass(frozen=True)
class Column:
    """``explanation`` is one sentence; ``essential`` columns stay when the terminal is narrow."""

    title: str
    explanation: str = ""
    numeric: bool = True
    essential: bool = True

    @property
    def is_site(self) -> bool:
        """Whether its cells are places in the program."""
        return self.title in ("call site", "frame")


@dataclass(frozen=True)
class Cell:
    """``text`` is shown, ``key`` is what sorting compares (None sorts last).

    ``tone`` is ``good``, ``bad``, ``quiet`` or empty. ``links`` are parts of the text, each with
    the anchor on the page that it leads to.
    """

    text: str
    key: float | str | None = None
    tone: str = ""
    links: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Table:
    """A table that is not ``essential`` is for the page alone, not for the terminal. The first
    ``few`` rows are in view; ``rest`` says in a sentence what the others come to, which are shown
    to those who ask. ``places`` are the names of the places in the program that rows are about,
    empty where there is none."""

    identifier: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    essential: bool = True
    few: int | None = None
    rest: str = ""
    places: Sequence[str] = ()


@dataclass(frozen=True)
class Figure(Displayed):
    """``spec`` is a Vega-Lite specification with its data inline, without size, theme or config.
    The page folds what is not ``essential``; one that is ``wide`` has its whole width."""

    identifier: str
    title: str
    caption: str
    spec: Mapping[str, Any]
    essential: bool = True
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """One question answered. ``findings`` are plain sentences, the most important first;
    ``commands`` are (label, shell command): what they advise to type, shown to be copied.
    ``research`` is for few readers: the page folds it at its end. ``short`` is the title where
    there is little room."""

    identifier: str
    title: str
    findings: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    obtained: str = "executed"
    expected_seconds: float | None = None
    took_seconds: float | None = None
    commands: Sequence[tuple[str, str]] = ()
    research: bool = False
    short: str = ""

    @property
    def is_left_out(self) -> bool:
        """Whether it says only why nothing was measured."""
        shown = self.tables or self.figures
        return not shown and any(finding.startswith("Left out") for finding in self.findings[:1])


@dataclass(frozen=True)
class Tile:
    """One figure of the first screen: ``value`` is large, ``title`` says of what, ``detail`` how to
    read it. ``tone`` is as of a cell."""

    title: str
    value: str
    detail: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Report(Displayed):
    """``facts`` say what was measured where: (name, value) pairs in the order to show them.
    ``about`` is what to know of the program before that: words, and commands. ``verdict`` is the
    answer in a few sentences, ``actions`` what to do, best first; ``trust``
    says in one line what the figures rest on, ``trusted`` whether all of them can be used.
    ``program`` is the name of the one that was measured, ``command`` its command line;
    ``commands`` are as those of a section."""

    title: str
    subtitle: str = ""
    facts: Sequence[tuple[str, str]] = ()
    about: Section | None = None
    verdict: Sequence[str] = ()
    actions: Sequence[Action] = ()
    tiles: Sequence[Tile] = ()
    trust: str = ""
    trusted: bool = True
    sections: Sequence[Section] = ()
    warnings: Sequence[str] = field(default_factory=tuple)
    program: str = ""
    command: str = ""
    commands: Sequence[tuple[str, str]] = ()
