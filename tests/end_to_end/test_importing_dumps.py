"""Dumps of heaps that programs write here and now, held against other tools and `tare space`."""

from __future__ import annotations

import ctypes.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tare as api
from tare.__main__ import run as tare_command
from tare.heap_traces.frames import site_text
from tare.importing.tools import TooLongError, written_by
from tare.memory_managers.catalogue import load_recipes, object_path
from tare.records.results import load, read_records
from tare.records.runs import Limits
from tests.native.runtimes.test_jvm import JAVAC, needs_java
from tests.support import ROOT
from tests.unit.importing.test_dumps import by_site, one_value

Compile = Callable[..., Path]
SOURCES = ROOT / "tests/support/dumps"
COUNT = "60000"


def has_library(name: str) -> bool:
    return ctypes.util.find_library(name) is not None


needs_jemalloc = pytest.mark.skipif(
    not has_library("jemalloc"), reason="Debian's package libjemalloc2 is missing"
)


def built(name: str, target: Path, *words: str) -> Path:
    source = SOURCES / name
    subprocess.run(["c++", "-g", "-O1", "-fno-builtin", source, "-o", target, *words], check=True)
    return target


def dumped(folder: Path) -> tuple[Path, Path, Path]:
    """The program, its profile and the statistics of the same moment."""
    program = built("slabs.cpp", folder / "slabs")
    statistics, profile = folder / "statistics.json", folder / "slabs.heap"
    subprocess.run(
        [program, COUNT, statistics, profile],
        env={"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": "prof:true,prof_prefix:/dev/null"},
        check=True,
    )
    return program, profile, statistics


