"""Dumps of heaps, which real programs wrote: tests/support/dumps/README.md says how."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tare.__main__ import run as tare_command
from tare.answers.building import build_report
from tare.answers.explorer.call_trees import call_trees
from tare.base.errors import UsageError
from tare.heap_traces.frames import site_text
from tare.heap_traces.recording import Frame
from tare.importing import dumps
from tare.importing.dumps import Dump, Modules, Site, SizeClass, attributed
from tare.importing.runs import format_of, import_runs
from tare.records.results import Results, read_records
from tare.report.page import render_page
from tests.support import ROOT
from tests.unit.importing.test_runs import imported, values

DUMPS = ROOT / "tests/support/dumps"
KEPT = ["flight.json.gz", "go.pb.gz", "gperftools.heap", "java.collapsed", "jemalloc.heap",
        "malloc_info.xml", "memray.csv", "statistics.json.gz"]  # fmt: skip


@pytest.fixture(autouse=True)
def names_looked_up_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs are gone, and other machines have other libraries."""
    monkeypatch.setattr(dumps, "unfold", lambda frames: [[frame] for frame in frames])


def dump(results: Results) -> dict[str, Any]:
    (record,) = read_records(results.folder)
    found: dict[str, Any] = record.outcome.details["dump"]
    return found


def by_site(results: Results, name: str) -> dict[str, int]:
    """By the names of the innermost frame of the program."""
    found: dict[str, int] = {}
    for site in dump(results)["sites"]:
        text = site_text(site["frames"])
        found[text] = found.get(text, 0) + site[name]
    return found


def one_value(results: Results) -> dict[str, float]:
    return {name: value for name, (value,) in values(results).items()}


def test_a_profile_of_jemalloc(tmp_path: Path) -> None:
    results = imported(DUMPS / "jemalloc.heap", tmp_path / "r")
    text = (DUMPS / "jemalloc.heap").read_text()
    # As jeprof scales what was sampled.
    expected = 0.0
    for objects, size in re.findall(r"@.*\n  t\*: (\d+): (\d+) ", text):
        expected += int(size) / (1 - math.exp(-int(size) / int(objects) / 524288))
    assert one_value(results)["live_bytes"] == pytest.approx(expected, abs=1)
    assert results.run.imported is not None
    assert results.run.imported.notes[0].startswith("Objects were sampled, one each 512 KiB")
    assert results.run.programs[0].name == "slabs"
    assert any("slabs+0x" in site for site in by_site(results, "live_bytes"))


def test_statistics_of_jemalloc(tmp_path: Path) -> None:
    found = one_value(imported(DUMPS / "statistics.json.gz", tmp_path / "r"))
    document = json.loads(gzip.decompress((DUMPS / "statistics.json.gz").read_bytes()))
    stats = document["jemalloc"]["stats"]
    assert found["live_bytes"] == stats["allocated"]
    assert found["heap_resident_bytes"] == stats["resident"]
    # Pages with objects, less the objects: what slabs have free, and the rounding of large objects.
    unused = stats["active"] - stats["allocated"]
    assert found["external_bytes"] == pytest.approx(unused, rel=0.03)


def test_free_cells_by_site(tmp_path: Path) -> None:
    chosen = format_of(DUMPS / "jemalloc.heap")
    assert chosen is not None
    statistics = DUMPS / "statistics.json.gz"
    results = import_runs(DUMPS / "jemalloc.heap", chosen, tmp_path / "r", statistics=statistics)
    found = one_value(results)
    assert found["charged_external_bytes"] >= 0.95 * found["external_bytes"]
    charged = [site["external"] for site in dump(results)["sites"] if site["external"]]
    assert sum(charged) == pytest.approx(found["charged_external_bytes"], abs=len(charged))
    (tree,) = call_trees(results, lambda _: None)
    assert tree.weights[1].title == "free cells beside its objects, estimated"
    section = build_report(results).sections[0]
    assert any("keep most free cells, by estimate" in text for text in section.findings)
    titles = [table.title for table in section.tables]
    assert "Who keeps free cells in slabs, estimated" in titles
    assert "Size classes" in titles


