"""The study behind `tare compare`: time and memory of programs under each manager.

Rounds of runs in random order, by the rules in docs/method.md; the baseline runs twice a round, so
that comparing it with itself gives the noise floor.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tare.base import statistics
from tare.base.libraries import pl
from tare.base.units import format_percent
from tare.campaign import rounds
from tare.records.results import Results, read_records
from tare.records.summary import geometric_means, summarise
from tare.report.comparison import MEMORY, TIME, change, comparison_section, seen_mean
from tare.report.model import Section
from tare.studies.compare.verdicts import comparison, conclusion, fastest, smallest
from tare.studies.latency import report as latency
from tare.studykit.printed import printed_tables
from tare.studykit.safety import safety_tables

STUDY = "compare"


next_round = partial(rounds.next_round, study=STUDY)


def section(results: Results) -> Section:
    """What a comparison found: in sentences, tables and figures, and its failures."""
    run = results.run
    mine = results.measurements.filter(pl.col("study") == STUDY)
    summary = summarise(mine, run.baseline, run.seed)
    whole = comparison_section(results, summary)
    timed = latency.section(results)
    safety = safety_tables(results, STUDY, read_records(results.folder))
    return replace(
        whole,
        findings=[*findings(mine, run.baseline, run.seed), *timed.findings],
        tables=[*whole.tables, *printed_tables(summary, run.baseline), *timed.tables, *safety],
        figures=[*whole.figures, *timed.figures],
    )


def findings(measurements: pl.DataFrame, baseline: str, seed: int) -> list[str]:
    """Who took least time and least memory, as far as a difference was seen: of one program by its
    runs, of several by the geometric means."""
    programs = measurements["program"].unique().to_list()
    if len(programs) > 1:
        return _of_means(geometric_means(measurements, (TIME, MEMORY), baseline, seed), baseline)
    compared = comparison(measurements, STUDY, programs[0], baseline, seed)
    if not compared.times:
        return []
    speed = fastest(compared, lambda name, what: f"{name} was fastest: {what} than {baseline}.")
    size = smallest(compared, lambda name, what: f"{name} was smallest: {what} than {baseline}.")
    return [*speed.sentences, *size.sentences]


def last_sentence(results: Results) -> str:
    """What `tare compare` ends with; "" where there is nothing to say."""
    run = results.run
    mine = results.measurements.filter(pl.col("study") == STUDY)
    programs = mine["program"].unique().to_list()
    if len(programs) != 1:
        return next(iter(findings(mine, run.baseline, run.seed)), "")
    compared = comparison(mine, STUDY, programs[0], run.baseline, run.seed)
    return conclusion(compared) if compared.times else ""


def _of_means(means: pl.DataFrame, baseline: str) -> list[str]:
    sentences = []
    for metric, what, least in ((TIME, "wall time", "fastest"), (MEMORY, "memory", "smallest")):
        rows = [
            seen_mean(row)
            for row in means.iter_rows(named=True)
            if row["metric"] == metric and row["manager"] != baseline
        ]
        lower = [row for row in rows if row["verdict"] == "lower"]
        if lower:
            best = min(lower, key=lambda row: row["ratio"])
            sentences.append(
                f"{best['manager']} was {least} in the mean of {best['programs']} programs: "
                f"{change(best, what)} than {baseline}."
            )
        elif any(row["verdict"] == statistics.TOO_FEW_RUNS for row in rows):
            fewest = statistics.FEWEST_FOR_VERDICT
            sentences.append(f"Too few runs to tell who needs less {what}: it takes {fewest}.")
        elif rows:
            visible = max(1 - row["ratio_low"] / row["ratio"] for row in rows)
            sentences.append(
                f"No manager was seen to need less {what} than {baseline} in the mean of "
                f"{rows[0]['programs']} programs: only differences above "
                f"{format_percent(visible)} would show."
            )
    return sentences
