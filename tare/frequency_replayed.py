"""How often to collect, for a heap trace: replays under collectors with several periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tare import api, minheap, replay
from tare.errors import UsageError
from tare.manager import parse_name, resolve
from tare.program import hash_file
from tare.runner import Limits
from tare.schedule import How, check
from tare.studies import frequency_replayed as study
from tare.sweeps import ascending, size_text
from tare.trace import META_FILE, open_trace

if TYPE_CHECKING:
    from tare.results import Results

DEFAULT_COLLECTORS = ("immix", "genimmix")
DEFAULT_RECLAIM = (study.EACH_TIME, 4)
BASELINE = "glibc"
"""Runs as well, so that a collector must end with the objects that malloc and free end with."""
LONGEST_SHORTEST = 8 << 20
_PERIODS, _FEWEST_COLLECTIONS = 4, 8
_ROOM = 3
"""The heap, in what can lie in it at once: a copying collector needs twice that."""
_LEAST_HEAP = 16 << 20


def frequency_replayed(
    trace: Path | str,
    managers: Sequence[str] = (),
    *,
    periods: Sequence[int] = (),
    reclaim: Sequence[int] = (),
    runs: int = 12,
    warmup: int = 1,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: api.Watcher | None = None,
) -> Results:
    """Mutator time of a heap trace under collectors that trace and reclaim more or less often.

    ``managers`` are collectors; none means immix and genimmix. ``periods`` are bytes allocated
    between collections; none means 8, 16, 32 and 64 MiB, or less where the trace allocates little.
    ``reclaim`` has numbers N: reclaim at each Nth collection only; none means 1 and 4, and 1 is
    added.
    """
    from tare.executor import OBSERVERS
    from tare.results import default_folder

    api._check_counts(runs, warmup)
    collectors = _checked(managers or DEFAULT_COLLECTORS)
    rates = sorted({study.EACH_TIME, *(reclaim or DEFAULT_RECLAIM)})
    if rates[0] < 1:
        raise UsageError(
            "no collector of a replay traces and never reclaims", "give --reclaim numbers from 1 on"
        )
    opened = open_trace(trace)
    how = How()
    how = replace(how, process=check(opened, how))
    where = Path(folder) if folder else default_folder(study.STUDY, opened.folder.stem)
    schedule = (where / ".work" / replay.SCHEDULE_FILE).resolve()
    program = replay.program_of(opened, how, schedule)
    watcher = watcher or api.Watcher()
    watcher.note("compiling the trace")
    counted = replay._compile(opened, how, schedule)
    chosen = ascending(set(periods)) if periods else default_periods(counted["allocated_bytes"])
    heap = ample_heap(counted, chosen[-1] * rates[-1])
    settings = [
        study.Setting(_named(collector, period, rate, heap), collector, period, rate)
        for collector in collectors
        for period in chosen
        for rate in rates
    ]
    resolved, baseline = replay.managers_of([each.manager for each in settings], BASELINE)
    asked = {
        "trace": str(opened.folder.resolve()),
        "meta_sha256": hash_file(opened.folder / META_FILE),
        "how": asdict(how),
        "runs": runs,
        "warmup": warmup,
    }

    def plan(seed: int) -> api._Planned:
        rounds = study.Plan((program.name,), tuple(resolved), baseline, runs, warmup, seed)
        return api._Planned(
            lambda records: study.next_round(rounds, records), study.planned_runs(rounds)
        )

    return api._measure(
        study.STUDY,
        "mutator time of collection periods",
        [program],
        resolved,
        baseline,
        asked,
        plan,
        api._Where(seed, limits, where, watcher),
        {**OBSERVERS, study.OBSERVER: replay.run_once},
        schedule=counted,
        settings=[asdict(each) for each in settings],
    )


def default_periods(allocated: int) -> tuple[int, ...]:
    """8, 16, 32 and 64 MiB; for a trace that would see few collections then, shorter ones, so that
    the longest leads to 8."""
    longest = allocated // _FEWEST_COLLECTIONS
    shortest = LONGEST_SHORTEST
    while shortest > minheap.PAGE and shortest << (_PERIODS - 1) > longest:
        shortest >>= 1
    return tuple(shortest << step for step in range(_PERIODS))


def ample_heap(counted: Mapping[str, int], between: int) -> int:
    """Bytes of a heap that does not fill by itself when ``between`` bytes are allocated between
    two reclamations."""
    headers = 1 + minheap.HEADER_BYTES * counted["objects"] / max(counted["allocated_bytes"], 1)
    living = min(counted["allocated_bytes"], counted["peak_bytes"] + between)
    heap = max(_LEAST_HEAP, int(_ROOM * headers * living))
    return -(-heap // minheap.PAGE) * minheap.PAGE


def _checked(names: Sequence[str]) -> list[str]:
    for name in names:
        if not resolve(name, replays=True).replayer:
            raise UsageError(
                f"{name} is no collector of replays",
                "give one, like -m immix; for a collector over malloc give a program, and no trace",
            )
        if taken := {"period", "reclaim"}.intersection(parse_name(name)[1]):
            raise UsageError(f"{name}: its {' and '.join(sorted(taken))} is what varies")
    return list(dict.fromkeys(names))


def _named(collector: str, period: int, rate: int, heap: int) -> str:
    name, options = parse_name(collector)
    settings = {"heap": size_text(heap), **options, "period": size_text(period)}
    if rate != study.EACH_TIME:
        settings["reclaim"] = str(rate)
    return f"{name}({', '.join(f'{key}={value}' for key, value in settings.items())})"


__all__ = ["ample_heap", "default_periods", "frequency_replayed"]
