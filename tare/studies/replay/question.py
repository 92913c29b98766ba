"""`tare.replay`: which replays it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tare.campaign import session
from tare.campaign.watching import Watcher
from tare.heap_traces.schedule import How
from tare.heap_traces.trace import open_trace
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.replay import report as study
from tare.studykit.least_heap import multiples
from tare.studykit.replayer import how_under, managers_of
from tare.studykit.replays import measure_replays, prepare


def replay(
    trace: Path | str,
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    how: How | None = None,
    runs: int = 10,
    warmup: int = 1,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """The allocations of a heap trace under each manager: time and memory of the same work.

    ``managers``, ``baseline`` and ``folder`` are as for ``tare.compare``; ``how`` says what is
    replayed.
    """
    opened = open_trace(trace)
    resolved, baseline = managers_of(managers, baseline)
    how = how_under(resolved, opened, how or How())
    session.check_counts(runs, warmup)
    prepared = prepare(opened, how, study.STUDY, folder, watcher)
    resolved, heaps = multiples.in_bytes(prepared, resolved, limits)
    return measure_replays(
        prepared, study, "replaying", resolved, baseline, runs, warmup, seed, limits, heaps=heaps
    )
