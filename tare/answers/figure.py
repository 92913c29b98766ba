"""A figure of a frame, for notebooks: drawn as those of reports, without another library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.report.figures.marks import params
from tare.report.model import Figure

MOST_MARKS = 5000
PLACE = "place in the frame"
LEGEND_COLUMNS = 3


def figure(
    frame: pl.DataFrame,
    title: str,
    caption: str = "",
    mark: str = "bar",
    **channels: str | Mapping[str, Any],
) -> Figure:
    """What notebooks show of a frame. ``channels`` are those of Vega-Lite, as ``x="ratio"``,
    ``y="manager"``, ``color="verdict"``, ``row="program"``, each with a column or with Vega-Lite's
    own words, as ``x={"field": "ratio", "scale": {"type": "log"}}``. Texts keep the frame's order.
    """
    encoding = {name: _channel(frame, given) for name, given in channels.items()}
    if "color" in encoding:
        encoding["color"] = {"legend": {"columns": LEGEND_COLUMNS}, **encoding["color"]}
    logarithmic = any(each.get("scale", {}).get("type") == "log" for each in encoding.values())
    if mark == "bar" and logarithmic:
        raise UsageError("a bar has no beginning on a logarithmic scale", "use mark='circle'")
    if frame.height > MOST_MARKS:
        raise UsageError(f"a figure of {frame.height} rows", f"choose at most {MOST_MARKS}")
    fields = list(dict.fromkeys(each["field"] for each in encoding.values() if "field" in each))
    spec = {
        "params": params(),
        "data": {"values": frame.select(fields).with_row_index(PLACE).to_dicts()},
        "mark": {"type": mark},
        # Parts of a bar lie in the frame's order, too.
        "encoding": {"order": {"field": PLACE, "type": "quantitative"}, **encoding},
    }
    return Figure("figure", title, caption, spec)


def _channel(frame: pl.DataFrame, given: str | Mapping[str, Any]) -> dict[str, Any]:
    asked = {"field": given} if isinstance(given, str) else dict(given)
    field = asked.get("field")
    if field is None:
        return asked
    if field not in frame.columns:
        raise UsageError(f"no column '{field}'", f"there are: {', '.join(frame.columns)}")
    if frame.schema[field].is_numeric():
        return {"type": "quantitative", **asked}
    order = frame[field].unique(maintain_order=True).to_list()
    return {"type": "nominal", "sort": order, **asked}
