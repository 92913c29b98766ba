"""`tare weigh`: what the program's allocations would need and cost under a garbage collector."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.base.units import (
    format_bytes,
    format_duration,
    format_percent,
    format_seconds,
)
from tare.memory_managers import mmtk
from tare.memory_managers.manager import OWN
from tare.observers import recorder
from tare.observers.protocol import Observe
from tare.records.metrics import Obtained, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.report.fields import Field, Kind, counts, ratios, seconds, sizes, table, texts
from tare.report.model import Section, Table
from tare.studykit.budget import Effort, Setting, bill_seconds
from tare.weighing import collectors_observe
from tare.weighing.collectors_observe import HEAPS, PAIRS
from tare.weighing.collectors_observe import ratios as ratios_of

IDENTIFIER = "collectors"
STUDY = "collectors"
OBSERVER = "collectors"
TITLE = "Under a garbage collector"
ORDER = 50

COLLECTORS = ("genimmix", "immix", "semispace")
START_SECONDS = 1.5
"""What recording and the searches take of a program that allocates next to nothing."""
SLOWDOWN = 30.0
"""Of programs that allocate a lot, for the recording and each search."""


def observers(_setting: Setting) -> Mapping[str, Observe]:
    return {OBSERVER: collectors_observe.run_once}


def run_seconds(pilot_seconds: float) -> float:
    """What the recording, and then each collector, will take, judged by the pilot run."""
    return START_SECONDS + SLOWDOWN * pilot_seconds


def least_seconds(setting: Setting) -> float:
    """The recording and one collector."""
    if not is_built() or setting.baseline == OWN:
        return 0.0
    return 2 * run_seconds(setting.run_seconds)


def expected_runs(setting: Setting) -> int:
    """The recording and as many collectors as fit into the section's share of the time."""
    if not is_built() or setting.baseline == OWN:
        return 0
    most = 1 + (1 if setting.effort is Effort.QUICK else len(COLLECTORS))
    if setting.effort is Effort.THOROUGH:
        return most
    fitting = min(most, int(setting.budget_seconds / run_seconds(setting.run_seconds)))
    return fitting if fitting > 1 else 0


