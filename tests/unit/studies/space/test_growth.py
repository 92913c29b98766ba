"""Growth is told from a plateau, in all and by call site."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tare.heap_traces import growth
from tests.unit.studies.space.support import one_process, trace_rows

STEPS = np.arange(growth.STEPS)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (STEPS * 1000, growth.GROWS),
        (STEPS * 1000 + 20_000 * (STEPS % 3), growth.GROWS),
        (STEPS**2 * 10, growth.GROWS),
        (np.minimum(STEPS, 30) * 3000, growth.PLATEAU),
        (np.full(len(STEPS), 90_000), growth.PLATEAU),
        (90_000 * (STEPS % 10) // 10, growth.PLATEAU),
        (90_000 - STEPS * 900, growth.PLATEAU),
        (90_000 * (1 - np.exp(-STEPS / 30.0)), growth.LEVELS_OFF),
        (STEPS, growth.PLATEAU),
    ],
    ids="line sawtooth-on-a-line square ramp flat sawtooth falling saturating tiny".split(),
)
def test_growth_is_told_from_a_plateau(levels: Any, expected: str) -> None:
    assert growth.trend(levels, 96_000) == expected


def test_noise_around_a_level_seldom_grows() -> None:
    random = np.random.default_rng(1)
    noisy = [50_000 + 20_000 * random.standard_normal(len(STEPS)) for _ in range(500)]
    grown = sum(growth.trend(each, 96_000) != growth.PLATEAU for each in noisy)
    assert grown <= 0.02 * len(noisy)


def test_levels_and_leaks_by_site() -> None:
    rows = []
    for number in range(960):
        leaks = number % 2 == 0
        rows.append((number + 1, 64 * (number + 1), None if leaks else number + 3, 100))
    frame = trace_rows(rows).with_columns(
        free_bytes=pl.when(pl.col("free_nanoseconds").is_not_null()).then(
            pl.col("birth_bytes") + 200
        )
    )
    process = one_process(len(rows), 96_000)
    found = growth.growth(frame.lazy(), process, 50_000)
    assert [(site["site"], site["kind"]) for site in found["sites"]] == [(1, growth.GROWS)]
    assert found["growing_sites"] == 1
    ((leak),) = found["never_freed"]
    assert (leak["site"], leak["never_freed_bytes"]) == (1, 48_000)
    assert found["levels"][-1] - found["levels"][0] == pytest.approx(48_000 * 95 / 96, abs=300)
    assert sum(np.diff(found["sites"][0]["levels"]) < 0) == 0


@pytest.mark.parametrize("period", [13, 49, 97, 99, 100, 101, 193, 700])
@pytest.mark.parametrize("kept", [0, 1])
def test_what_each_round_frees_does_not_grow(period: int, kept: int) -> None:
    """Rounds of nearly a step each: their samples climb as slowly as a leak does."""
    objects, size = 9600, 100
    rows, frees = [], []
    for number in range(objects):
        last = min((number // period + 1) * period, objects)
        is_kept = kept and number % period == 0
        rows.append((number + 1, 128 * (number + 1), None if is_kept else last + 1, size))
        frees.append(None if is_kept or last == objects else last * size)
    frame = trace_rows(rows).with_columns(
        site=pl.lit(1, pl.UInt32), free_bytes=pl.Series(frees, dtype=pl.UInt64)
    )
    found = growth.growth(frame.lazy(), one_process(objects, objects * size), period * size)
    assert [site["kind"] for site in found["sites"]] == [growth.GROWS] * kept
