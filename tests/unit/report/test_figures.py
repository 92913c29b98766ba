"""Figures: what they draw of known frames, and that no frame breaks them."""

from __future__ import annotations

import json
import math
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.base.text import LONGEST_NAME, shortened, visible
from tare.records.results import measurement_schema
from tare.records.summary import summarise
from tare.report.figures import comparison as figures
from tare.report.figures import marks as specs
from tare.report.figures.drawing import MOST_PART, Drawing, draw
from tare.report.figures.intervals import interval_figure
from tare.report.figures.rows import MOST_ROWS
from tare.report.labels import place_labels, wrapped
from tare.report.model import Figure

pytestmark = pytest.mark.thorough

WIDTH, PHONE = 516, 356
LONG_NAME = "delay(marksweep(tcmalloc, every=64KiB), size=64KiB)"
TWELVE = [
    *("glibc", "jemalloc", "mimalloc", "tcmalloc", "snmalloc", "rpmalloc", "scudo", "hoard"),
    *("dlmalloc", "bdwgc", "reap", LONG_NAME),
]
HOSTILE = "</svg><script>alert(1)</script>]]>\"'\n\x00\u202eabc<img onerror=x>"
UNITS = {"wall_seconds": "s", "peak_resident_bytes": "B"}


def frame(rows: list[tuple[str, str, int, str, float | None, str]]) -> pl.DataFrame:
    """``rows``: program, manager, invocation, metric, value, status; measured in this order."""
    return pl.DataFrame(
        [
            ("compare", p, m, i, order, metric, value, UNITS.get(metric, ""), status, "executed")
            for order, (p, m, i, metric, value, status) in enumerate(rows)
        ],
        schema=measurement_schema(),
        orient="row",
    )


def comparison(
    managers: list[str], programs: tuple[str, ...] = ("gawk",), runs: int = 8
) -> pl.DataFrame:
    generator = np.random.default_rng(1)
    rows: list[tuple[str, str, int, str, float | None, str]] = []
    for program in programs:
        for run in range(runs):
            for number, manager in enumerate(managers):
                noise = 1 + 0.01 * generator.normal()
                seconds = (1 - 0.04 * number) * noise
                rows.append((program, manager, run, "wall_seconds", seconds, "ok"))
                size = 5e7 * (1 + 0.1 * number) * noise
                rows.append((program, manager, run, "peak_resident_bytes", size, "ok"))
    return frame(rows)


def all_figures(measurements: pl.DataFrame, baseline: str = "glibc") -> list[Figure]:
    summary = summarise(measurements, baseline, 1)
    metric = "wall_seconds"
    return [
        interval_figure(summary, metric, baseline),
        figures.scatter_figure(summary, baseline),
        figures.distribution_figure(measurements, metric, baseline),
        figures.distribution_figure(measurements, metric),
        figures.order_figure(measurements, metric),
    ]


def layers(spec: Any) -> list[dict[str, Any]]:
    if "concat" in spec:
        return [layer for panel in spec["concat"] for layer in panel["layer"]]
    return list(spec["layer"])


def rows_of(figure: Figure, mark: str) -> list[list[dict[str, Any]]]:
    return [
        layer["data"]["values"]
        for layer in layers(figure.spec)
        if layer["mark"]["type"] == mark and layer["mark"].get("aria", True)
    ]


def texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("text")]


def test_interval_figure_has_the_ratios_of_the_summary() -> None:
    summary = summarise(comparison(["glibc", "jemalloc", "mimalloc"]), "glibc", 1)
    figure = interval_figure(summary, "wall_seconds", "glibc")
    (points,) = rows_of(figure, "point")
    expected = summary.filter(pl.col("metric") == "wall_seconds")["ratio"].to_list()
    assert sorted(p["ratio"] for p in points) == pytest.approx(sorted(expected), rel=1e-5)
    svg = draw(figure.spec, WIDTH, narrow=False, prefix="t")
    assert {"glibc", "jemalloc", "mimalloc", "baseline"} <= set(texts(svg))
    for ratio in expected:
        assert ratio == 1 or f"{ratio:.3f}{specs.TIMES}" in texts(svg)


