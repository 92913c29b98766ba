"""`tare space --attach`: against what glibc and jemalloc say themselves; and waiting for it."""

from __future__ import annotations

import ctypes.util
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.__main__ import run as tare_command
from tare.base.errors import ProgramError, UsageError
from tare.memory_managers.catalogue import load_recipes, object_path
from tare.observers.asked import When
from tare.records.results import read_records
from tests.native.recorder.recorder_programs import compile_cpp

HOLDS = """
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <unistd.h>
static void *cells[40000], *large[5], *small[20], *more[3000];
static void fill(void *at, size_t size) { memset(at, 7, size); }
static void work() {
  for (auto &each : more) fill(each = malloc(500), 500);
  for (int i = 0; i < 3000; i += 2) free(more[i]);
}
int main(int count, char **words) {
  for (auto &each : cells) fill(each = malloc(100), 100);
  for (auto &each : large) fill(each = malloc(1 << 20), 1 << 20);
  for (auto &each : small) each = malloc(40);
  for (auto each : small) free(each);  /* 7 stay in the cache, 13 in a fast bin */
  for (int i = 0; i < 20000; ++i) free(cells[i]);
  for (int i = 20000; i < 40000; i += 2) free(cells[i]);
  std::thread([] { work(); }).join();
  static char in[4096], out[4096];
  setvbuf(stdin, in, _IOFBF, sizeof in);  /* else they would be allocated after */
  setvbuf(stdout, out, _IOFBF, sizeof out);
  struct mallinfo2 info = mallinfo2();
  printf("%zu %zu %zu\\n", info.arena, info.hblkhd, info.fordblks);
  fflush(stdout);
  char line[9];
  while (fgets(line, sizeof line, stdin)) {
    fill(malloc(64 << 20), 64 << 20);
    puts("more");
    fflush(stdout);
  }
}
"""
MIB = 1 << 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("holds")
    return compile_cpp(folder, HOLDS, "-O1", "-fno-builtin", "-pthread")


class Holding:
    def __init__(self, program: Path, **more: str) -> None:
        self.process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **more},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.pid, self._in, self._out = self.process.pid, self.process.stdin, self.process.stdout
        self.said = self._out.readline()

    def grow(self) -> None:
        self._in.write("x\n")
        self._in.flush()
        assert self._out.readline() == "more\n"

    def end(self) -> int:
        self._in.close()
        return self.process.wait()


@contextmanager
def holding(program: Path, **more: str) -> Iterator[Holding]:
    held = Holding(program, **more)
    try:
        yield held
        assert held.end() == 0
    finally:
        held.process.kill()
        held.process.wait()


def looked_at(held: Holding, folder: Path, when: When | None = None) -> dict[str, Any]:
    results = api.space_of_process(held.pid, when or When(), folder=folder)
    (record,) = read_records(results.folder)
    details: dict[str, Any] = record.outcome.details["process"]
    assert sum(details["parts"].values()) == details["resident"]
    return details


def test_of_glibc_all_cells_are_found(program: Path, tmp_path: Path) -> None:
    with holding(program) as held:
        first = looked_at(held, tmp_path / "r")
        again = looked_at(held, tmp_path / "again")
        held.grow()
    assert first["parts"] == again["parts"]
    *_, free = map(int, held.said.split())
    sizes = {row["size"]: row for row in first["sizes"]}
    assert first["how"] == "walked"
    assert first["arenas"] == 2
    assert sizes[104]["objects"] == 10_000
    assert sizes[504]["objects"] == 1500
    # The other thread's cache has ended. Since glibc 2.42 a cache holds 16 of a size.
    assert first["parts"]["cached"] in (7 * 40 + 7 * 104, 16 * 40 + 16 * 104)
    assert sum(first["parts"][name] for name in ("external", "retained")) < free
    live = 10_000 * 104 + 1500 * 504 + 5 * MIB
    assert live <= first["parts"]["live"] < live + 128 * 1024
    assert abs(first["parts"]["unexplained"]) < 64 * 1024


def test_what_glibc_says_is_free_is_found_free(program: Path, tmp_path: Path) -> None:
    from tare.observers.process_memory import ProcessMemory
    from tare.studies.space.glibc_heap import heaps_of

    with holding(program) as held, ProcessMemory(held.pid) as memory:
        found = heaps_of(memory, memory.areas, memory.stacks)
    arena, mapped, free = map(int, held.said.split())
    assert int((found.free[:, 1] - found.free[:, 0] + 8).sum()) == free
    areas = int((found.areas[:, 1] - found.areas[:, 0]).sum())
    assert areas == arena + mapped
    assert found.caches_known
    assert found.fast_known
    assert len(found.undivided) == 0


@pytest.mark.skipif(
    ctypes.util.find_library("jemalloc") is None, reason="Debian's package libjemalloc2 is missing"
)
def test_jemalloc_reports(program: Path, tmp_path: Path) -> None:
    with holding(program, LD_PRELOAD="libjemalloc.so.2") as held:
        for number in range(2):
            details = looked_at(held, tmp_path / f"r{number}")
            assert details["how"] == "told"
            assert details["allocator"] == "jemalloc"
            live = 10_000 * 112 + 1500 * 512 + 5 * MIB
            assert details["parts"]["live"] == pytest.approx(live, rel=0.2)
        held.grow()


