"""What tables of call sites share: how a site reads, and its stack with a row for each frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from tare.heap_traces import frames
from tare.report.fields import Field, texts
from tare.report.model import Cell

CALLED = "The code that allocated, and what called it."
CALLED_BY = f"{CALLED} ← reads: called by."
_MOST_FRAMES = 1000


class Site(Protocol):
    @property
    def frames(self) -> Sequence[frames.Frame]: ...


S = TypeVar("S", bound=Site)
S_co = TypeVar("S_co", bound=Site, covariant=True)


@dataclass(frozen=True)
class Numbered(Generic[S_co]):
    """A call site with its place in a table, from 1."""

    number: int
    site: S_co


@dataclass(frozen=True)
class FrameRow(Numbered[S_co]):
    """A frame of a call site. ``depth`` is 0 for the innermost."""

    depth: int
    frame: str


def numbered(sites: Iterable[S]) -> list[Numbered[S]]:
    return [Numbered(number, site) for number, site in enumerate(sites, 1)]


def site_text(row: Numbered[Site]) -> str:
    return frames.site_text(row.site.frames)


def frame_rows(sites: Iterable[S]) -> Iterator[FrameRow[S]]:
    """A row for each frame of each site, the innermost first, with those of libraries folded."""
    for number, site in enumerate(sites, 1):
        for depth, text in enumerate(frames.stack_texts(site.frames)):
            yield FrameRow(number, site, depth, text)


def stack_number(help: str) -> Field[FrameRow[Any]]:
    """The number of the site, which sorts its frames below each other."""

    def value(row: FrameRow[Any]) -> Cell:
        return Cell(str(row.number), row.number + row.depth / _MOST_FRAMES)

    return at_first_frame(Field("no.", help, value))


def at_first_frame(field: Field[FrameRow[S]]) -> Field[FrameRow[S]]:
    """The field, which only the first frame of a site shows."""

    def value(row: FrameRow[S]) -> Cell:
        cell = field.value(row)
        return replace(cell, text="") if row.depth else cell

    return replace(field, value=value)


_FRAMES_HELP = (
    "The innermost first; each is called by the next. Of libraries, the function that the program "
    "calls, and how many calls lie inside."
)
FRAME: Field[FrameRow[Any]] = texts("frame", _FRAMES_HELP, lambda row: row.frame)