def test_a_profile_of_gperftools(tmp_path: Path) -> None:
    found = one_value(imported(DUMPS / "gperftools.heap", tmp_path / "r"))
    assert found == {
        "live_bytes": 500_000,
        "live_objects": 5000,
        "allocated_bytes": 5_500_000,
        "objects": 10_000,
    }


def test_a_profile_of_go(tmp_path: Path) -> None:
    results = imported(DUMPS / "go.pb.gz", tmp_path / "r")
    live, allocated = by_site(results, "live_bytes"), by_site(results, "bytes")
    keeping = next(site for site in live if "keep" in site)
    dropping = next(site for site in live if "drop" in site)
    # As `go tool pprof -top` prints them: 5.12 MB (4.97 MiB).
    assert live[keeping] == pytest.approx(5000 * 1024, rel=0.1)
    assert allocated[dropping] == pytest.approx(3000 * 4096, rel=0.1)
    assert live[dropping] < 0.01 * live[keeping]
    assert list(results.run.managers) == ["go"]


def test_arenas_of_glibc(tmp_path: Path) -> None:
    found = one_value(imported(DUMPS / "malloc_info.xml", tmp_path / "r"))
    assert found["obtained_bytes"] == found["live_bytes"] + found["free_bytes"]
    assert found["live_bytes"] == pytest.approx(5000 * 2016 + (1 << 20), rel=0.02)
    assert found["arenas"] == 1


def test_java(tmp_path: Path) -> None:
    sampled = by_site(imported(DUMPS / "java.collapsed", tmp_path / "a"), "bytes")
    assert set(sampled) >= {"Held.drop ← Held.main", "Held.keep ← Held.main"}
    recorded = imported(DUMPS / "flight.json.gz", tmp_path / "b")
    assert any("Held.drop" in site for site in by_site(recorded, "bytes"))
    found = one_value(recorded)
    assert found["obtained_bytes"] >= found["live_bytes"] > 0


def test_python(tmp_path: Path) -> None:
    results = imported(DUMPS / "memray.csv", tmp_path / "r")
    # As `memray stats` says: 6.110 MB at the peak.
    assert one_value(results)["max_live_bytes"] == pytest.approx(6.110 * (1 << 20), rel=0.08)
    first = max(by_site(results, "live_bytes").items(), key=lambda entry: entry[1])
    assert first[0].startswith("<listcomp> (held.py:")
    assert first[1] == pytest.approx(2000 * 3001, rel=0.01)


@pytest.mark.parametrize("name", KEPT)
def test_each_has_a_page(tmp_path: Path, name: str) -> None:
    page = render_page(build_report(imported(DUMPS / name, tmp_path / "r")))
    assert "What was imported" in page


@pytest.mark.parametrize("name", KEPT)
def test_damaged_dumps_are_read_or_refused(tmp_path: Path, name: str) -> None:
    """Each of many damages: never another error than UsageError, with the file's name."""
    whole = (DUMPS / name).read_bytes()
    text = gzip.decompress(whole) if name.endswith(".gz") else whole
    dice, refused = random.Random(7), 0
    path = tmp_path / name
    for number in range(60):
        at = dice.randrange(len(text))
        end = min(len(text), at + dice.choice([1, 2, 40, len(text)]))
        filling = dice.choice([b"", b"\0", b"\xff\xff", b"-1", b"9" * 30, b'"', b"<", b"[[", b"\n"])
        damaged = text[:at] + filling + text[end:]
        path.write_bytes(gzip.compress(damaged, mtime=0) if name.endswith(".gz") else damaged)
        if format_of(path) is None:
            refused += 1
            continue
        reason = reason_of_refusal(path, tmp_path / f"r{number}")
        assert not reason or name in reason or "holds no object" in reason
        refused += bool(reason)
    assert refused > 5


