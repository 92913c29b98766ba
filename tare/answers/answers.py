"""What can be had of a results folder: summary, page, differences, other tools' formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tare.answers.building import build_report
from tare.answers.diff import DiffResult, diff
from tare.answers.explorer.collecting import collect
from tare.answers.explorer.page import write_explorer
from tare.answers.exports.formats import FORMATS
from tare.answers.summaries import summary
from tare.base.errors import UsageError
from tare.base.files import writing
from tare.checking.limits import is_broken, judged
from tare.records.results import PAGE_FILE, Results
from tare.report import page
from tare.report.model import Report


def write_page(results: Results, report: Report | None = None) -> Path:
    """Write the page of a results folder; returns its path. ``report`` saves building it again."""
    path = results.folder / PAGE_FILE
    with writing(results.folder):
        page.write_page(report or build_report(results), path)
    return path


def explore(folder: Path | str, note: Callable[[str], None] = lambda _text: None) -> Path:
    """Write the explorer of all results in ``folder``, one page; returns its path. ``note`` is told
    of the progress."""
    return write_explorer(collect(Path(folder), note))


def difference(old: Results, new: Results, threshold: float = 0.02) -> DiffResult:
    """What changed beyond noise: ``.rows`` is a frame, ``.regressed`` says whether anything got
    worse by more than ``threshold``; see ``tare.answers.diff.diff``."""
    return diff(old, new, threshold=threshold)


def export_text(results: Results, name: str) -> str:
    """``results`` as text in one of the formats of ``tare export``: json, csv, markdown, …"""
    if name not in FORMATS:
        raise UsageError(f"there is no format '{name}'", f"known: {', '.join(FORMATS)}")
    return FORMATS[name].render(results, summary(results))


def limits_broken(results: Results, *, strict: bool = False) -> bool:
    """Whether a limit of the results of ``check`` is not kept; with ``strict``, one that lies
    within the noise counts as well."""
    return is_broken(judged(results), strict=strict)
