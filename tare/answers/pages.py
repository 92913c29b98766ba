"""The page of a results folder."""

from __future__ import annotations

from pathlib import Path

from tare.answers.building import build_report
from tare.base.files import writing
from tare.records.results import PAGE_FILE, Results
from tare.report import page
from tare.report.model import Report


def write_page(results: Results, report: Report | None = None) -> Path:
    """Write it; returns its path. ``report`` saves building it again."""
    path = results.folder / PAGE_FILE
    with writing(results.folder):
        page.write_page(report or build_report(results), path)
    return path
