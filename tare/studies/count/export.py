"""Counts by call site in the forms that other tools' viewers read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.text import shortened, visible
from tare.observers.call_sites import Cost
from tare.records.metrics import Status
from tare.records.results import RUN_FILE, Results, load, read_records, read_run, telling_damage
from tare.records.runs import Record
from tare.report.stacks import (
    LONGEST_FRAME,
    OTHER,
    UNKNOWN,
    Frame,
    Kind,
    Profile,
    Stack,
    frame_of,
    to_collapsed,
    to_pprof,
    to_speedscope,
)
from tare.studies.count import report as count
from tare.studies.count import sites
from tare.studykit import findings

KINDS = {
    "instructions": Kind("instructions in the memory manager", "instructions", "count"),
    "calls": Kind("calls of the memory manager", "calls", "count"),
    "bytes": Kind("bytes asked for", "alloc_space", "bytes"),
}
"""By the names that ``--weight`` has; the first is what is meant where it is not given."""
FORMATS: Mapping[str, Callable[[Profile, str], bytes]] = {
    "collapsed": to_collapsed,
    "pprof": lambda profile, _: to_pprof(profile),
    "speedscope": lambda profile, _: to_speedscope(profile),
}


def is_count(folder: Path) -> bool:
    """Whether ``folder`` holds results of ``tare count``."""
    return (folder / RUN_FILE).is_file() and read_run(folder).study == count.STUDY


def render(folder: Path, name: str, weight: str) -> bytes:
    """The counts by call site in ``folder`` in the form ``name``. UsageError where there are
    none."""
    if name not in FORMATS:
        raise UsageError(
            f"a count cannot be exported as {name}", f"choose --format: {', '.join(FORMATS)}"
        )
    results = load(folder)
    with telling_damage(results):
        return FORMATS[name](_profile(results), weight)


def _profile(results: Results) -> Profile:
    """The operations of the baseline's manager; the operation is the innermost frame, and where
    there are several programs their names are the outermost ones."""
    records = list(_records(results))
    if not records:
        raise UsageError(
            f"{results.folder} has no counts by call site", "count again, with --sites"
        )
    several = len(records) > 1
    stacks = [
        Stack(
            (*_frames(cost), *([_frame(record.run.program)] if several else [])),
            {kind: getattr(cost, kind) for kind in KINDS},
        )
        for record in records
        for cost in sites.costs(record.outcome)
    ]
    name = results.folder.resolve().name if several else records[0].run.program
    return Profile(_shown(name), KINDS, stacks)


def _records(results: Results) -> Iterator[Record]:
    """The first good run of each program, under the baseline where there is one."""
    good = [
        record
        for record in read_records(results.folder)
        if record.run.study == count.STUDY
        and record.outcome.status is Status.OK
        and sites.has_sites(record)
    ]
    for program in dict.fromkeys(record.run.program for record in good):
        firsts = findings.first_records(good, program)
        yield firsts.get(results.run.baseline) or next(iter(firsts.values()))


def _frames(cost: Cost) -> tuple[Frame, ...]:
    """From the innermost on."""
    frames = tuple(map(frame_of, reversed(cost.frames)))
    if cost.is_rest:
        frames = (_frame(OTHER), *frames)
    return (_frame(cost.operation), *(frames or (_frame(UNKNOWN),)))


def _frame(text: str) -> Frame:
    return Frame(_shown(text), _shown(text))


def _shown(text: str) -> str:
    return shortened(visible(text), LONGEST_FRAME)
