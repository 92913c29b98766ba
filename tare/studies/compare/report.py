"""The study behind `tare compare`: time and memory of programs under each manager.

Rounds of runs in random order (rules 1 and 2 of docs/method.md); the baseline runs twice a round,
so that comparing it with itself gives the noise floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tare.base import statistics
from tare.base.libraries import pl
from tare.campaign import rounds
from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.records.summary import geometric_means, summarise
from tare.report.comparison import MEMORY, TIME, change, comparison_section, summary_rows
from tare.report.model import Section

STUDY = "compare"


def next_round(plan: rounds.Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next, given those that are done; see ``rounds.next_round``."""
    return rounds.next_round(plan, records, STUDY)


def section(results: Results) -> Section:
    """What a comparison found: in sentences, tables and figures, and its failures."""
    from dataclasses import replace

    run = results.run
    summary = summarise(results.measurements, run.baseline, run.seed)
    means = geometric_means(results.measurements, run.baseline, run.seed)
    return replace(
        comparison_section(results, summary), findings=findings(summary, means, run.baseline)
    )


def findings(summary: pl.DataFrame, means: pl.DataFrame, baseline: str) -> list[str]:
    """Who took least time and least memory, as far as a difference was seen: of one program by its
    summary, of several by the geometric means."""
    programs = summary["program"].unique().to_list()
    sentences = []
    for metric, what, least in ((TIME, "time", "fastest"), (MEMORY, "memory", "smallest")):
        rows = [
            row
            for (_, manager, name), row in summary_rows(summary).items()
            if name == metric and manager != baseline and row["ratio"] is not None
        ]
        if len(programs) > 1:
            rows = [_as_seen(row) for row in means.iter_rows(named=True) if row["metric"] == metric]
        if not rows:
            continue
        lower = [row for row in rows if row["verdict"] == "lower"]
        if lower:
            best = min(lower, key=lambda row: row["ratio"])
            mean = f" by the mean of {best['programs']} programs" if "programs" in best else ""
            sentences.append(
                f"{best['manager']} was {least}{mean}: {change(best, what)} than {baseline}."
            )
        elif any(row["verdict"] == statistics.TOO_FEW_RUNS for row in rows):
            fewest = statistics.FEWEST_FOR_VERDICT
            sentences.append(f"Fewer than {fewest} runs cannot tell who needs less {what}.")
        else:
            sentences.append(f"No manager was seen to need less {what} than {baseline}.")
    return sentences


def _as_seen(mean: Mapping[str, Any]) -> Mapping[str, Any]:
    """A geometric mean with the verdict that its interval allows."""
    ratio = statistics.Interval(mean["ratio"], mean["ratio_low"], mean["ratio_high"])
    return {**mean, "verdict": statistics.verdict(ratio, None, mean["runs"])}
