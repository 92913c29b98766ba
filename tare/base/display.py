"""How a notebook shows an object: a floor above makes the HTML, and says so here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MAKERS: dict[type, Callable[[Any], str]] = {}


def shown_by(kind: type, make: Callable[[Any], str]) -> None:
    """Let notebooks show objects of ``kind``, a ``Displayed``, as the HTML that ``make`` gives."""
    _MAKERS[kind] = make


class Displayed:
    """What a notebook shows as HTML, once ``shown_by`` was told how."""

    def _repr_html_(self) -> str | None:
        make = _MAKERS.get(type(self))
        return None if make is None else make(self)