def expected_seconds(setting: Setting) -> float:
    return expected_runs(setting) * run_seconds(setting.run_seconds)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The recording, then one collector after the other, while there is time."""
    mine = [record for record in records if record.run.study == STUDY]
    allowed = expected_runs(setting)
    if not allowed:
        return []
    order = 1 + max((record.run.order for record in records), default=0)
    if not mine:
        return [Run(STUDY, setting.program, setting.baseline, 0, order, observer=OBSERVER)]
    if mine[0].outcome.status is not Status.OK or mine[0].outcome.details["left_out"]:
        return []
    took = [record.outcome.details.get("took_seconds", 0.0) for record in mine]
    is_late = sum(took) + max(took) > setting.budget_seconds
    done = {record.run.manager for record in mine}
    left = [name for name in COLLECTORS[: allowed - 1] if name not in done]
    if not left or (is_late and setting.effort is not Effort.THOROUGH):
        return []
    return [Run(STUDY, setting.program, left[0], 0, order, observer=OBSERVER)]


def is_built() -> bool:
    """Whether this Tare has the recorder, the replayer and the collectors."""
    try:
        recorder.require()
        native_file("bin/tare-replay")
        for name in COLLECTORS:
            mmtk.command(name, {})
    except MissingError:
        return False
    return True


def section(results: Results) -> Section:
    """What collectors would need and cost, or why that was not tried."""
    mine = [record for record in read_records(results.folder) if record.run.study == STUDY]
    if not mine:
        return Section(IDENTIFIER, TITLE, findings=[_left_out(results)])
    recording = mine[0].outcome
    if recording.status is not Status.OK:
        why = f"Left out: the program could not be recorded: {recording.reason}."
        return Section(IDENTIFIER, TITLE, findings=[why])
    if why := recording.details["left_out"]:
        told = f"Left out: {why}. `tare minheap` has no such limit."
        return Section(IDENTIFIER, TITLE, findings=[told])
    good = [record for record in mine[1:] if record.outcome.status is Status.OK]
    good.sort(key=lambda record: float(record.outcome.values["min_heap_high_bytes"]))
    return Section(
        identifier=IDENTIFIER,
        title=TITLE,
        findings=_findings(results, recording.details, mine[1:], good),
        tables=[_table(recording.details["counted"], good)] if good else [],
        obtained=Obtained.REPLAYED,
    )


def _left_out(results: Results) -> str:
    if not is_built():
        return "Left out: the recorder or the replayer's collectors are not built (make build)."
    if results.run.baseline == OWN:
        return "Left out: the program brings its own allocator. `tare trace -m own` records it."
    seconds = 2 * run_seconds(results.run.pilot_seconds)
    return (
        f"Left out: a recording and a search take about {format_duration(seconds)}, more than is "
        f"left of the bill's {format_duration(bill_seconds(results.run))}. "
        "`tare trace` and `tare minheap` do it without a limit, and so does `tare weigh "
        "--thorough`."
    )


def _findings(
    results: Results, recorded: Any, tried: Sequence[Record], good: Sequence[Record]
) -> list[str]:
    counted = recorded["counted"]
    live = counted["peak_bytes"]
    sentences = [
        f"Under {record.run.manager} it would need at least {format_bytes(_least(record))}, "
        f"{_least(record) / live:.2f} times its peak of {format_bytes(live)} live; "
        f"glibc takes {format_bytes(record.outcome.details['glibc_bytes'])} for the same objects."
        for record in good[:1]
    ]
    pilot = results.run.pilot_seconds
    sentences += [_cost(record, pilot) for record in good]
    sentences += [
        f"{record.run.manager} did not complete: {record.outcome.status} ({record.outcome.reason})."
        for record in tried
        if record.outcome.status is not Status.OK
    ]
    if not tried:
        sentences.append("There was time for the recording only. `tare minheap` has no limit.")
    if recorded["processes"] > 1:
        sentences.append(
            f"Of {recorded['processes']} processes, the one with the most objects is replayed."
        )
    sentences.append(
        "Its allocations are replayed without its own work, so the effect of a collector on its "
        "cache misses is not included. An object is garbage once the program freed it; pointers "
        "that would keep it reachable for longer were not recorded."
    )
    return sentences


def _least(record: Record) -> float:
    return float(record.outcome.values["min_heap_high_bytes"])


def _cost(record: Record, pilot: float | None) -> str:
    """In a heap of twice the least: more time, less, or no difference that all pairs agree on."""
    details = record.outcome.details
    name, heap = record.run.manager, format_bytes(details["heap_bytes"])
    each = ratios_of(details)
    start = f"Under {name}, in twice its minimum heap ({heap}), memory management "
    if min(each) <= 1 <= max(each):
        return (
            f"{start}takes {min(each):.2f} to {max(each):.2f} times as long as under glibc: no "
            "difference seen."
        )
    extra = statistics.median(details["seconds"]) - statistics.median(details["glibc_seconds"])
    share = f", {format_percent(extra / pilot)} of its time" if pilot else ""
    direction = "more" if extra > 0 else "less"
    return (
        f"{start}takes {statistics.median(each):.2f} times as long as under glibc "
        f"({min(each):.2f} to {max(each):.2f}): {format_seconds(abs(extra))} {direction}{share}."
    )


def _table(counted: Any, good: Sequence[Record]) -> Table:
    live = counted["peak_bytes"]

    def value(name: str) -> Callable[[Record], float]:
        return lambda record: record.outcome.values[name]

    def over(record: Record) -> list[float]:
        return ratios_of(record.outcome.details)

    replays = f"Median of {PAIRS} replays in {HEAPS} minimum heaps, collections included."
    alive = "The minimum heap divided by the most bytes alive at one moment."
    longest = "The longest pause of a replay, median."
    fields: list[Field[Record]] = [
        texts(
            "collector", "What served the objects of the replay.", lambda record: record.run.manager
        ),
        sizes("minimum heap", "The smallest heap in which the replay fitted.", _least),
        ratios("over live", alive, lambda record: _least(record) / live),
        seconds("time", replays, value("replay_seconds")),
        ratios(
            "over glibc",
            "Median ratio to the time of a replay under glibc right before.",
            lambda record: statistics.median(over(record)),
        ),
        texts(
            "range",
            "Of the ratios.",
            lambda record: f"{min(over(record)):.2f} – {max(over(record)):.2f}",
        ),
        Kind("{:.0%}".format)(
            "collecting",
            "Share of the time spent in collections.",
            lambda record: value("collector_seconds")(record) / value("replay_seconds")(record),
        ),
        counts("collections", "Collections in a replay.", value("collections"), essential=False),
        seconds("longest pause", longest, value("max_pause_seconds"), essential=False),
    ]
    return table("table-collectors", "Its allocations under collectors", good, fields)