def test_a_row_without_a_difference_is_hollow_and_the_floor_is_shaded() -> None:
    rows: list[tuple[str, str, int, str, float | None, str]] = []
    for run in range(12):
        for number, (manager, factor) in enumerate([("glibc", 1), ("same", 1), ("slow", 2)]):
            value = factor * (1 + 0.02 * ((run * 7 + number * 5) % 11 - 5) / 5)
            rows.append(("p", manager, run, "wall_seconds", value, "ok"))
    figure = interval_figure(summarise(frame(rows), "glibc", 1), "wall_seconds", "glibc")
    (points,) = rows_of(figure, "point")
    hollow = {point["tip"].split(":")[0] for point in points if point["fill"] == specs.PAGE}
    assert hollow == {"glibc", "same"}
    ((band,),) = rows_of(figure, "rect")
    assert band["low"] < 1 < band["high"]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("programs", [("gawk",), ("gawk", "perl", "gs")])
def test_twelve_managers_fit_the_width(programs: tuple[str, ...], narrow: bool) -> None:
    for figure in all_figures(comparison(TWELVE, programs)):
        width = PHONE if narrow else 1080 if "concat" in figure.spec else WIDTH
        svg = ElementTree.fromstring(draw(figure.spec, width, narrow=narrow, prefix="t"))
        _, _, drawn, height = map(float, svg.get("viewBox", "").split())
        assert width - 60 < drawn <= width + 6, figure.identifier
        assert height > 100


def test_a_drawing_serves_several_widths_and_hides_no_label() -> None:
    for figure in all_figures(comparison(TWELVE, ("gawk", "perl"))):
        drawing = Drawing(figure.spec)
        for width, narrow in ((1080, False), (PHONE, True), (1080, False)):
            svg = ElementTree.fromstring(drawing.svg(width, narrow=narrow, prefix="t"))
            assert width - 60 < float(svg.get("width", "0")) <= width * MOST_PART
            assert all(element.get("opacity") != "0" for element in svg.iter())


def overlaps(labels: list[dict[str, Any]], spots: list[tuple[float, float]]) -> int:
    boxes = []
    for label, (x, y) in zip(labels, spots, strict=True):
        wide, tall = 7.0 * max(map(len, label["text"])), 13.0 * len(label["text"])
        left = x + label["dx"] - {"left": 0, "right": wide, "center": wide / 2}[label["align"]]
        top = y + label["dy"] - 6.5
        boxes.append((left, top, left + wide, top + tall))
    return sum(
        a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
        for number, a in enumerate(boxes)
        for b in boxes[:number]
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0.8, 1.3), st.floats(0.8, 2.5)), min_size=1, max_size=12))
def test_labels_of_twelve_points_do_not_cover_one_another(
    places: list[tuple[float, float]],
) -> None:
    size = (455.0, 320.0)
    domains = [0.75, 1.4], [0.7, 2.6]
    scales = [{"type": "linear", "domain": domain} for domain in domains]
    points = [(name, x, y) for name, (x, y) in zip(TWELVE, places, strict=False)]
    labels = place_labels(points, scales[0], scales[1], size, 34)
    spots = [((x - 0.75) / 0.65 * 455, 320 - (y - 0.7) / 1.9 * 320) for _, x, y in points]
    assert overlaps(labels, spots) == 0


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("p", "glibc", 0, "wall_seconds", 1.0, "ok")],
        [("p", "glibc", 0, "wall_seconds", None, "timeout")],
        [("p", "glibc", 0, "wall_seconds", math.nan, "ok")],
        [("p", "glibc", 0, "wall_seconds", 0.0, "ok"), ("p", "m", 0, "wall_seconds", 0.0, "ok")],
        [("p", "glibc", 0, "wall_seconds", 1.0, "ok"), ("p", "m", 0, "wall_seconds", 1e9, "ok")],
        [
            ("p", "glibc", 0, "wall_seconds", 1.0, "ok"),
            ("p", "m", 0, "wall_seconds", None, "failed"),
            ("q", "glibc", 0, "wall_seconds", None, "out-of-memory"),
            ("q", "m", 0, "wall_seconds", 1.0, "ok"),
        ],
    ],
)
def test_little_or_no_data_draws(rows: list[Any]) -> None:
    for figure in all_figures(frame(rows)):
        json.dumps(figure.spec, allow_nan=False)
        assert draw(figure.spec, WIDTH, narrow=False, prefix="t").startswith("<svg")


def test_a_manager_without_a_good_run_says_why() -> None:
    rows = frame(
        [
            ("p", "glibc", 0, "wall_seconds", 1.0, "ok"),
            ("p", "m", 0, "wall_seconds", None, "timeout"),
        ]
    )
    figure = figures.distribution_figure(rows, "wall_seconds")
    assert "timeout" in texts(draw(figure.spec, WIDTH, narrow=False, prefix="t"))