def reason_of_refusal(path: Path, target: Path) -> str:
    try:
        imported(path, target)
    except UsageError as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("name", "text", "line", "what"),
    [
        ("a.heap", "heap_v2/524288\n  t*: 1: 2 [0: 0]\n@ 0x1\nnothing\n", 4, "neither a stack"),
        ("a.heap", "heap_v2/524288\n@ 0x1\n  t*: 1: 2 [0: 0]\n", 4, "cut off"),
        ("a.heap", "heap_v2/524288\n@ 0x1\n  t*: 9999999999999999999: 2 [0: 0]\n", 3, "too large"),
        ("a.heap", "heap_v2/1\n\nMAPPED_LIBRARIES:\nx\n", 4, "not a mapped file"),
        ("a.json", '{"jemalloc": {\n"stats": }', 2, "not JSON"),
        ("a.xml", '<malloc version="1">\n<heap>\n</malloc>', 3, "mismatched tag"),
        (
            "a.xml",
            '<malloc version="1">\n<!DOCTYPE a [<!ENTITY b "c">]></malloc>',
            2,
            "a declaration",
        ),
        ("a.txt", "main;make 5\nmain;make\n", 2, "no stack"),
        (
            "a.csv",
            "allocator,num_allocations,size,tid,thread_name,stack_trace\nM,1,2\n",
            2,
            "3 col",
        ),
    ],
)
def test_the_line_that_is_wrong_is_said(
    tmp_path: Path, name: str, text: str, line: int, what: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=what) as refused:
        imported(path, tmp_path / "r")
    assert refused.value.message.startswith(f"{path}, line {line}: ")


def test_what_decompresses_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xml.gz"
    blank = b" " * (1 << 20)
    path.write_bytes(gzip.compress(b'<malloc version="1">\n' + blank * 65))
    with pytest.raises(UsageError, match="longer than 64 MiB"):
        imported(path, tmp_path / "r")


def test_statistics_go_with_profiles_of_jemalloc_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statistics = str(DUMPS / "statistics.json.gz")
    for name in ("gperftools.heap", "malloc_info.xml"):
        code = tare_command(
            ["import", str(DUMPS / name), "--statistics", statistics, "-o", str(tmp_path / "r")]
        )
        assert code == 2
        assert "heap profile" in capsys.readouterr().err
    path = tmp_path / "short.json"
    path.write_text('{"jemalloc": {"stats": {}, "arenas": {}, "stats.arenas": {}}}')
    code = tare_command(["import", str(DUMPS / "jemalloc.heap"), "--statistics", str(path)])
    assert code == 2
    assert "lacks 'merged'" in capsys.readouterr().err


# ---- whose objects keep slabs ----


def test_free_cells_are_shared_by_bytes() -> None:
    classes = [SizeClass(16, 10, 20), SizeClass(32, 5, 100), SizeClass(64, 0, 10)]
    sites = [
        Site((), live_bytes=160, live_objects=10),
        Site((), live_bytes=32 * 3, live_objects=3),
        Site((), live_bytes=240, live_objects=10),  # of both sizes, by its mean of 24
        Site((), live_bytes=1 << 20, live_objects=1),
    ]
    found = attributed(Dump("t", "p", "jemalloc", sites, classes))
    mixed = {16: 80.0, 32: 160.0}
    share = 160 / (160 + mixed[16])
    assert found.sites[0].external == pytest.approx(160 * share)
    assert found.sites[1].external == pytest.approx(3040 * 96 / (96 + mixed[32]))
    assert sum(site.external for site in found.sites) == pytest.approx(160 + 3040)
    assert found.sites[3].external == 0
    # Nobody holds objects of 64 bytes: these are charged to nobody.
    assert found.values["charged_external_bytes"] == pytest.approx(3200)


def test_addresses_lie_in_their_files() -> None:
    modules = Modules()
    for line in (
        "1000-2000 r--p 00000000 fe:00 7    /nowhere/app",
        "2000-3000 r-xp 00001000 fe:00 7    /nowhere/app",
        "3000-4000 rw-p 00000000 00:00 0",
    ):
        assert modules.add(line)
    assert not modules.add("nothing")
    assert modules.frame(0x2101) == Frame(object="/nowhere/app", offset=0x1100)
    assert modules.frame(0x3001) == modules.frame(0x5000) == modules.frame(1) == Frame()