def flat(tool: str, program: Path, profile: Path) -> dict[str, int]:
    """Live bytes by the innermost function, as jeprof and pprof print them."""
    said = subprocess.run(
        [tool, "--text", "--show_bytes", program, profile],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    rows = re.findall(r"^ *(\d+) +[\d.]+% +[\d.]+% +\d+ +[\d.]+% (\S+)", said, re.MULTILINE)
    return {name: int(size) for size, name in rows}


@needs_jemalloc
@pytest.mark.skipif(shutil.which("jeprof") is None, reason="libjemalloc-dev's jeprof is missing")
def test_live_bytes_are_those_of_jeprof(tmp_path: Path) -> None:
    program, profile, _ = dumped(tmp_path)
    assert tare_command(["import", str(profile), "-o", str(tmp_path / "r"), "-q"]) == 0
    found, expected = by_site(load(tmp_path / "r"), "live_bytes"), flat("jeprof", program, profile)
    for name in ("keep_names", "index_entries"):
        mine = sum(size for site, size in found.items() if site.startswith(name))
        assert mine == pytest.approx(expected[name], abs=2)
        assert mine > 1 << 20


@pytest.mark.skipif(
    shutil.which("google-pprof") is None or not has_library("tcmalloc"),
    reason="Debian's packages google-perftools and libgoogle-perftools-dev are missing",
)
def test_live_bytes_are_those_of_gperftools(tmp_path: Path) -> None:
    program = built("lines.cpp", tmp_path / "lines", "-Wl,--no-as-needed", "-ltcmalloc")
    subprocess.run(
        [program], env={"HEAPPROFILE": str(tmp_path / "p")}, check=True, capture_output=True
    )
    (profile,) = tmp_path.glob("p.*.heap")
    assert tare_command(["import", str(profile), "-o", str(tmp_path / "r"), "-q"]) == 0
    found = by_site(load(tmp_path / "r"), "live_bytes")
    expected = flat("google-pprof", program, profile)
    (kept,) = (size for site, size in found.items() if site.startswith("keep_names"))
    assert kept == expected["keep_names"] == 500_000


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is missing")
def test_live_bytes_are_those_of_pprof(tmp_path: Path) -> None:
    program, profile = tmp_path / "held", tmp_path / "p.pb.gz"
    subprocess.run(["go", "build", "-o", program, SOURCES / "held.go"], check=True, cwd=tmp_path)
    subprocess.run([program, profile], check=True)
    assert tare_command(["import", str(profile), "-o", str(tmp_path / "r"), "-q"]) == 0
    said = subprocess.run(
        ["go", "tool", "pprof", "-top", "-unit=B", "-sample_index=inuse_space", profile],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    match = re.search(r"^ *(\d+)B .* main\.keep", said, re.MULTILINE)
    assert match, said
    found = by_site(load(tmp_path / "r"), "live_bytes")
    kept = sum(size for site, size in found.items() if re.search(r"\bkeep\b", site.split(" ")[0]))
    assert kept == int(match[1])


@needs_jemalloc
@pytest.mark.skipif(
    object_path(load_recipes()["jemalloc"]) is None, reason="Tare was built without jemalloc"
)
def test_free_cells_are_those_that_space_finds(tmp_path: Path) -> None:
    program, profile, statistics = dumped(tmp_path)
    words = ["import", str(profile), "--statistics", str(statistics), "-q"]
    assert tare_command([*words, "-o", str(tmp_path / "r")]) == 0
    imported = load(tmp_path / "r")
    found = one_value(imported)
    results = api.space(
        [str(program), COUNT],
        ["jemalloc"],
        baseline="jemalloc",
        folder=tmp_path / "s",
        limits=Limits(least_coverage=0),
    )
    (record,) = read_records(results.folder)
    assert record.outcome.status == "ok", record.outcome.reason
    external = record.outcome.values["external_bytes"]
    # What threads keep for themselves is free for the program, and live for jemalloc.
    assert found["external_bytes"] + found["cached_bytes"] == pytest.approx(external, rel=0.02)
    assert found["charged_external_bytes"] >= 0.95 * found["external_bytes"]
    # Those that keep most are the same, in the same order.
    charged = by_site(imported, "external")
    kept = {site_text(s["frames"]): s["kept"] for s in record.outcome.details["sites"]}
    names = [_ordered(charged)[:2], _ordered(kept)[:2]]
    assert names == [["keep_names", "index_entries"]] * 2


# ---- forms that only their own tools read ----


@needs_java
def test_a_flight_recording(tmp_path: Path) -> None:
    assert JAVAC is not None
    subprocess.run([JAVAC, "-d", tmp_path, SOURCES / "Held.java"], check=True)
    path = tmp_path / "held.jfr"
    recording = f"-XX:StartFlightRecording=filename={path},settings=profile"
    subprocess.run(
        ["java", recording, "-cp", tmp_path, "Held"], check=True, capture_output=True, cwd=tmp_path
    )
    printed = tmp_path / "held.json"
    with printed.open("wb") as file:
        subprocess.run(["jfr", "print", "--json", path], check=True, stdout=file)
    sites = []
    for number, each in enumerate((path, printed)):
        assert tare_command(["import", str(each), "-o", str(tmp_path / f"{number}"), "-q"]) == 0
        sites.append(by_site(load(tmp_path / f"{number}"), "bytes"))
    assert sites[0] == sites[1]
    # What else is there, the JVM decides: its first sample stands for all before it.
    assert "Held.drop ← Held.main" in sites[0]


def test_a_recording_of_memray(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "held.bin"
    memray = [sys.executable, "-m", "memray"]
    subprocess.run([*memray, "run", "-q", "-o", path, SOURCES / "held.py"], check=True)
    assert tare_command(["import", str(path), "-o", str(tmp_path / "r"), "-q"]) == 0
    sites = by_site(load(tmp_path / "r"), "live_bytes")
    first = max(sites.items(), key=lambda entry: entry[1])
    assert first[0].startswith("<listcomp> (held.py:") or first[0].startswith("keep (held.py:")
    assert 2000 * 3001 <= first[1] < 2000 * 3001 + (2 << 20)  # with an arena of small objects
    cut = tmp_path / "cut.bin"
    cut.write_bytes(path.read_bytes()[:3000])
    assert tare_command(["import", str(cut), "-o", str(tmp_path / "cut"), "-q"]) == 2
    assert f"{cut} cannot be read by " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (b"FLR\0\0\2\0\0", "jfr print --json FILE > FILE.json"),
        (b"memray\0\x0d\0\0\0", "memray transform csv FILE -o FILE.csv"),
    ],
)
def test_without_the_tool_it_says_what_to_run(
    start: bytes,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("tare.importing.memray.find_spec", lambda _: None)
    path = tmp_path / "a.recording"
    path.write_bytes(start)
    assert tare_command(["import", str(path), "-o", str(tmp_path / "r")]) == 3
    assert hint in capfd.readouterr().err


def test_what_a_tool_writes_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with (
        pytest.raises(TooLongError, match="is longer than 1 MiB as text"),
        written_by(path, lambda _: ["yes"], 1 << 20),
    ):
        pass


def _ordered(sites: dict[str, int]) -> list[str]:
    return [name.split(" ")[0] for name in sorted(sites, key=lambda name: -sites[name])]