@pytest.mark.skipif(
    ctypes.util.find_library("tcmalloc") is None, reason="Debian's libgoogle-perftools is missing"
)
def test_tcmalloc_reports(program: Path, tmp_path: Path) -> None:
    with holding(program, LD_PRELOAD="libtcmalloc.so.4") as held:
        details = looked_at(held, tmp_path / "r")
        held.grow()
    assert (details["how"], details["allocator"]) == ("told", "tcmalloc")
    assert details["parts"]["live"] == pytest.approx(10_000 * 112 + 1500 * 512 + 5 * MIB, rel=0.2)
    assert "metadata" not in details["parts"]


def test_an_allocator_that_does_not_report(program: Path, tmp_path: Path) -> None:
    library = object_path(load_recipes()["mimalloc"])
    if library is None:
        pytest.skip("Tare was built without mimalloc")
    with holding(program, LD_PRELOAD=str(library)) as held:
        details = looked_at(held, tmp_path / "r")
    assert details["how"] == "unknown"
    assert "mimalloc" in details["allocator"]
    assert details["parts"].keys() == {"other", "unexplained"}
    assert details["parts"]["unexplained"] > 6 * MIB


def test_the_command(program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with holding(program) as held:
        words = ["space", "--attach", str(held.pid), "-o", str(tmp_path / "r")]
        assert tare_command([*words, "--json", str(tmp_path / "r.json")]) == 0
    said = capfd.readouterr().out
    assert f"Process {held.pid} (program) has " in said
    assert "nothing was put into it" in said
    assert "requested sizes, internal fragmentation, call sites and" in said
    assert (tmp_path / "r/report.html").is_file()
    rows = json.loads((tmp_path / "r.json").read_text())["measurements"]
    values = {row["metric"]: row["value"] for row in rows}
    assert values["in_use_bytes"] > 6 * MIB
    assert "requested_bytes" not in values
    assert tare_command(["report", str(tmp_path / "r")]) == 0


# ---- when ----


def waiting_while(held: Holding, when: When, folder: Path, act: Callable[[], object]) -> Any:
    class Watching:
        def note(self, text: str) -> None:
            if text.startswith("waiting for "):
                act()

    return api.space_of_process(held.pid, when, folder=folder, watcher=Watching())  # type: ignore[arg-type]


def test_when_enough_is_resident(program: Path, tmp_path: Path) -> None:
    with holding(program) as held:
        results = waiting_while(held, When(resident_bytes=40 * MIB), tmp_path / "r", held.grow)
    (record,) = read_records(results.folder)
    assert record.outcome.values["in_use_bytes"] > 64 * MIB
    assert record.outcome.details["process"]["over"].endswith(" were resident")


def test_when_a_signal_comes(program: Path, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    when = When(resident_bytes=1 << 40, signal_number=signal.SIGUSR1)
    with holding(program) as held:
        results = waiting_while(
            held, when, tmp_path / "r", lambda: os.kill(os.getpid(), signal.SIGUSR1)
        )
    (record,) = read_records(results.folder)
    assert record.outcome.details["process"]["over"] == "it got the signal SIGUSR1"
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_process_that_ends_before(program: Path, tmp_path: Path) -> None:
    with holding(program) as held, pytest.raises(ProgramError, match="ended before"):
        waiting_while(held, When(resident_bytes=1 << 40), tmp_path / "r", held.end)
    assert not (tmp_path / "r").exists()


def test_a_trace_when_enough_is_resident(program: Path, tmp_path: Path) -> None:
    with holding(program) as held:
        words = ["trace", "--attach", str(held.pid), "--for", "1s", "--sample", "4KiB", "-q"]
        folder = tmp_path / "t.tare"
        assert tare_command([*words, "--when-resident", "1MiB", "-o", str(folder)]) == 0
    assert api.open_trace(folder).meta["attached"] == held.pid


# ---- what is refused ----


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--attach", "PID", "--", "ls"], "instead of a PROGRAM"),
        (["--attach", "PID", "-m", "jemalloc"], "--manager would do nothing"),
        (["--attach", "PID", "--keep-trace"], "--keep-trace would do nothing"),
        (["--when-resident", "1GiB", "ls"], "--when-resident goes with --attach"),
        (["--when-signal", "USR1", "ls"], "--when-signal goes with --attach"),
        (["--attach", "PID", "--when-signal", "KILL"], "no program can handle"),
        ([], "Missing argument '-- PROGRAM [ARG…]'"),
    ],
)
def test_options_that_do_not_go_together(
    words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [str(os.getppid()) if word == "PID" else word for word in words]
    assert tare_command(["space", *given]) == 2
    assert said in capfd.readouterr().err


def test_a_static_program(tmp_path: Path) -> None:
    static = compile_cpp(tmp_path, HOLDS, "-O1", "-fno-builtin", "-pthread", "-static")
    with holding(static) as held, pytest.raises(UsageError, match="statically linked"):
        looked_at(held, tmp_path / "r")


def test_waiting_costs_next_to_nothing(program: Path) -> None:
    from tare.observers import attaching
    from tare.observers.waiting import awaited

    with holding(program) as held:
        target = attaching.target_of(held.pid)
        when = When(resident_bytes=1 << 40, signal_number=signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 2.5)
        before = time.process_time()
        with awaited(target, when, lambda _: None) as over:
            assert over == "it got the signal SIGALRM"
        assert time.process_time() - before < 0.2
