"""Medians, intervals and verdicts of all studies in a results folder."""

from __future__ import annotations

from tare.base.libraries import pl
from tare.records.metrics import Status
from tare.records.results import Results, telling_damage
from tare.studies import studies


def summary(results: Results) -> pl.DataFrame:
    """Medians, intervals, ratios to the baseline and verdicts, a row per program, manager and
    metric; see ``tare.records.summary.summarise`` for the columns."""
    measurements, run = results.measurements, results.run
    with telling_damage(results):
        summaries: pl.DataFrame = pl.concat(
            study.summarise(
                measurements.filter(pl.col("study") == study.STUDY), run.baseline, run.seed
            )
            for study in studies()
        )
    return summaries.unique(["program", "manager", "metric"], keep="first", maintain_order=True)


def worst_status(results: Results) -> bool:
    """Whether any measured run gave a status instead of a number."""
    return bool((results.measurements["status"] != str(Status.OK)).any())
