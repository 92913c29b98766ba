"""Which runs `tare tune` does next: the search, the promising settings again, and the fresh runs
that confirm the best of them.

Of the best of many some were only lucky (the winner's curse), so nothing that the search measured
is an answer: that comes from the runs that follow it, of at most three settings fixed before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from tare.base import statistics
from tare.campaign import rounds
from tare.records.evidence import error_of
from tare.records.metrics import Status
from tare.records.runs import Record, Run
from tare.studies.tune.search import Known, proposals
from tare.studies.tune.seen import (
    MEMORY,
    TIED,
    WALL,
    Bounds,
    Seen,
    failed,
    noise_of,
    roles,
    seen_of,
    time_metric,
)
from tare.studies.tune.space import Space

STUDY = "tune"
SEARCH = "tune-search"
"""The runs that only say which settings to confirm."""
ERROR = 0.0025
"""How often an answer may hold a false claim."""
SEARCH_SHARE, AGAIN_SHARE = 0.45, 0.15
"""Of the time: for trying settings, and for trying the promising ones again. The rest confirms."""
MOST_SETTINGS, MOST_AGAIN, MOST_ROUNDS = 120, 5, 30
"""What a program that is done soon takes: settings, runs of a promising one, rounds of the
confirmation."""
SETTINGS_A_ROUND, AGAIN_A_ROUND = 4, 4
BEST_OF_ROLE = 3
SLOWER = 1.05
"""How much longer than usual a round is taken to last."""
_START_SECONDS = 0.08
"""What a run takes beyond its program's time."""


@dataclass(frozen=True)
class Tuning:
    """``seconds`` is what the runs may take; ``space`` has the baseline, too."""

    program: str
    baseline: str
    space: Space
    seconds: float
    seed: int
    bounds: Bounds


def least_rounds(settings: int) -> int:
    """So many rounds can confirm, at the fewest."""
    return statistics.rounds_needed(error_of(settings, ERROR), rounds.BASELINE_RUNS_A_ROUND)


def next_round(tuning: Tuning, records: Sequence[Record]) -> list[Run]:
    """The runs to do next; empty when all is done. Depends on nothing but its arguments."""
    mine = [record for record in records if record.run.study in (SEARCH, STUDY)]
    searched = [record for record in mine if record.run.study == SEARCH]
    if not searched:
        return [Run(SEARCH, tuning.program, tuning.baseline, 0, 1, warmup=True)]
    if (
        tuning.baseline in failed(searched, tuning.baseline)
        or least_seconds(searched) > tuning.seconds
    ):
        return []
    if len(searched) == len(mine):
        names = _names_to_try(tuning, searched)
        if names or all(record.run.warmup for record in searched):
            return _search_round(tuning, searched, names)
    chosen = finalists(tuning, searched)
    if not chosen:
        return []
    plan = rounds.Plan(
        (tuning.program,),
        (tuning.baseline, *chosen),
        tuning.baseline,
        runs=_rounds(tuning, mine, chosen),
        warmup=0,
        seed=tuning.seed,
    )
    return rounds.next_round(plan, mine, STUDY)


def least_seconds(searched: Sequence[Record]) -> float:
    """What it takes to try a few settings and to confirm the best one."""
    confirming = least_rounds(1) * (rounds.BASELINE_RUNS_A_ROUND + 1)
    trying = rounds.BASELINE_RUNS_A_ROUND + SETTINGS_A_ROUND
    return _run_seconds(searched) * (confirming + trying)


def finalists(tuning: Tuning, searched: Sequence[Record]) -> list[str]:
    """The settings to confirm: the best for each role, but for what looks no better than the
    baseline."""
    ordered = _by_role(tuning, searched)
    best = dict.fromkeys(names[0] for names in ordered if names)
    most = len(ordered)
    left = tuning.seconds - _spent(searched)
    names = list(best)
    while most > 1 and left < least_rounds(most) * _round_seconds(
        searched, tuning.baseline, names[:most]
    ):
        most -= 1
    return names[:most]


def _by_role(tuning: Tuning, searched: Sequence[Record]) -> list[list[str]]:
    seen = seen_of(searched, tuning.baseline)
    limit = tuning.bounds.memory_limit
    base = seen.get(tuning.baseline)
    over = base is not None and limit is not None and base.peak_bytes > limit
    others = [
        each
        for name, each in seen.items()
        if name != tuning.baseline and (over or min(each.time, each.memory) < 1 - TIED)
    ]
    noise = noise_of(searched, tuning.baseline, time_metric(searched, tuning.baseline))
    others = [each for each in others if not _is_needless(each, seen, noise)]
    return [[each.name for each in role(others)] for role in roles(tuning.bounds, noise)]


