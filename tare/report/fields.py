"""Tables declared once: a field is a column, and what each row has in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tare.base.units import format_bytes, format_count, format_percent, format_seconds
from tare.records.metrics import METRICS
from tare.report.model import Cell, Column, Table

R = TypeVar("R")
Row = Mapping[str, Any]
NOTHING = Cell("–")
"""Where a row has no figure."""
MANAGER = "What served the program's memory."
SERVED = "What served the objects."


@dataclass(frozen=True)
class Field(Generic[R]):
    """``help`` is one sentence. A table is without what is not ``shown``, and no row is asked."""

    title: str
    help: str
    value: Callable[[R], Cell]
    numeric: bool = True
    essential: bool = True
    shown: bool = True


def table(
    identifier: str,
    title: str,
    rows: Iterable[R],
    fields: Iterable[Field[R]],
    notes: Sequence[str] = (),
    *,
    essential: bool = True,
) -> Table:
    """A line for each of ``rows``, with the ``fields`` that are shown."""
    shown = [field for field in fields if field.shown]
    columns = [Column(field.title, field.help, field.numeric, field.essential) for field in shown]
    lines = [[field.value(row) for field in shown] for row in rows]
    return Table(identifier, title, columns, lines, notes, essential)


def text(words: str, tone: str = "") -> Cell:
    return Cell(words, words, tone)


def texts(
    title: str,
    help: str,
    value: str | Callable[[R], str],
    *,
    essential: bool = True,
    shown: bool = True,
) -> Field[R]:
    """A field of words, which sorting compares as they are. A ``value`` that is a name is that
    entry of rows which are mappings."""
    return Field(title, help, lambda row: text(entry(row, value)), False, essential, shown)


@dataclass(frozen=True)
class Kind:
    """Numbers that are written alike; called, it makes a field of them, as ``texts`` does."""

    written: Callable[[float], str]

    def __call__(
        self,
        title: str,
        help: str,
        value: str | Callable[[R], float | None],
        *,
        essential: bool = True,
        shown: bool = True,
    ) -> Field[R]:
        return Field(title, help, lambda row: self.cell(entry(row, value)), True, essential, shown)

    def metric(
        self, title: str, name: str, *, essential: bool = True, shown: bool = True
    ) -> Field[Any]:
        """A metric by its name in each row, which may be without it."""
        return self(title, METRICS[name].explanation, name, essential=essential, shown=shown)

    def cell(self, number: float | None) -> Cell:
        return NOTHING if number is None else Cell(self.written(number), number)


def entry(row: Any, value: str | Callable[[Any], Any]) -> Any:
    """What a row has under a name, or what is made of it."""
    return row.get(value) if isinstance(value, str) else value(row)


sizes = Kind(format_bytes)
counts = Kind(format_count)
seconds = Kind(format_seconds)
percents = Kind(format_percent)
ratios = Kind("{:.2f}".format)
exact_ratios = Kind("{:.3f}".format)
numbers = Kind(str)
"""As they are: few, or numbers of something."""
means = Kind(lambda mean: f"{mean:.1f}" if mean < 1000 else format_count(mean))


def quotient(total: float, number: float) -> float | None:
    return total / number if number else None
