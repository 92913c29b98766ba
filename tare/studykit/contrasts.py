"""Managers that are settings of one collector, each held against what differs from it in one thing.

What the studies of `tare frequency` share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tare.records import summary
from tare.records.results import Results
from tare.records.summary import Row
from tare.report.comparison import summary_rows
from tare.studykit.sweep_tables import Rows


class Setting(Protocol):
    """``manager`` is the name of ``collector`` with its setting."""

    @property
    def manager(self) -> str: ...
    @property
    def collector(self) -> str: ...


S = TypeVar("S", bound=Setting)


@dataclass(frozen=True)
class Contrast(Generic[S]):
    """``reference`` finds what a setting is held against among the settings of its collector; None
    where there is none. ``what`` and ``title`` say in words what differs, ``against`` names it on
    an axis."""

    identifier: str
    title: str
    what: str
    against: str
    reference: Callable[[S, Sequence[S]], S | None]


@dataclass(frozen=True)
class Answers(Generic[S]):
    """``rows`` are against the study's baseline; ``groups`` the settings of each collector."""

    program: str
    metric: str
    rows: Rows
    by_contrast: Mapping[str, Rows]
    groups: Mapping[str, Sequence[S]]

    def row(self, contrast: Contrast[S], each: S) -> Row | None:
        """Of the metric, against the reference of the contrast; None where there is none, or no
        figure."""
        if contrast.reference(each, self.groups[each.collector]) is None:
            return None
        row = self.by_contrast[contrast.identifier].get((self.program, each.manager, self.metric))
        return row if row is not None and row["ratio"] is not None else None

    def medians(self, each: S, *metrics: str) -> list[float] | None:
        """None where one of them has no figure."""
        rows = [self.rows.get((self.program, each.manager, metric)) for metric in metrics]
        found = [float(row["median"]) for row in rows if row and row["median"] is not None]
        return found if len(found) == len(metrics) else None


def answers(
    results: Results, settings: Sequence[S], contrasts: Sequence[Contrast[S]], metric: str
) -> Answers[S]:
    """What the results of a study say of its settings, by each contrast."""
    groups: dict[str, list[S]] = {}
    for setting in settings:
        groups.setdefault(setting.collector, []).append(setting)

    def against(references: Callable[[str], str]) -> Rows:
        seed = results.run["seed"]
        return summary_rows(summary.summarise_against(results.measurements, references, seed))

    def of_contrast(contrast: Contrast[S]) -> Rows:
        references = {
            each.manager: (contrast.reference(each, group) or each).manager
            for group in groups.values()
            for each in group
        }
        return against(lambda manager: references.get(manager, manager))

    (program,) = (each["name"] for each in results.run["programs"])
    return Answers(
        program,
        metric,
        against(lambda _manager: str(results.run["baseline"])),
        {contrast.identifier: of_contrast(contrast) for contrast in contrasts},
        groups,
    )
