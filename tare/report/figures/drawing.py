"""Draws a figure's specification as SVG that is safe and small enough to stand in a page.

What Vega writes is parsed and written again from a list of allowed elements and attributes: no
name, and no specification, can bring a script, a link or a request into the page.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from threading import Thread
from typing import Any
from xml.etree import ElementTree

from tare.base.text import visible

VEGA_LITE = "5.20"
FONT_SIZE = 12.5
FONT_SHRINK = 0.95
"""Drawn size to laid-out size: the reader's font may be wider than the one measured here."""

CONFIG: dict[str, Any] = {
    "background": None,
    "font": "DejaVu Sans, Verdana, sans-serif",
    "padding": 4,
    "view": {"stroke": None, "continuousHeight": 300, "discreteHeight": {"step": 24}},
    "axis": {
        "labelColor": "var(--muted)",
        "labelFontSize": FONT_SIZE,
        "labelFontWeight": 400,
        "labelLimit": 220,
        "titleColor": "var(--muted)",
        "titleFontSize": FONT_SIZE,
        "titleFontWeight": 400,
        "titlePadding": 8,
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
    },
    "axisQuantitative": {"labelSeparation": 5, "labelOverlap": "parity", "labelFlush": False},
    "header": {
        "labelColor": "var(--ink)",
        "labelFontSize": 13,
        "labelFontWeight": 600,
        "titleColor": "var(--muted)",
        "titleFontSize": FONT_SIZE,
    },
    "legend": {
        "labelColor": "var(--ink)",
        "labelFontSize": FONT_SIZE,
        "titleColor": "var(--muted)",
        "titleFontSize": FONT_SIZE,
        "titleFontWeight": 400,
        "orient": "bottom",
    },
    "title": {"color": "var(--ink)", "fontSize": 13, "fontWeight": 600, "offset": 8},
    "text": {"color": "var(--ink)", "fontSize": FONT_SIZE},
    "rule": {"color": "var(--muted)"},
    "range": {"category": [f"var(--series-{number})" for number in range(1, 9)]},
    **{
        mark: {"color": "var(--series-1)"}
        for mark in ("area", "bar", "circle", "line", "point", "rect", "square", "tick", "trail")
    },
}

MOST_TRIALS = 6
LEAST_PLOT = 60

_ELEMENTS = {
    "svg",
    "g",
    "path",
    "line",
    "rect",
    "circle",
    "text",
    "tspan",
    "defs",
    "clipPath",
    "linearGradient",
    "radialGradient",
    "stop",
}
_ATTRIBUTES = {
    "viewBox",
    "d",
    "transform",
    "x",
    "y",
    "dx",
    "dy",
    "x1",
    "x2",
    "y1",
    "y2",
    "r",
    "cx",
    "cy",
    "width",
    "height",
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "stroke-miterlimit",
    "opacity",
    "font-size",
    "font-weight",
    "font-style",
    "text-anchor",
    "clip-path",
    "offset",
    "stop-color",
    "stop-opacity",
    "id",
    "gradientUnits",
}
_COLOUR = re.compile(r"[#\w(),.%\s-]*")
_LOCAL_REFERENCE = re.compile(r"url\(#([\w-]+)\)")


def start_drawing() -> None:
    """Start the JavaScript engine that draws, beside what else is done before the first figure."""
    spec = {"data": {"values": [{}]}, "mark": "point"}
    Thread(target=_vega, args=(spec,), name="first drawing", daemon=True).start()


def draw(spec: Mapping[str, Any], width: float, *, narrow: bool, prefix: str) -> str:
    """The specification as an ``<svg>`` element ``width`` pixels wide; ids start with ``prefix``.

    Raises ``ValueError`` for what is no specification.
    """
    return draw_beside(spec, width, 0.2 * width, narrow=narrow, prefix=prefix)[0]


def draw_beside(
    spec: Mapping[str, Any], width: float, beside: float, *, narrow: bool, prefix: str
) -> tuple[str, float]:
    """As ``draw``, beginning with a guess of the pixels that labels take ``beside`` a plot; what
    they took is returned, too, as the guess for another width of the same figure.

    Vega-Lite takes the width of the plot, while a page knows the width of the whole drawing, and
    labels take what they need: a few trials find the plot that leaves them room.
    """
    spec = _own_data_only(spec)
    panels = _panels_in_a_row(spec, narrow)
    plot = max(LEAST_PLOT, math.floor(width / panels - beside))
    for _ in range(MOST_TRIALS):
        svg = _vega(_sized(spec, plot, narrow))
        drawn = float(svg.get("width", "0"))
        excess = drawn - width
        beside = (drawn - plot * panels) / panels
        if -2 < excess <= 0:
            break
        plot = max(LEAST_PLOT, math.floor(plot - excess / panels))
    return _harmless(svg, prefix), beside


