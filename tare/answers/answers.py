"""What can be had of results folders: the explorer, differences, other tools' formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tare.answers.diff import DiffResult, diff
from tare.answers.explorer.collecting import collect
from tare.answers.explorer.page import write_explorer
from tare.answers.exports.formats import FORMATS
from tare.answers.summaries import summary
from tare.base.errors import UsageError
from tare.checking.limits import is_broken, judged
from tare.records.results import Results


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