def test_hostile_names_are_text_and_nothing_else() -> None:
    measurements = comparison(["glibc", HOSTILE, HOSTILE * 20, "__proto__"], ("a", HOSTILE))
    for figure in all_figures(measurements):
        for narrow in (False, True):
            svg = draw(figure.spec, WIDTH, narrow=narrow, prefix="t")
            root = ElementTree.fromstring(svg)
            assert {element.tag for element in root.iter()} <= {
                *("svg", "g", "path", "line", "rect", "text", "tspan", "defs", "clipPath"),
            }
            names = {name for element in root.iter() for name in element.attrib}
            assert not any(name.startswith("on") or "href" in name for name in names)
            assert not set("\x00\u202e\n") & set(svg)


def test_a_specification_cannot_bring_a_link_an_image_or_a_request() -> None:
    values = [{"x": 1, "u": "javascript:alert(1)", "c": 'url("http://example.invalid/x")'}]
    encoding = {"x": {"field": "x"}, "href": {"field": "u"}, "url": {"field": "u"}}
    spec = {
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "image"}, "encoding": encoding},
            {
                "mark": "point",
                "encoding": {**encoding, "color": {"field": "c", "scale": None}},
            },
        ],
    }
    svg = draw(spec, WIDTH, narrow=False, prefix="t")
    for element in ElementTree.fromstring(svg).iter():
        assert element.tag not in ("a", "image")
        for name, value in element.attrib.items():
            assert name == "aria-label" or not any(w in value for w in ("javascript", "url("))
            assert "href" not in name


def test_ids_are_the_figures_own() -> None:
    spec = {
        "data": {"values": [{"x": 1, "y": 1}, {"x": 9, "y": 2}]},
        "mark": {"type": "line", "clip": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "y", "type": "quantitative"},
        },
    }
    svg = draw(spec, WIDTH, narrow=False, prefix="section-1-2-")
    assert 'id="section-1-2-clip' in svg
    assert 'clip-path="url(#section-1-2-clip' in svg


def test_colours_are_variables_of_the_page() -> None:
    for figure in all_figures(comparison(TWELVE)):
        svg = ElementTree.fromstring(draw(figure.spec, WIDTH, narrow=False, prefix="t"))
        paints = {
            element.get(name, "none") for element in svg.iter() for name in ("fill", "stroke")
        }
        assert all(
            paint in ("none", "transparent") or paint.startswith("var(--") for paint in paints
        ), paints


def test_a_specification_stays_small_whatever_it_summarises() -> None:
    runs = 100_000
    generator = np.random.default_rng(1)
    measurements = pl.DataFrame(
        {
            "study": "compare",
            "program": "gawk",
            "manager": pl.Series(["glibc", "mimalloc"] * runs),
            "invocation": pl.arange(0, 2 * runs, eager=True) // 2,
            "order": pl.arange(0, 2 * runs, eager=True),
            "metric": "wall_seconds",
            "value": generator.normal(1, 0.01, 2 * runs),
            "unit": "s",
            "status": "ok",
            "obtained": "executed",
        },
        schema_overrides=measurement_schema(),
    )
    for figure in (
        figures.distribution_figure(measurements, "wall_seconds"),
        figures.order_figure(measurements, "wall_seconds"),
    ):
        assert len(json.dumps(figure.spec)) < 30_000
    (boxes,) = rows_of(figures.distribution_figure(measurements, "wall_seconds"), "tick")
    assert boxes[0]["median"] == pytest.approx(1000, rel=0.001)


def test_many_programs_are_cut_with_a_remark() -> None:
    programs = tuple(f"program {number}" for number in range(60))
    summary = summarise(comparison(TWELVE[:4], programs, runs=3), "glibc", 1)
    figure = interval_figure(summary, "wall_seconds", "glibc")
    (points,) = rows_of(figure, "point")
    assert len(points) <= MOST_ROWS
    assert "of 60 programs" in figure.caption
    assert "Geometric means over 60 programs" in figures.scatter_figure(summary, "glibc").caption


@given(st.text(max_size=300), st.integers(5, 40))
def test_names_become_printable_and_short(name: str, width: int) -> None:
    assert visible(name).isprintable()
    assert len(shortened(name)) <= LONGEST_NAME
    assert all(len(line) <= width for line in wrapped(name, width))
    if name.isprintable() and len(name) <= LONGEST_NAME:
        assert "".join(wrapped(name, width)).replace(" ", "") == name.replace(" ", "")


def test_composed_names_break_at_their_punctuation() -> None:
    assert wrapped(LONG_NAME, 34) == ["delay(marksweep(tcmalloc,", "every=64KiB), size=64KiB)"]