def _panels_in_a_row(spec: Mapping[str, Any], narrow: bool) -> int:
    if "hconcat" in spec:
        return len(spec["hconcat"])
    if "columns" in spec:
        return 1 if narrow else int(spec["columns"])
    return len(spec.get("concat", [None]))


def _sized(spec: Mapping[str, Any], plot: float, narrow: bool) -> dict[str, Any]:
    sized = dict(spec)
    parts = [name for name in ("concat", "hconcat", "vconcat", "spec") if name in sized]
    if not parts:
        sized.setdefault("width", plot)
    for name in parts:
        inner = sized[name]
        sized[name] = (
            [_sized(part, plot, narrow) for part in inner]
            if isinstance(inner, list)
            else _sized(inner, plot, narrow)
        )
    if narrow and "columns" in sized:
        sized["columns"] = 1
    if "params" in sized:
        sized["params"] = [
            {**param, "value": narrow} if param.get("name") == "narrow" else param
            for param in sized["params"]
        ]
    return sized


def _own_data_only(node: Any, is_data: bool = False) -> Any:
    """The specification without links and addresses, and with control characters written out,
    which XML cannot hold."""
    if isinstance(node, str):
        return visible(node)
    if isinstance(node, Mapping):
        return {
            key: _own_data_only(value, is_data or key in ("values", "datasets"))
            for key, value in node.items()
            if is_data or key not in ("href", "url")
        }
    if isinstance(node, (list, tuple)):
        return [_own_data_only(value, is_data) for value in node]
    return node


def _vega(spec: Mapping[str, Any]) -> ElementTree.Element:
    import vl_convert  # starts a JavaScript engine, which most commands do not need

    def convert() -> str:
        # An empty list of base URLs: nothing is fetched.
        return str(
            vl_convert.vegalite_to_svg(
                dict(spec), vl_version=VEGA_LITE, config=CONFIG, allowed_base_urls=[]
            )
        )

    try:
        svg = convert()
    except ValueError:
        svg = convert()  # an error of the figure before this one can surface here, once
    return ElementTree.fromstring(svg)


def _harmless(svg: ElementTree.Element, prefix: str) -> str:
    parts: list[str] = []
    _write(svg, prefix, parts, silent=False)
    return "".join(parts)


def _write(element: ElementTree.Element, prefix: str, parts: list[str], *, silent: bool) -> None:
    name = element.tag.rpartition("}")[2]
    if name not in _ELEMENTS or element.get("display") == "none" or _draws_nothing(element, name):
        return
    roles = element.get("class", "").split()
    silent = silent or element.get("aria-hidden") == "true"
    attributes = _kept_attributes(element, prefix)
    if "role-mark" in roles:
        attributes["class"] = roles[0]
    label = element.get("aria-label")
    if label and not silent and name != "g" and element.get("role") == "graphics-symbol":
        attributes |= {"role": "img", "aria-label": label}
    text = html.escape(element.text, quote=False) if element.text and name != "g" else ""
    inner: list[str] = []
    for child in element:
        _write(child, prefix, inner, silent=silent)
    if name == "g" and not inner:
        return
    if name == "g" and not attributes:
        parts += inner
        return
    written = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items())
    content = text + "".join(inner)
    parts.append(f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>")


def _kept_attributes(element: ElementTree.Element, prefix: str) -> dict[str, str]:
    kept = {}
    for name, value in element.attrib.items():
        if name not in _ATTRIBUTES or (name in ("opacity", "fill-opacity") and value == "1"):
            continue
        if name == "transform" and value == "translate(0,0)":
            continue
        if name == "id":
            value = prefix + value
        elif name == "font-size":
            value = f"{float(value.removesuffix('px')) * FONT_SHRINK:.2f}"
        elif reference := _LOCAL_REFERENCE.fullmatch(value):
            value = f"url(#{prefix}{reference[1]})"
        elif name in ("fill", "stroke", "clip-path") and (
            "url" in value or not _COLOUR.fullmatch(value)
        ):
            continue
        kept[name] = value
    return kept


def _draws_nothing(element: ElementTree.Element, name: str) -> bool:
    if name != "path" or element.get("class") not in ("background", "foreground"):
        return False
    paints = (element.get("fill", "none"), element.get("stroke", "none"))
    return not element.get("d") or all(paint in ("none", "transparent") for paint in paints)
