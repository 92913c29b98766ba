"""What can be had of a results folder: summary, page, differences, other tools' formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tare.errors import UsageError
from tare.measurement import Status
from tare.results import PAGE_FILE, Results, telling_damage
from tare.studies import studies

if TYPE_CHECKING:
    import polars

    from tare.diff import DiffResult


def summary(results: Results) -> polars.DataFrame:
    """Medians, intervals, ratios to the baseline and verdicts, a row per program, manager and
    metric; see ``tare.studies.compare.summarise`` for the columns."""
    import polars as pl

    measurements, run = results.measurements, results.run
    with telling_damage(results):
        summaries: pl.DataFrame = pl.concat(
            study.summarise(
                measurements.filter(pl.col("study") == study.STUDY), run["baseline"], run["seed"]
            )
            for study in studies()
        )
    return summaries.unique(["program", "manager", "metric"], keep="first", maintain_order=True)


def write_page(results: Results) -> Path:
    """Write the page of a results folder; returns its path."""
    from tare.report import page
    from tare.report.build import build_report
    from tare.results import writing

    path = results.folder / PAGE_FILE
    with writing(results.folder):
        page.write_page(build_report(results), path)
    return path


def explore(folder: Path | str, note: Callable[[str], None] = lambda _text: None) -> Path:
    """Write the explorer of all results in ``folder``, one page; returns its path. ``note`` is told
    of the progress."""
    from tare.explorer.collecting import collect
    from tare.explorer.page import write_explorer

    return write_explorer(collect(Path(folder), note))


def difference(old: Results, new: Results, threshold: float = 0.02) -> DiffResult:
    """What changed beyond noise: ``.rows`` is a frame, ``.regressed`` says whether anything got
    worse by more than ``threshold``; see ``tare.diff.diff``."""
    from tare.diff import diff

    return diff(old, new, threshold=threshold)


def export_text(results: Results, name: str) -> str:
    """``results`` as text in one of the formats of ``tare export``: json, csv, markdown, …"""
    from tare.export import FORMATS

    if name not in FORMATS:
        raise UsageError(f"there is no format '{name}'", f"known: {', '.join(FORMATS)}")
    return FORMATS[name].render(results, summary(results))


def worst_status(results: Results) -> bool:
    """Whether any measured run gave a status instead of a number."""
    return bool((results.measurements["status"] != str(Status.OK)).any())


def limits_broken(results: Results, *, strict: bool = False) -> bool:
    """Whether a limit of the results of ``check`` is not kept; with ``strict``, one that lies
    within the noise counts as well."""
    from tare.limits import is_broken, judged

    return is_broken(judged(results), strict=strict)
