"""Runs that other tools did, as results."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tare as api
from tare.__main__ import run as tare_command
from tare.answers.exports.formats import to_perfetto
from tare.answers.exports.traces import to_dhat
from tare.base.errors import UsageError
from tare.heap_traces.trace import open_trace
from tare.importing.dacapo_latency import POINTS, tail_latencies
from tare.importing.runs import format_of, import_runs
from tare.records.results import Results, load
from tests.support.traces import objects_frame, write_trace_folder


def imported(path: Path, target: Path) -> Results:
    chosen = format_of(path)
    assert chosen is not None
    return import_runs(path, chosen, target)


def values(results: Results, **wanted: str) -> dict[str, list[float]]:
    """By metric, of good runs."""
    rows = results.measurements.filter(pl.col("status") == "ok", **wanted).sort("order")
    return {
        str(metric): part["value"].to_list()
        for (metric,), part in rows.group_by("metric", maintain_order=True)
    }


PROLOGUE = "\n-----\nmkdir -p PLOTTY_WORKAROUND; timedrun;  java -jar dacapo.jar fop\n"


def test_logs_that_are_cut_off_or_unusual(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    passed = PROLOGUE + "===== DaCapo fop PASSED in 1000 msec =====\n"
    whole = gzip.compress((passed + PROLOGUE + passed).encode(), mtime=0)
    (logs / "fop.2000.40.jdk.a.b.dacapo.log.gz").write_bytes(whole)
    (logs / "fop.0.0.jdk.a.c.dacapo.log").write_text(passed)
    (logs / "fop.0.0.jdk.a.d.dacapo.log.gz").write_bytes(whole[:-6])
    (logs / "pmd.0.0.jdk.a.c.other.log").write_text("nothing")
    (logs / "runbms.yml").touch()
    results = imported(logs, tmp_path / "results")
    rows = results.measurements.select("program", "manager", "status").rows()
    assert rows.count(("dacapo fop", "jdk.a.b (heap=2x)", "ok")) == 2
    assert rows.count(("dacapo fop", "jdk.a.b (heap=2x)", "failed")) == 1
    assert rows.count(("dacapo fop", "jdk.a.c", "ok")) == 1
    (missing,) = results.document["imported"]["missing"]
    assert missing.startswith("fop.0.0.jdk.a.d.dacapo.log.gz: it cannot be read to its end")
    with pytest.raises(UsageError, match="already has runs"):
        imported(logs, tmp_path / "results")


# ---- DaCapo's latencies ----


def test_latencies_are_those_that_dacapo_prints(tmp_path: Path) -> None:
    dice = random.Random(5)
    simple = [(start, start + dice.randrange(1, 9000)) for start in range(1, 30_000, 10)]
    lines = [*(f"{a}, {b}, {a % 4}" for a, b in simple), "0, 0, 0"]
    (tmp_path / "dacapo-latency-usec-simple-4.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "dacapo-latency-usec-simple-3.csv").write_text("1, 2\n")
    (tmp_path / "dacapo-latency-usec-metered-4.csv").write_text("5, 25\n")
    (tmp_path / "dacapo-latency-usec-metered-100ms-smoothing-4.csv").write_text("5, 99\n")
    found = values(imported(tmp_path, tmp_path / "results"))
    # As LatencyReporter.printLatency of its harness chooses them.
    ordered = sorted(end - start for start, end in simple)
    count = len(ordered)
    chosen = {
        "50%": ordered[count - 1 - count * 50 // 100],
        **{f"{nines}%": ordered[count - 1 - count // rarity]
           for nines, rarity in (("90", 10), ("99", 100), ("99.9", 1000), ("99.99", 10_000))},
        "max": ordered[-1],
    }  # fmt: skip
    points = ", ".join(f"{name} {value} usec" for name, value in chosen.items())
    line = f"===== DaCapo simple tail latency: {points}, measured over {count} events ====="
    printed = tail_latencies(line)
    assert len(printed) == len(POINTS)
    assert {name: found[name] for name in printed} == {n: [v] for n, v in printed.items()}
    assert found["metered_latency_max_seconds"] == [20e-6]


@pytest.mark.parametrize(
    "text", ["", "a, b\n", "5, 3\n", "1\n", "1, 2\n\xff, 3\n", "1, 2\n, 3\n", "1, 2\n3,\n"]
)
def test_files_of_latencies_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dacapo-latency-usec-simple-0.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"latencies|requests"):
        imported(path, tmp_path / "results")
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("has_threads", [True, False])
def test_latencies_become_a_timeline(tmp_path: Path, has_threads: bool) -> None:
    dice = random.Random(3)
    requests = []
    for thread in range(3):
        at = 50_000 + thread
        for _ in range(3000):
            requests.append((at, at + dice.randrange(1, 40), thread))
            at = requests[-1][1] + dice.randrange(3)
    slowest = (requests[4000][1], requests[4000][1] + 500, 1)
    requests = [r for r in requests if r[2] != 1 or r[1] <= slowest[0] or r[0] >= slowest[1]]
    requests.append(slowest)
    lines = [", ".join(map(str, r if has_threads else r[:2])) for r in requests]
    (tmp_path / "dacapo-latency-usec-simple-1.csv").write_text("\n".join(lines) + "\n")
    results = imported(tmp_path, tmp_path / "results")
    rows = to_perfetto(results)["traceEvents"]
    slices = [row for row in rows if row["ph"] == "X"]
    assert len(slices) == 5000
    # The 5,000 requests in a row around the slowest, with their times.
    ordered = sorted(requests)
    begin = min(range(len(ordered)), key=lambda n: abs(n + 2500 - ordered.index(slowest)))
    expected = ordered[begin : begin + 5000]
    origin = expected[0][0]
    assert sorted((row["ts"], row["dur"]) for row in slices) == sorted(
        (start - origin, end - start) for start, end, _ in expected
    )
    names = {row["tid"]: row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    tracks = {names[row["tid"]] for row in slices}
    word = "thread" if has_threads else "track"
    assert tracks == {f"{word} {n}" for n in (range(3) if has_threads else range(1, 4))}
    for track in {row["tid"] for row in slices}:
        mine = sorted((row["ts"], row["ts"] + row["dur"]) for row in slices if row["tid"] == track)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(mine))


def test_metered_latencies_alone_have_no_timeline(tmp_path: Path) -> None:
    (tmp_path / "dacapo-latency-usec-metered-1.csv").write_text("5, 25, 0\n6, 30, 1\n")
    with pytest.raises(UsageError, match="no timeline"):
        to_perfetto(imported(tmp_path, tmp_path / "results"))


def test_what_was_exported_is_imported(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"birth": 0, "size": 100, "free": 50, "site": 1},
        {"birth": 10, "size": 30, "site": 2},
        {"birth": 60, "size": 90, "free": 100, "site": 1},
    ]
    write_trace_folder(tmp_path / "made.tare", objects_frame(rows), end_instructions=200)
    (tmp_path / "dhat.json").write_bytes(to_dhat(open_trace(tmp_path / "made.tare"), "bytes"))
    found = values(imported(tmp_path / "dhat.json", tmp_path / "results"))
    assert found["objects"] == [3]
    assert found["allocated_bytes"] == [220]
    assert found["max_live_bytes"] == [130]


def test_damaged_profiles_are_refused_or_read(tmp_path: Path) -> None:
    place = {"tb": 10, "tbk": 1, "tl": 5, "gb": 10, "gbk": 1, "eb": 0, "rb": 1, "wb": 1, "fs": [1]}
    document = {"dhatFileVersion": 2, "mode": "heap", "tu": "instrs", "cmd": "p", "te": 9,
                "pps": [place], "ftbl": ["[root]", "0x1: f (a.c:1)"]}  # fmt: skip
    text = json.dumps(document)
    path = tmp_path / "dhat.json"
    dice = random.Random(3)
    refused = 0
    for number in range(200):
        cut, end = sorted(dice.randrange(20, len(text)) for _ in range(2))
        filling = dice.choice(["", "null", "[]", '"x"', "-1", "1e999", "{}", "9" * 400])
        path.write_text(text[:cut] + filling + text[end:] if number else text)
        try:
            imported(path, tmp_path / f"results-{number}")
        except UsageError:
            refused += 1
            assert not (tmp_path / f"results-{number}").exists()
    assert 100 < refused < 200


@pytest.mark.parametrize("number", [True, 1 << 64, int("9" * 400)], ids=["true", "large", "huge"])
def test_a_profile_with_numbers_that_cannot_be(tmp_path: Path, number: int) -> None:
    path = tmp_path / "dhat.json"
    document = {"dhatFileVersion": 2, "mode": "heap", "tu": "instrs", "cmd": "p", "te": number,
                "pps": [], "ftbl": []}  # fmt: skip
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="in place of a number"):
        imported(path, tmp_path / "results")


# ---- the command ----


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    passed = PROLOGUE + "===== DaCapo fop PASSED in 1000 msec =====\n"
    Path("logs/fop.0.0.jdk.a.dacapo.log").write_text(passed * 2)
    assert tare_command(["import", "logs", "-o", "results"]) == 0
    output = capsys.readouterr().out
    assert "tare import: fop" in output
    assert "not by Tare" in output
    assert Path("results/report.html").exists()
    assert api.export_text(load(Path("results")), "bencher").count('"value": 1.0') == 1
    assert tare_command(["import", "logs", "-o", "other", "--force"]) == 2
    Path("logs/fop.0.0.jdk.b.dacapo.log").write_text(PROLOGUE)
    assert tare_command(["import", "logs", "-o", "third", "--quiet"]) == 1
