"""The recorder's own parts under sanitizers, which stand for malloc themselves: what many threads
tell it at once is what its files have."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import ROOT

HERE = Path(__file__).resolve().parent
FLAGS = [
    *("-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{HERE}"),
    *(f"-I{ROOT / 'observers' / 'recorder'}", f"-I{ROOT / 'managers' / 'preload'}"),
]
PAGE_BYTES = 4096
ENDLESS = 1 << 40

OF_EVENT = ["kind", "moved", "address", "bytes", "usable", "alignment", "call"]
ROW = np.dtype([(name, np.uint64) for name in ("thread", *OF_EVENT)])
DEATH, SKIPPED = 1, 7
NOTHING_LOST, NO_ROOM = 0, 1
MAKER_OF_HANDLERS = 3000

Rows = np.ndarray[Any, Any]


def maker(rows: Rows) -> Rows:
    found: Rows = (rows["address"] >> np.uint64(32)) - np.uint64(1)
    return found


def number(rows: Rows) -> Rows:
    found: Rows = rows["address"] % np.uint64(1 << 32) // np.uint64(16)
    return found


def compiled(path: Path, *flags: str) -> Path:
    subprocess.run(["c++", *FLAGS, *flags, "-o", path, HERE / f"{path.name}.cpp"], check=True)
    return path


class Recorded:
    """What a harness left in ``folder``."""

    def __init__(self, harness: Path, reader: Path, folder: Path, *words: object) -> None:
        folder.mkdir()
        (folder / "switch").write_bytes(bytes(PAGE_BYTES))
        done = subprocess.run(
            [harness, folder, *map(str, words)],
            capture_output=True,
            text=True,
            env={**os.environ, "TSAN_OPTIONS": "die_after_fork=0"},
        )
        # What ThreadSanitizer says in a child, of threads that are only the parent's, is no error.
        assert done.returncode == 0, done.stderr[:6000]
        self.folder = folder
        stem, handled = done.stdout.split()
        self.main, self.handled = Path(stem).name, int(handled)
        self.told, self.read, self.headers = {}, {}, {}
        for told in sorted(folder.glob("*.told")):
            self.told[told.stem] = np.fromfile(told, ROW)
            said = subprocess.run(
                [reader, told.with_suffix("")], capture_output=True, text=True, check=True
            )
            self.headers[told.stem] = json.loads(said.stdout)
            self.read[told.stem] = np.fromfile(told.with_suffix(".read"), ROW)

    def check_headers(self, loss: int = NOTHING_LOST) -> None:
        assert len(self.headers) == 1 + 12
        for stem, header in self.headers.items():
            is_main = stem == self.main
            expected = {"magic": 1, "loss": loss if is_main else NOTHING_LOST, "ending": 1}
            expected |= {"forked": int(not is_main), "missed": 0, "damaged": 0}
            assert header | expected == header, stem

    def take_handlers(self) -> None:
        """Each of the signals that arrived is one event, whomever its handler interrupted."""
        for stem, rows in self.read.items():
            of_handlers = maker(rows) == MAKER_OF_HANDLERS
            numbers = np.sort(number(rows[of_handlers]))
            expected = self.handled if stem == self.main else 0
            assert numbers.tolist() == list(range(expected))
            self.read[stem] = rows[~of_handlers]

    def check_order(self) -> None:
        """An object is born once, and dies once, and later, whoever does it."""
        for rows in self.read.values():
            rows = rows[rows["kind"] != SKIPPED]
            is_death = rows["kind"] == DEATH
            places = np.arange(len(rows))
            born = dict(zip(rows["address"][~is_death].tolist(), places[~is_death], strict=True))
            died = dict(zip(rows["address"][is_death].tolist(), places[is_death], strict=True))
            assert len(born) + len(died) == len(rows)
            assert all(born.get(address, -1) < place for address, place in died.items())


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("reader") / "recorder_reader", "-O1")


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def harness(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return compiled(
        tmp_path_factory.mktemp("harness") / "recorder_harness",
        f"-fsanitize={request.param}",
        "-fno-sanitize-recover=all",
    )


@pytest.mark.parametrize(
    ("seed", "stacks", "snapshots"), [(1, "no", "no"), (2, "yes", "no"), (3, "yes", "yes")]
)
def test_what_threads_tell_is_what_is_read(
    tmp_path: Path, harness: Path, reader: Path, seed: int, stacks: str, snapshots: str
) -> None:
    recorded = Recorded(
        harness, reader, tmp_path / "recorded", 6, 10_000, seed, 0, stacks, snapshots, ENDLESS
    )
    recorded.check_headers()
    recorded.take_handlers()
    recorded.check_order()
    for stem, told in recorded.told.items():
        read = recorded.read[stem]
        assert len(read) == len(told) > (100_000 if stem == recorded.main else 300)
        # Those that have ended share a record: of each of them its order is kept.
        of_told = np.argsort(told["thread"], kind="stable")
        of_read = np.argsort(read["thread"], kind="stable")
        told, read = told[of_told], read[of_read]
        last = told["thread"] == 0
        assert np.array_equal(told[~last], read[~last])
        assert np.array_equal(np.sort(told[last]), np.sort(read[last]))
        assert stem != recorded.main or last.sum() > 100


def test_what_a_sample_passes_over_is_counted(tmp_path: Path, harness: Path, reader: Path) -> None:
    recorded = Recorded(
        harness, reader, tmp_path / "recorded", 6, 10_000, 4, 20_000, "yes", "no", ENDLESS
    )
    recorded.check_headers()
    recorded.take_handlers()
    recorded.check_order()
    told, read = recorded.told[recorded.main], recorded.read[recorded.main]
    births = told["kind"] != DEATH
    by_address = {row["address"]: row for row in told[births]}
    deaths = {row["address"]: row for row in told[~births]}
    sampled = read[(read["kind"] != DEATH) & (read["kind"] != SKIPPED)]
    assert 0 < len(sampled) < births.sum() / 2
    for row in sampled:
        assert row[OF_EVENT] == by_address[row["address"]][OF_EVENT]
    dead = read["address"][read["kind"] == DEATH].tolist()
    assert set(dead) == set(sampled["address"].tolist()) & set(deaths)
    # All that was born passed, or was sampled.
    skipped = read["bytes"][read["kind"] == SKIPPED].sum()
    assert skipped + sampled["bytes"].sum() == told["bytes"][births].sum()


def test_what_was_told_until_there_was_no_room_is_read(
    tmp_path: Path, harness: Path, reader: Path
) -> None:
    recorded = Recorded(
        harness, reader, tmp_path / "recorded", 6, 10_000, 5, 0, "no", "no", 300_000
    )
    recorded.check_headers(NO_ROOM)
    told, read = recorded.told[recorded.main], recorded.read[recorded.main]
    read = read[maker(read) != MAKER_OF_HANDLERS]
    assert 1000 < len(read) < len(told)
    for thread in np.unique(read["thread"]):
        of_thread = read[read["thread"] == thread]
        if thread != 0:  # as which those tell that came too late for a record
            assert np.array_equal(of_thread, told[told["thread"] == thread][: len(of_thread)])
