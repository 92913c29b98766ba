"""The results folders under a folder, read and summarised for the explorer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tare.answers.explorer.call_trees import call_trees
from tare.answers.summaries import summary
from tare.base.errors import TareError, UsageError
from tare.base.libraries import pl
from tare.records.results import RUN_FILE, Results, load
from tare.report.call_trees import CallTree

MOST_RESULTS = 500
MOST_FOLDERS = 20_000
"""Looked into for results: a folder such as a home directory is a mistake."""
DEEPEST = 4


@dataclass(frozen=True)
class Summarised:
    """One results folder; ``name`` is its path from the folder that was asked for."""

    name: str
    results: Results
    summary: pl.DataFrame
    trees: Sequence[CallTree]


@dataclass(frozen=True)
class Collection:
    """``troubles`` say what of ``folder`` could not be read, and why."""

    folder: Path
    members: Sequence[Summarised]
    troubles: Sequence[str]


def is_results(folder: Path) -> bool:
    return (folder / RUN_FILE).is_file()


def collect(folder: Path, note: Callable[[str], None]) -> Collection:
    """All results in ``folder``, which may be a results folder itself. UsageError where there are
    none that can be read; a damaged one among others is passed over and named."""
    found, troubles = results_folders(folder)
    members = []
    for number, path in enumerate(found, 1):
        if len(found) > 1:
            note(f"reading {path} ({number} of {len(found)})")
        try:
            results = load(path)
            name = str(path.relative_to(folder))
            members.append(Summarised(name, results, summary(results), call_trees(results, note)))
        except TareError as error:
            if path == folder:
                raise
            troubles.append(error.message)
    if not members:
        raise UsageError(
            f"{folder} holds no results that can be read" + "".join(f"; {t}" for t in troubles[:3]),
            "name a results folder that Tare wrote, or a folder with such folders in it",
        )
    return Collection(folder, members, troubles)


def results_folders(folder: Path) -> tuple[list[Path], list[str]]:
    """The newest ``MOST_RESULTS`` results folders in ``folder``, by name, and what was left out."""
    found = all_results_folders(folder)
    troubles = []
    if (left := len(found) - MOST_RESULTS) > 0:
        found.sort(key=lambda path: (path / RUN_FILE).stat().st_mtime_ns, reverse=True)
        del found[MOST_RESULTS:]
        troubles.append(f"only the newest {MOST_RESULTS} results are shown; {left:,} are left out")
    return sorted(found), troubles


def all_results_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    found: list[Path] = []
    for looked_into, (place, folders, _) in enumerate(os.walk(folder)):
        path = Path(place)
        if looked_into >= MOST_FOLDERS:
            raise UsageError(
                f"{folder} has more than {MOST_FOLDERS:,} folders in it",
                "name the one that holds the results",
            )
        if is_results(path):
            found.append(path)
            folders.clear()
        elif len(path.relative_to(folder).parts) >= DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    return found
