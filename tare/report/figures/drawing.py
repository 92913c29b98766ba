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
FONT_SIZE = 14.5
FONT_SHRINK = 0.82
"""Drawn size to laid-out size: readers' fonts are wider than Liberation Sans, up to DejaVu Sans."""
_RISE = f"{0.3 * (1 - 1 / FONT_SHRINK):.3f}em"
"""What keeps smaller text in the middle of its line: Vega puts its base 0.3 of its size below."""

CONFIG: dict[str, Any] = {
    "background": None,
    "font": "Liberation Sans",  # comes with the renderer; DejaVu Sans takes long to measure
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
        "labelFontSize": 15,
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
    "title": {"color": "var(--ink)", "fontSize": 15, "fontWeight": 600, "offset": 8},
    "text": {"color": "var(--ink)", "fontSize": FONT_SIZE},
    "rule": {"color": "var(--muted)"},
    "range": {"category": [f"var(--series-{number})" for number in range(1, 9)]},
    **{
        mark: {"color": "var(--series-1)"}
        for mark in ("area", "bar", "circle", "line", "point", "rect", "square", "tick", "trail")
    },
}

MOST_TRIALS = 4
LEAST_PLOT = 60
LEAST_PART, MOST_PART = 0.95, 1.01
"""Of its place, that a drawing takes without a further trial. The page shrinks what is too wide."""
_TYPICAL_BESIDE = 80
"""Pixels that the labels of most figures take beside a plot: a first guess."""
_PLOT = 1000.25
"""The width of a plot as long as it is not known: nothing else has a quarter of a pixel."""

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
    Thread(target=Drawing, args=(spec,), name="first drawing", daemon=True).start()


def draw(spec: Mapping[str, Any], width: float, *, narrow: bool, prefix: str) -> str:
    """The specification drawn once, as ``Drawing`` does."""
    return Drawing(spec).svg(width, narrow=narrow, prefix=prefix)


class Drawing:
    """A specification that can be drawn at several widths.

    Raises ``ValueError`` for what is no specification, here or when it is drawn.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = _own_data_only(spec)
        sized = _sized(self._spec)
        self._vega = _converted("vegalite_to_vega", sized, vl_version=VEGA_LITE, config=CONFIG)
        self._beside = float(_TYPICAL_BESIDE)

    def svg(self, width: float, *, narrow: bool, prefix: str) -> str:
        """An ``<svg>`` element about ``width`` pixels wide; ids start with ``prefix``.

        Vega-Lite takes the width of the plot, while a page knows the width of the whole drawing,
        and labels take what they need: trials find the plot that leaves them room. What they took
        is the first guess for another width.
        """
        panels = _panels_in_a_row(self._spec, narrow)
        for _ in range(MOST_TRIALS):
            plot = max(LEAST_PLOT, math.floor(width / panels - self._beside))
            svg = self._drawn(plot, panels, narrow)
            drawn = float(svg.get("width", "0"))
            self._beside = drawn / panels - plot
            if LEAST_PART < drawn / width <= MOST_PART:
                break
        return _harmless(svg, prefix)

    def _drawn(self, plot: float, panels: int, narrow: bool) -> ElementTree.Element:
        vega = dict(self._vega)
        vega["signals"] = [
            {**signal, "value": narrow}
            if signal["name"] == "narrow"
            else {**signal, "value": plot}
            if signal.get("value") == _PLOT
            else signal
            for signal in vega.get("signals", ())
        ]
        if vega.get("width") == _PLOT:
            vega["width"] = plot
        if "concat" in self._spec and "columns" in self._spec:
            vega["layout"] = {**vega["layout"], "columns": panels}
        # An empty list of base URLs: nothing is fetched.
        return ElementTree.fromstring(_converted("vega_to_svg", vega, allowed_base_urls=[]))


def _panels_in_a_row(spec: Mapping[str, Any], narrow: bool) -> int:
    panels = len(spec.get("hconcat") or spec.get("concat") or [None])
    if "columns" not in spec:
        return panels
    if "concat" in spec:
        return 1 if narrow else min(int(spec["columns"]), panels)
    return int(spec["columns"])


def _sized(spec: Mapping[str, Any]) -> dict[str, Any]:
    sized = dict(spec)
    parts = [name for name in ("concat", "hconcat", "vconcat", "spec") if name in sized]
    if not parts:
        sized.setdefault("width", _PLOT)
    for name in parts:
        inner = sized[name]
        sized[name] = [_sized(part) for part in inner] if isinstance(inner, list) else _sized(inner)
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


def _converted(name: str, spec: Mapping[str, Any], **options: Any) -> Any:
    import vl_convert  # starts a JavaScript engine, which most commands do not need

    convert = getattr(vl_convert, name)
    try:
        return convert(spec, **options)
    except ValueError:
        return convert(spec, **options)  # an error of the figure before can surface here, once


def _harmless(svg: ElementTree.Element, prefix: str) -> str:
    parts: list[str] = []
    _write(svg, prefix, parts, silent=False)
    return "".join(parts)


def _write(element: ElementTree.Element, prefix: str, parts: list[str], *, silent: bool) -> None:
    name = element.tag.rpartition("}")[2]
    if name not in _ELEMENTS or _draws_nothing(element, name):
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
            kept["dy"] = _RISE
        elif reference := _LOCAL_REFERENCE.fullmatch(value):
            value = f"url(#{prefix}{reference[1]})"
        elif name in ("fill", "stroke", "clip-path") and (
            "url" in value or not _COLOUR.fullmatch(value)
        ):
            continue
        kept[name] = value
    return kept


def _draws_nothing(element: ElementTree.Element, name: str) -> bool:
    if element.get("display") == "none" or element.get("opacity") == "0":
        return True  # as labels that would cover others
    if name != "path" or element.get("class") not in ("background", "foreground"):
        return False
    paints = (element.get("fill", "none"), element.get("stroke", "none"))
    return not element.get("d") or all(paint in ("none", "transparent") for paint in paints)
