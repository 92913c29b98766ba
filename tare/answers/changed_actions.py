"""Which of the actions of an older result are gone in a newer one, and what that brought."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Sequence

from tare.base.libraries import pl
from tare.base.text import listed
from tare.base.units import format_percent, format_value
from tare.records.actions import Action
from tare.records.metrics import METRICS
from tare.records.results import Results
from tare.weighing.actions import actions_of

ALL = 1000
"""More actions than any result has: one that is no longer among the best is not gone."""


def headlines(old: Results, new: Results) -> list[str]:
    """A sentence for each of the best actions of ``old`` that ``new`` does not have, and one for
    each that came up. None where either has nothing that could give actions."""
    before, after = actions_of(old), {_key(action) for action in actions_of(new, ALL)}
    if not _comparable(old, new):
        return []
    gone = [action for action in before if _key(action) not in after]
    known = {_key(action) for action in actions_of(old, ALL)}
    added = [action for action in actions_of(new) if _key(action) not in known]
    changes = [action for action in gone if action.place is not None]
    return [
        *(
            f"Gone: {listed([_named(action) for action in same])}{_brought(same, old, new)}."
            for same in _by_metric(changes)
        ),
        *(f"No longer advised: {action.text}" for action in gone if action.place is None),
        *(f"Came up: {action.text}" for action in added),
    ]


def _by_metric(actions: Sequence[Action]) -> list[list[Action]]:
    """Those of one metric together, as nobody can tell what each of them brought."""
    metrics = dict.fromkeys(action.gain.metric for action in actions)
    return [[each for each in actions if each.gain.metric == metric] for metric in metrics]


def _comparable(old: Results, new: Results) -> bool:
    """Whether both looked for the same: what one did not look for is not gone."""
    studies = [
        set(results.measurements.filter(pl.col("status") == "ok")["study"].unique())
        for results in (old, new)
    ]
    return studies[0] <= studies[1]


def _key(action: Action) -> Hashable:
    """Lines move when a program is changed, and folders when it is built elsewhere."""
    place = action.place
    if place is None:
        return action.kind, action.text.partition(":")[0]
    files = (path.rpartition("/")[2] for path in (place.file, place.module))
    return action.kind, place.function, *files


def _named(action: Action) -> str:
    return f"{action.kind} at {action.place.name}" if action.place else str(action.kind)


def _brought(gone: Sequence[Action], old: Results, new: Results) -> str:
    gain = gone[0].gain
    predicted = listed([format_percent(1 - action.gain.ratio) for action in gone])
    before, after = (_median(results, gain.metric) for results in (old, new))
    if not before or after is None:
        return f"; expected: {predicted} less; the change was not measured"
    title = METRICS[gain.metric].title if gain.metric in METRICS else gain.metric
    what = "together they brought" if len(gone) > 1 else "it brought"
    change = after / before - 1
    more = "less" if change <= 0 else "more"
    return (
        f"; {what} {format_percent(change)} {more} {title} "
        f"({format_value(abs(after - before), gain.unit)}); expected: {predicted} less"
    )


def _median(results: Results, metric: str) -> float | None:
    """Under the baseline."""
    good = results.measurements.filter(
        (pl.col("status") == "ok")
        & (pl.col("metric") == metric)
        & (pl.col("manager") == results.run.baseline)
        & pl.col("value").is_finite()
    )
    return statistics.median(good["value"].to_list()) if good.height else None
