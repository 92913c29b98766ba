"""Templates of HTML: what they are given is escaped, visible and not too long."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from tare.base.libraries import jinja2, markupsafe
from tare.base.text import shortened, visible


@cache
def asset(name: str) -> str:
    return files("tare.report").joinpath("assets", name).read_text(encoding="utf-8")


def render(
    name: str, longest: int, filters: dict[str, Callable[..., Any]] | None = None, **values: Any
) -> str:
    """The asset ``name`` as a template. Text in it has ``longest`` characters at most."""

    def shown(value: Any) -> Any:
        return shortened(visible(value), longest) if type(value) is str else value

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= filters or {}
    return environment.get_template(name).render(values)


def as_is(html: str) -> markupsafe.Markup:
    """Marks what is HTML already."""
    return markupsafe.Markup(html)
