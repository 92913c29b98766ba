"""The page of the served explorer: the parts that all explorers share, and its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.answers.explorer.page import asset, script_of, with_data
from tare.report.page import render_document

_SCRIPTS = ("format", "elements", "scatter", "asking", "served")


def render_served(data: Mapping[str, Any]) -> str:
    title = f"{data['folder']} explored"
    style = asset("explorer.css") + asset("served.css")
    content = with_data("served.html", data)
    return render_document(title, content, style, script_of(_SCRIPTS), connects="'self'")
