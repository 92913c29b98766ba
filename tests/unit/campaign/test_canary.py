"""The canary: when it is visited, what is kept of it, and when a machine is said to drift."""

from __future__ import annotations

import random

import pytest

from tare.campaign import canary
from tare.campaign.canary import drifts
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run

PACE = 0.05


def run_of(program: str, machine: str) -> Record:
    run = Run("compare", program, "glibc", 0, 1, machine=machine)
    return Record(run, Outcome(Status.OK, values={"wall_seconds": 1.0}))


def visit(
    seconds: float, earlier: list[Record], machine: str = "", status: Status = Status.OK
) -> list[Record]:
    """A visit whose fastest run took ``seconds``."""
    outcomes = [
        Outcome(status, values={"wall_seconds": seconds * times} if status is Status.OK else {})
        for times in (1.4, 1.0, 1.1)
    ]
    return canary.records_of(outcomes, "2026-05-04T12:00:00.000+00:00", earlier, machine, "")


def study(paces: list[float], machine: str = "") -> list[Record]:
    """Two runs, of the programs a and b, after each visit."""
    records: list[Record] = []
    for pace in paces:
        records += visit(pace, records, machine)
        records += [run_of("a", machine), run_of("b", machine)]
    return records


def noisy(count: int, deviation: float, seed: int) -> list[float]:
    noise = random.Random(seed)
    return [PACE * (1 + noise.gauss(0, deviation)) for _ in range(count)]


def test_a_steady_machine_is_not_suspected() -> None:
    assert drifts(study([PACE] * 20)) == []
    assert drifts(study([PACE * (1.04 if n == 9 else 1) for n in range(20)])) == []


@pytest.mark.parametrize("deviation", [0.01, 0.05, 0.2])
def test_noise_is_no_drift(deviation: float) -> None:
    """Of 200 studies with 50 visits each, few are suspected of what is but noise."""
    suspected = sum(bool(drifts(study(noisy(50, deviation, seed)))) for seed in range(200))
    assert suspected <= 8


@pytest.mark.parametrize("deviation", [0.0, 0.01, 0.03])
def test_a_slower_half_is_seen_despite_noise(deviation: float) -> None:
    paces = [
        pace * (1.4 if number >= 26 else 1.0)
        for number, pace in enumerate(noisy(50, deviation, seed=5))
    ]
    (drift,) = drifts(study(paces))
    assert drift.times == pytest.approx(1.4, rel=0.1)
    assert drift.usual_seconds == pytest.approx(PACE, rel=0.1)
    # From the last visit that was as usual: two runs lie between, and two after each visit.
    assert drift.runs == {"a": 25, "b": 25}


def test_a_slow_drift_is_seen() -> None:
    assert drifts(study([PACE * (1 + n / 100) for n in range(40)]))


def test_machines_are_judged_apart() -> None:
    fast, slow = study([PACE] * 9, "fast"), study([2 * PACE] * 9, "slow")
    mixed = [record for pair in zip(fast, slow, strict=True) for record in pair]
    assert drifts(mixed) == []
    broken = study([*[PACE] * 5, 3 * PACE, *[PACE] * 4], "broken")
    (drift,) = drifts([*mixed, *broken])
    assert drift.machine == "broken"
    assert drift.runs.total() == 4
    (told,) = canary.warnings([*mixed, *broken])
    assert "changed on broken: from 2026-05-04 12:00 UTC on" in told
    assert "took 3.00 times its usual 50.0 ms" in told
    assert "a (2), b (2)" in told


def test_too_few_visits_say_nothing() -> None:
    assert drifts(study([PACE, PACE, PACE, 3 * PACE])) == []
    assert drifts([]) == []


def test_a_visit_that_failed_is_left_out() -> None:
    records = study([PACE] * 6)
    records += visit(0.0, records, status=Status.FAILED)
    assert drifts(records) == []


def test_visits_take_little_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 59.0, 60.0, 100.0, 349.0, 350.0])
    monkeypatch.setattr("tare.campaign.canary.time.monotonic", lambda: next(times))
    clock = canary.Clock()
    assert [clock.due(), clock.due()] == [False, True]
    clock.visited(5.0)  # at 100: next at 100 + 5 / 2%
    assert [clock.due(), clock.due()] == [False, True]