def _is_needless(setting: Seen, seen: Mapping[str, Seen], noise: float) -> bool:
    """Whether its manager as it is does as well, as far as can be told."""
    plain = seen.get(setting.name.partition("(")[0])
    return (
        plain is not None
        and plain is not setting
        and plain.time <= setting.time * (1 + max(TIED, 2 * noise))
        and plain.memory <= setting.memory * (1 + TIED)
    )


def _names_to_try(tuning: Tuning, searched: Sequence[Record]) -> list[str]:
    """Settings for the next round of the search; none when it is time to confirm."""
    spent = _spent(searched)
    seen = seen_of(searched, tuning.baseline)
    tried = {record.run.manager for record in searched}
    again = any(each.runs > 1 for name, each in seen.items() if name != tuning.baseline)
    cost = _round_seconds(searched, tuning.baseline, [""] * SETTINGS_A_ROUND)
    if not again and len(tried) < MOST_SETTINGS and spent + cost <= SEARCH_SHARE * tuning.seconds:
        known = Known(
            tuning.baseline,
            seen,
            frozenset(failed(searched, tuning.baseline)),
            noise_of(searched, tuning.baseline, time_metric(searched, tuning.baseline)),
            noise_of(searched, tuning.baseline, MEMORY),
        )
        seed = tuning.seed + len(searched)
        if names := proposals(tuning.space, known, SETTINGS_A_ROUND, seed):
            return names
    if spent + cost > (SEARCH_SHARE + AGAIN_SHARE) * tuning.seconds:
        return []
    return _promising(tuning, searched, seen)


def _promising(tuning: Tuning, searched: Sequence[Record], seen: dict[str, Seen]) -> list[str]:
    """Of what looks best for each role, what was run least often. That which was lucky falls back,
    and what stands behind it takes its place."""
    best = {name for names in _by_role(tuning, searched) for name in names[:BEST_OF_ROLE]}
    left = [name for name in best if seen[name].runs < MOST_AGAIN]
    return sorted(left, key=lambda name: (seen[name].runs, name))[:AGAIN_A_ROUND]


def _search_round(tuning: Tuning, searched: Sequence[Record], names: Sequence[str]) -> list[Run]:
    order = max(record.run.order for record in searched)
    done = [record.run.manager for record in searched if not record.run.warmup]
    base = [tuning.baseline] * rounds.BASELINE_RUNS_A_ROUND
    placed = [*base, *names]
    random.Random(f"{tuning.seed}/{len(searched)}").shuffle(placed)
    runs = []
    for name in placed:
        order += 1
        runs.append(Run(SEARCH, tuning.program, name, done.count(name), order))
        done.append(name)
    return runs


def _rounds(tuning: Tuning, mine: Sequence[Record], chosen: Sequence[str]) -> int:
    """As many as the time allows, judged anew after each: a machine that others come to slows
    down."""
    fresh = [record for record in mine if record.run.study == STUDY]
    rounds_done = min(sum(record.run.manager == name for record in fresh) for name in chosen)
    left = max(0.0, tuning.seconds - _spent(mine))
    a_round = _round_seconds(fresh, tuning.baseline, chosen) if rounds_done else 0.0
    a_round = a_round or _round_seconds(mine, tuning.baseline, chosen)
    fitting = rounds_done + int(left / (a_round * SLOWER))
    return max(least_rounds(len(chosen)), min(MOST_ROUNDS, fitting))


def _round_seconds(records: Sequence[Record], baseline: str, others: Sequence[str]) -> float:
    """``others`` that did not run yet are taken to be as fast as most."""
    names = [baseline] * rounds.BASELINE_RUNS_A_ROUND + [*others]
    usual = _run_seconds(records)
    return sum(_run_seconds(records, name) or usual for name in names)


def _run_seconds(records: Sequence[Record], manager: str = "") -> float:
    """The median, under ``manager`` or under all; 0 where no run ended well."""
    times = [
        float(record.outcome.values[WALL])
        for record in records
        if record.outcome.status is Status.OK and manager in ("", record.run.manager)
    ]
    return median(times) + _START_SECONDS if times else 0.0


def _spent(searched: Sequence[Record]) -> float:
    """Seconds that the runs took. One that did not end well has no time of its own: until the next
    one began."""
    spent = 0.0
    for record, after in zip(searched, [*searched[1:], None], strict=True):
        if record.outcome.status is Status.OK:
            spent += float(record.outcome.values[WALL]) + _START_SECONDS
        elif after is not None:
            spent += _between(record, after)
    return spent


def _between(record: Record, after: Record) -> float:
    """Seconds; 0 where a folder from elsewhere does not tell."""
    try:
        begun, ended = (datetime.fromisoformat(each.started) for each in (record, after))
        return max(0.0, (ended - begun).total_seconds())
    except (ValueError, TypeError):
        return 0.0
