"""The settings that `tare tune` found: what its JSON has as ``settings``, best first."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tare.records.evidence import HIGHER, LOWER, UNSEEN
from tare.records.header import Asked, Header
from tare.records.results import Results
from tare.records.runs import Number
from tare.records.summary import Row, summarise
from tare.studies.tune.plan import ERROR, STUDY
from tare.studies.tune.seen import MEMORY, PROCESSOR, TIED, WALL
from tare.studykit import adoption


class Setting(Struct, frozen=True):
    """``environment`` has what to set, ``link`` the linker's flag that does without LD_PRELOAD, ""
    where there is none. Ratios are to the baseline, with the bounds of their 95% intervals."""

    manager: str
    environment: Mapping[str, str]
    link: str
    time_metric: str
    time_ratio: float
    time_low: float
    time_high: float
    memory_ratio: float
    memory_low: float
    memory_high: float


class AskedTune(Asked, frozen=True):
    """As fractions, and in bytes."""

    slower_by: float | None = None
    memory_limit: Number | None = None


class TuneRun(Header, frozen=True, kw_only=True):
    request: AskedTune = AskedTune()


Pair = tuple[Row, Row]
"""What the fresh runs say of a setting's time and memory."""


def fresh_rows(results: Results) -> list[Row]:
    """The summary of the runs that confirm."""
    run = results.run
    mine = results.measurements.filter(results.measurements["study"] == STUDY)
    return [*summarise(mine, run.baseline, run.seed, error=ERROR).iter_rows(named=True)]


def confirming(results: Results) -> Mapping[str, Pair]:
    """By name, what was run afresh, the baseline first. Where wall time cannot tell, and processor
    time can, that speaks for time. What costs more by its 95% interval is said to cost more: only
    gains must be surer than that."""
    rows: dict[str, dict[str, Row]] = {}
    for row in fresh_rows(results):
        if row["ratio"] is not None:
            rows.setdefault(row["manager"], {})[row["metric"]] = row
    pairs = {
        name: (
            _with_cost(_telling(_with_cost(found[WALL]), found.get(PROCESSOR))),
            _with_cost(found[MEMORY]),
        )
        for name, found in rows.items()
        if {WALL, MEMORY} <= found.keys()
    }
    return dict(sorted(pairs.items(), key=lambda pair: pair[0] != results.run.baseline))


def _telling(wall: Row, processor: Row | None) -> Row:
    tells = processor is not None and processor["verdict"] in (LOWER, HIGHER)
    return processor if processor is not None and tells and wall["verdict"] == UNSEEN else wall


def _with_cost(row: Row) -> Row:
    costs = row["verdict"] == UNSEEN and row["ratio_low"] > 1
    return {**row, "verdict": HIGHER} if costs else row


def confirmed(results: Results) -> Mapping[str, Pair]:
    """Those that take less time or less memory than the baseline and keep to what was asked, but
    for those that another one beats in both: first those that cost nothing, then by what they
    gain."""
    run, found = results.run_as(TuneRun), confirming(results)
    better = {
        name: pair
        for name, pair in found.items()
        if name != run.baseline and any(map(_is_gain, pair)) and _is_allowed(run.request, pair)
    }
    kept = [name for name in better if not any(_beats(o, better[name]) for o in better.values())]

    def place(name: str) -> tuple[bool, float]:
        costs = any(row["verdict"] == HIGHER for row in better[name])
        return costs, min(float(row["ratio"]) for row in better[name])

    return {name: better[name] for name in sorted(kept, key=place)}


def _is_gain(row: Row) -> bool:
    return row["verdict"] == LOWER and float(row["ratio"]) < 1 - TIED


def _is_allowed(asked: AskedTune, pair: Pair) -> bool:
    time, memory = pair
    slow = asked.slower_by is not None and time["ratio"] > 1 + asked.slower_by
    large = asked.memory_limit is not None and memory["median"] > asked.memory_limit
    return not slow and not large


def _beats(pair: Pair, other: Pair) -> bool:
    ratios = [(mine["ratio"], theirs["ratio"]) for mine, theirs in zip(pair, other, strict=True)]
    return all(mine < theirs for mine, theirs in ratios)


def settings(results: Results) -> list[Setting]:
    """What to set: at most three, best first."""
    return [
        Setting(
            name,
            adoption.environment(results.run, name),
            adoption.link(results.run, name),
            pair[0]["metric"],
            *(float(row[key]) for row in pair for key in ("ratio", "ratio_low", "ratio_high")),
        )
        for name, pair in confirmed(results).items()
    ]
