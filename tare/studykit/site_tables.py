"""What tables of call sites share: how a site reads, which of them are in view first, and its stack
with a row for each frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tare.base.units import format_count, format_percent
from tare.heap_traces import frames
from tare.report.fields import Field, Row, numbers, texts
from tare.report.model import Cell, Table

CALLED = "The code that allocated, and what called it."
CALLED_BY = f"{CALLED} ← reads: called by."
OF_ONE = "of stacks that read alike in the tables, the largest."
LEAST_SHARE = 0.01
"""Of the whole: a call site with less is shown to those who ask."""
_MOST_FRAMES = 1000


@dataclass(frozen=True)
class Measure:
    """What a table ranks call sites by: their entry ``name``, ``whole`` of all of them together.
    ``size`` is the entry that says it to a reader, ``written`` how."""

    name: str
    whole: float
    written: Callable[[float], str]
    size: str = ""

    def __call__(self, row: Row) -> float:
        return float(row[self.name])

    def share(self, row: Row) -> float:
        return self(row) / self.whole if self.whole else 0.0


def numbered(rows: Iterable[Row]) -> list[Row]:
    """The rows with a ``number`` each, from 1."""
    return [{**row, "number": number} for number, row in enumerate(rows, 1)]


def ranked(sites: Sequence[Row], measure: Measure, others: Row) -> list[Row]:
    """The rows of a table: the sites, the largest first, with a ``number`` each; and then
    ``others``, as many ``sites`` as are known by their sums alone, if any."""
    found = sorted((site for site in sites if measure(site)), key=measure, reverse=True)
    rows = numbered(found)
    return [*rows, others] if rows and others["sites"] and measure(others) else rows


def large(rows: Sequence[Row], measure: Measure) -> Sequence[Row]:
    """Those of ``ranked`` that are in view first: with the least share or more; at least one."""
    found = [row for row in rows if "sites" not in row and measure.share(row) >= LEAST_SHARE]
    return found or rows[:1]


def placed(table: Table, rows: Sequence[Row]) -> Table:
    """The table of ``rows`` with their places."""
    places = [frames.place_of(row.get("frames", ())) for row in rows]
    return replace(table, places=[place.name if place else "" for place in places])


def first_view(table: Table, rows: Sequence[Row], measure: Measure) -> Table:
    """The table of ``rows`` with their places, and with those in view first that are ``large``."""
    table, few = placed(table, rows), len(large(rows, measure))
    if not (left := rows[few:]):
        return table
    number, last = sum(row.get("sites", 1) for row in left), left[-1]
    # Those that are not kept one by one are no larger than the last that is, and may have no stack.
    are_small = "frames" in left[0] and measure.share(last) < LEAST_SHARE * last.get("sites", 1)
    sites = f"{format_count(number)} more call site{'s' if number > 1 else ''}"
    if number > 1 and are_small:
        sites += f", each below {LEAST_SHARE:.0%}"
    share = format_percent(sum(map(measure.share, left)))
    known = [size for row in left if (size := row.get(measure.size or measure.name)) is not None]
    size = f" ({measure.written(sum(known))})" if len(known) == len(left) else ""
    return replace(table, few=few, rest=f"{sites}: {share} in all{size}.")


def site_number(help: str) -> Field[Row]:
    return numbers("no.", help, lambda row: row.get("number", ""))


def site_text(site: Row) -> str:
    """How a site reads; of several that are not told apart, how many they are."""
    if (number := site.get("sites")) is not None:
        return "another site" if number == 1 else f"{format_count(number)} others"
    return frames.site_text(site["frames"])


def frame_rows(sites: Sequence[Row]) -> Iterator[Row]:
    """A row for each frame of each site, the innermost first, with those of libraries folded."""
    for site in sites:
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
    "The innermost first; each is called by the next. For libraries, the function that the program "
    "calls, and the number of calls inside it."
)
FRAME: Field[Row] = texts(
    "frame",
    _FRAMES_HELP,
    "frame",
)
