"""Events of native programs and collections of the layer, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.base.errors import UsageError
from tare.campaign.session import programs_of
from tare.memory_managers.layers import marksweep
from tare.memory_managers.runtimes import Pause
from tare.memory_managers.runtimes import Process as OfRuntime
from tare.studies.proximity.analysis import (
    COLLECTION,
    EVERYWHERE,
    KINDS,
    OTHER,
    Events,
    Halts,
    Recorded,
    halts,
)
from tare.studies.proximity.observe import EVENTS_VARIABLE, Left, Pauses, Told, halts_of_layer
from tare.studies.proximity.periods import chosen_periods, rounded_period, with_option

# ---- which stops count ----


def layer_process(
    pid: int,
    collections: Sequence[dict[str, int]],
    pauses: Sequence[dict[str, int]] = (),
    **counts: int,
) -> marksweep.Process:
    kind = marksweep._record_type()

    def rows(given: Sequence[dict[str, int]]) -> Any:
        made = np.zeros(len(given), kind)
        for place, each in enumerate(given):
            for name, value in each.items():
                made[name][place] = value
        return made

    numbers = {field.name: counts.get(field.name, 0) for field in fields(marksweep.Counts)}
    return marksweep.Process(
        pid,
        False,
        ("m", "f"),
        marksweep.Counts(**numbers),
        rows(collections),
        rows(pauses),
        rows([]),
    )


ONE = {"begin": 100, "end": 200, "released": 250, "kind": 1, "thread": 5}
SPUN = {"begin": 300, "end": 310, "kind": 8, "thread": 5}
STOPPED = {"begin": 400, "end": 410, "kind": 32, "thread": 5}


def rows_of(stops: Halts) -> list[tuple[int, int, str, int]]:
    kinds = [KINDS[kind] for kind in stops.kind.tolist()]
    return list(
        zip(stops.start.tolist(), stops.end.tolist(), kinds, stops.thread.tolist(), strict=True)
    )


def test_what_stops_the_threads_of_a_process() -> None:
    process = layer_process(1, [ONE], [SPUN, STOPPED], most_threads=3)
    assert rows_of(halts_of_layer([process], serves=False)) == [
        (100, 200, COLLECTION, EVERYWHERE),
        (300, 310, "spin", 5),
        (400, 410, "stop", EVERYWHERE),
    ]


def test_a_server_is_away_until_all_is_released() -> None:
    process = layer_process(1, [ONE], [SPUN], most_threads=3)
    assert rows_of(halts_of_layer([process], serves=True)) == [
        (100, 250, COLLECTION, EVERYWHERE),
        (300, 310, "spin", EVERYWHERE),
    ]
    alone = layer_process(1, [ONE])
    assert rows_of(halts_of_layer([alone], serves=False)) == [(100, 250, COLLECTION, EVERYWHERE)]


def recorded(count: int, thread: int, server: int = 0) -> Recorded:
    start = 1000 + 10 * np.arange(count) + thread
    ones = np.ones(count, np.int64)
    events = Events(start, 5 * ones, 0 * ones, ones, thread * ones)
    return Recorded(events, halts([]), 1, 2, server)


def test_events_of_the_clients_of_one_server_belong_together() -> None:
    late = 1_000_000
    server = layer_process(30, [{"begin": late, "end": late + 1, "released": late + 2}])
    client = layer_process(10, [{"begin": late + 10, "end": late + 11, "released": late + 12}])
    left = Left(
        {10: recorded(300, 1, 30), 11: recorded(300, 2, 30), 40: recorded(500, 3)},
        [],
        [server, client],
    )
    seen = Told().seen(left)
    assert np.unique(seen.events.thread).tolist() == [1, 2]
    assert (np.diff(seen.events.start) >= 0).all()
    assert rows_of(seen.stops) == [
        (late, late + 2, COLLECTION, EVERYWHERE),
        (late + 10, late + 12, OTHER, EVERYWHERE),
    ]
    assert seen.dropped == 4


def test_a_runtime_shows_its_pauses() -> None:
    pauses = (Pause(5000, 5100, "", 1), Pause(6000, 6100, "", -1))
    process = OfRuntime(10, "1", "v8", None, True, (), pauses, 0, 0)
    seen = Told().seen(Left({10: recorded(600, 1)}, [], [process]))
    assert rows_of(seen.stops) == [
        (5000, 5100, COLLECTION, EVERYWHERE),
        (6000, 6100, OTHER, EVERYWHERE),
    ]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (Left(), "wrote no events"),
        (Left({10: recorded(600, 1)}), "did not report its collections"),
        (Left({10: recorded(100, 1)}, [], [layer_process(10, [])]), "only 50 events"),
    ],
)
def test_nothing_to_analyse(left: Left, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Told().seen(left)


def test_what_the_program_is_told(tmp_path: Path) -> None:
    (program,) = programs_of(["true"])
    plain = Told().prepared(program, tmp_path, Pauses())
    assert plain.environment == {EVENTS_VARIABLE: str(tmp_path)}
    paused = Told().prepared(program, tmp_path, Pauses(0, 500))
    assert paused.environment[marksweep.PAUSE_VARIABLE] == "500"


# ---- as many collections as are asked for ----


@dataclass(frozen=True)
class Measured:
    """Results as far as they are looked at."""

    measurements: Any
    folder: Path = Path("results")


def pilot(pauses: int) -> Callable[[Sequence[str]], Any]:
    import polars

    def measure(names: Sequence[str]) -> Measured:
        rows = [{"manager": name, "metric": "pauses", "value": float(pauses)} for name in names]
        return Measured(polars.DataFrame(rows))

    return measure


def test_periods_for_numbers_of_collections() -> None:
    found = chosen_periods(["jvm.serial", "marksweep(glibc)"], [1000, 10], pilot(64))
    assert [(each.manager, each.base, each.collections) for each in found] == [
        ("jvm.serial(period=104832KiB)", "jvm.serial", 10),
        ("jvm.serial(period=1MiB)", "jvm.serial", 1000),
        ("marksweep(glibc, every=6528KiB)", "marksweep(glibc)", 10),
        ("marksweep(glibc, every=64KiB)", "marksweep(glibc)", 1000),
    ]
    with pytest.raises(UsageError, match="cannot collect every"):
        chosen_periods(["marksweep(glibc)"], [100_000], pilot(64))


def test_names_with_one_more_option() -> None:
    assert with_option("jvm.serial", "period", 1 << 20) == "jvm.serial(period=1MiB)"
    found = with_option("marksweep(glibc, free=honour)", "every", 4096)
    assert found == "marksweep(glibc, free=honour, every=4KiB)"
    assert rounded_period("jvm.parallel", 10_000_000) == 19 << 19
