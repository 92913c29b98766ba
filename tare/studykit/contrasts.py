"""Managers that are settings of one collector, each held against what differs from it in one thing.

What the studies of `tare frequency` share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

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

    @property
    def settings(self) -> list[S]:
        return [each for group in self.groups.values() for each in group]

    def summarised(self, metric: str) -> Callable[[S], Row | None]:
        """What the rows have of a metric."""
        return lambda each: self.rows.get((self.program, each.manager, metric))

    def against(self, contrast: Contrast[S]) -> Callable[[S], Row | None]:
        """As ``row``, for fields of tables."""
        return lambda each: self.row(contrast, each)

    def row(self, contrast: Contrast[S], each: S) -> Row | None:
        """Of the metric, against the reference of the contrast; None where there is none, or no
        figure."""
        if contrast.reference(each, self.groups[each.collector]) is None:
            return None
        row = self.by_contrast[contrast.identifier].get((self.program, each.manager, self.metric))
        return row if row is not None and row["ratio"] is not None else None

    def medians(self, each: S, *metrics: str) -> dict[str, float] | None:
        """By metric; None where one of them has no figure."""
        rows = {metric: self.summarised(metric)(each) for metric in metrics}
        known = {
            m: float(row["median"]) for m, row in rows.items() if row and row["median"] is not None
        }
        return known if len(known) == len(metrics) else None

    def with_medians(self, *metrics: str) -> list[dict[str, Any]]:
        """A row of a table for each setting that has them all; ``setting`` is the setting."""
        return [
            {"setting": each, **medians}
            for each in self.settings
            if (medians := self.medians(each, *metrics)) is not None
        ]


def answers(
    results: Results, settings: Sequence[S], contrasts: Sequence[Contrast[S]], metric: str
) -> Answers[S]:
    """What the results of a study say of its settings, by each contrast."""
    groups: dict[str, list[S]] = {}
    for setting in settings:
        groups.setdefault(setting.collector, []).append(setting)

    def against(references: Callable[[str], str]) -> Rows:
        seed = results.run.seed
        return summary_rows(summary.summarise_against(results.measurements, references, seed))

    def of_contrast(contrast: Contrast[S]) -> Rows:
        references = {
            each.manager: (contrast.reference(each, group) or each).manager
            for group in groups.values()
            for each in group
        }
        return against(lambda manager: references.get(manager, manager))

    (program,) = (each.name for each in results.run.programs)
    return Answers(
        program,
        metric,
        against(lambda _manager: str(results.run.baseline)),
        {contrast.identifier: of_contrast(contrast) for contrast in contrasts},
        groups,
    )
