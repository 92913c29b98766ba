"""What tables of call sites share: how a site reads, and its stack with a row for each frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tare.heap_traces import frames
from tare.report.fields import Field, Row, numbered, texts
from tare.report.model import Cell

CALLED = "The code that allocated, and what called it."
CALLED_BY = f"{CALLED} ← reads: called by."
_MOST_FRAMES = 1000


def site_text(site: Row) -> str:
    return frames.site_text(site["frames"])


def frame_rows(sites: Sequence[Row]) -> Iterator[Row]:
    """A row for each frame of each site, the innermost first, with those of libraries folded."""
    for site in numbered(sites):
        for depth, text in enumerate(frames.stack_texts(site["frames"])):
            yield {**site, "depth": depth, "frame": text}


def stack_number(help: str) -> Field[Row]:
    """The number of the site, which sorts its frames below each other."""

    def value(row: Row) -> Cell:
        return Cell(str(row["number"]), row["number"] + row["depth"] / _MOST_FRAMES)

    return at_first_frame(Field("no.", help, value))


def at_first_frame(field: Field[Row]) -> Field[Row]:
    """The field, which only the first frame of a site shows."""

    def value(row: Row) -> Cell:
        cell = field.value(row)
        return replace(cell, text="") if row["depth"] else cell

    return replace(field, value=value)


_FRAMES_HELP = (
    "The innermost first; each is called by the next. Of libraries, the function that the program "
    "calls, and how many calls lie inside."
)
FRAME: Field[Row] = texts(
    "frame",
    _FRAMES_HELP,
    "frame",
)
