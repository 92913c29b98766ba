"""The explorer: one page over many results, which filters, draws and drills down by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tare.answers.explorer.collecting import Collection
from tare.answers.explorer.document import Detail, document
from tare.base.files import write_atomically, writing
from tare.report.page import render_document

EXPLORER_FILE = "explorer.html"
MOST_BYTES = 8_000_000
_DETAILS = (
    *(Detail(runs=True, nodes=nodes, rows=1 << 30) for nodes in (4000, 1000)),
    *(Detail(runs=False, nodes=nodes, rows=1 << 30) for nodes in (1000, 200, 20)),
    *(Detail(runs=False, nodes=1, rows=rows) for rows in (30_000, 10_000, 1000)),
)
"""From all there is to what always fits."""
_SCRIPTS = (
    "format",
    "elements",
    "data",
    "scatter",
    "plane",
    "matrix",
    "program",
    "tree",
    "explorer",
)


def write_explorer(collection: Collection) -> Path:
    """Write the page into the folder of ``collection``; returns its path."""
    path = collection.folder / EXPLORER_FILE
    with writing(path.parent):
        write_atomically(path, render_explorer(collection))
    return path


def render_explorer(collection: Collection) -> str:
    """The whole page as HTML, under ``MOST_BYTES``. What is too much is left out, and named."""
    for detail in _DETAILS:
        page = _page(document(collection, detail))
        if len(page.encode()) < MOST_BYTES:
            break
    return page


def _page(data: Mapping[str, Any]) -> str:
    title = f"{data['folder']} explored"
    content = with_data("explorer.html", data)
    return render_document(title, content, asset("explorer.css"), script_of(_SCRIPTS))


def with_data(name: str, data: Mapping[str, Any]) -> str:
    """The asset ``name``, and ``data`` for the script."""
    # Within a script element only "<" could end it, whatever its type.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'{asset(name)}<script type="application/json" id="data">{text}</script>'


@cache
def script_of(names: tuple[str, ...]) -> str:
    """One function over all parts, so that none of their names is the page's."""
    parts = "\n".join(asset(f"{name}.js") for name in names)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


@cache
def asset(name: str) -> str:
    return files("tare.answers.explorer").joinpath("assets", name).read_text(encoding="utf-8")
