"""Runs that were done and measured by other tools, made into a results folder.

A format is a module here with ``TITLE``, ``recognises_runs`` and ``read_runs``; it is found by
being there.
"""

from __future__ import annotations

import gzip
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tare.base.errors import UsageError
from tare.programs.program import NAME_LIMIT
from tare.records.metrics import Status
from tare.records.results import Results, Store, default_folder, new_run
from tare.records.runs import Outcome, Record, Run, now

STUDY = "import"
UNKNOWN = "unknown"
_MOST_LINE_BYTES = 1 << 20
_MOST_BYTES = 1 << 32
"""Of the text of a file: what is compressed can be of any length."""


@dataclass(frozen=True)
class Imported:
    """``tool`` is what did the runs; ``missing`` says what could not be read of them, and ``notes``
    are sentences on what their form never has."""

    tool: str
    runs: Sequence[ImportedRun]
    missing: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ImportedRun:
    """``status`` ok has ``values`` of metrics; any other has a ``reason``."""

    program: str
    manager: str
    status: Status
    reason: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


class RunsFormat(Protocol):
    TITLE: str

    def recognises_runs(self, path: Path) -> bool: ...

    def read_runs(self, path: Path, note: Callable[[str], None]) -> Imported: ...


def modules_with(function: str) -> list[Any]:
    """The formats that have such a function."""
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    modules = [importlib.import_module(f"tare.importing.{name}") for name in names]
    return [module for module in modules if hasattr(module, function)]


def formats() -> list[RunsFormat]:
    """All that can be imported."""
    return modules_with("recognises_runs")


def format_of(path: Path) -> RunsFormat | None:
    """That of runs in ``path``, a file or a folder; None where it has no runs."""
    return next((each for each in formats() if each.recognises_runs(path)), None)


def import_runs(
    path: Path,
    chosen: RunsFormat,
    folder: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
    statistics: Path | None = None,
) -> Results:
    """Make a results folder of the runs in ``path``; of a heap profile with the manager's
    ``statistics``."""
    if statistics is None:
        found = chosen.read_runs(path, note)
    elif (read_with := getattr(chosen, "read_runs_with", None)) is not None:
        found = read_with(path, statistics, note)
    else:
        raise UsageError(f"{path} is no heap profile that statistics go with")
    if not found.runs:
        raise UsageError(f"{path} has no run that can be read", *found.missing[:1])
    run = new_run(
        STUDY,
        sys.argv,
        programs=[_program(name) for name in dict.fromkeys(run.program for run in found.runs)],
        managers={
            name: {"version": "", "object": None, "environment": {}}
            for name in dict.fromkeys(run.manager for run in found.runs)
        },
        baseline=_baseline(found.runs),
        seed=1,
        request={"imported": str(path)},
        imported={"tool": found.tool, "missing": [*found.missing], "notes": [*found.notes]},
    )
    with Store(folder or default_folder(STUDY, path.name), run, key="request") as store:
        if store.records:
            raise UsageError(f"{store.folder} already has runs", "name another folder with -o")
        for record in _records(found.runs):
            store.append(record)
        results = store.finish()
        store.update(finished=now())
        return Results(results.folder, store.document, results.measurements)


def _baseline(runs: Sequence[ImportedRun]) -> str:
    """The manager with good runs of the most programs, the first of several."""
    programs: dict[str, set[str]] = {run.manager: set() for run in runs}
    for run in runs:
        if run.status is Status.OK:
            programs[run.manager].add(run.program)
    return max(programs, key=lambda manager: len(programs[manager]))


def _program(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "argv": [name],
        "executable": "",
        "executable_sha256": "",
        "ignore_output": True,
        "output_sha256": "",
    }


def _records(runs: Sequence[ImportedRun]) -> Iterator[Record]:
    done: dict[tuple[str, str], int] = {}
    for order, one in enumerate(runs, 1):
        invocation = done.get((one.program, one.manager), 0)
        done[one.program, one.manager] = invocation + 1
        run = Run(STUDY, one.program, one.manager, invocation, order, observer=STUDY)
        yield Record(run, Outcome(one.status, one.reason, one.values, details=one.details))


def named(text: str) -> str:
    """A name of a program or a manager from outside."""
    return text[:NAME_LIMIT] or UNKNOWN


class Text:
    """The lines of a file of text, compressed by gzip or not. ``damage`` then says why they ended
    before the end of the file, if they did."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.damage = ""

    def lines(self) -> Iterator[str]:
        try:
            with self._path.open("rb") as file:
                is_compressed = file.read(2) == b"\x1f\x8b"
            read = 0
            with gzip.open(self._path) if is_compressed else self._path.open("rb") as text:
                while line := text.readline(_MOST_LINE_BYTES):
                    read += len(line)
                    if read > _MOST_BYTES:
                        self.damage = f"its text is longer than {_MOST_BYTES >> 30} GiB"
                        return
                    yield line.decode("utf-8", errors="replace")
        except (OSError, EOFError) as error:
            self.damage = f"it cannot be read to its end: {error}"
