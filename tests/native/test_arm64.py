"""The recorder and the layers for arm64: compiled by Debian's cross compiler, run by QEMU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tare.heap_traces.recording import Process, TableReader, read_frames, read_processes
from tare.memory_managers import layers
from tare.observers import recorder
from tests.support import ROOT

COMPILER, EMULATORS = "aarch64-linux-gnu-g++", ("qemu-aarch64", "qemu-aarch64-static")
LIBRARIES = Path("/usr/aarch64-linux-gnu")
NO_FRAME = 2**32 - 1
PARTS = ("managers/delay", "managers/marksweep", "observers/recorder")

STACKS = """
#include <csignal>
#include <cstdlib>
#include <pthread.h>
#define NOINLINE extern "C" __attribute__((noinline))
static void* volatile kept;
NOINLINE char* inner(int n) { char* p = static_cast<char*>(malloc(n)); p[0] = 1; return p; }
NOINLINE char* large_frame(int n) {
  volatile char all[70000]; all[n] = 2; return inner(n) + all[n];
}
NOINLINE char* moving_frame(int n) {
  volatile char* some = static_cast<char*>(__builtin_alloca(n));
  some[0] = 3; return inner(n) + some[0];
}
NOINLINE void handler(int) { kept = malloc(1003); }
NOINLINE int leaf(int n) { volatile int x = 0; for (int i = 0; i < n; ++i) x += i; return x; }
NOINLINE void* worker(void*) { kept = inner(1004); return nullptr; }
int main() {
  kept = large_frame(1001);
  kept = moving_frame(1002);
  signal(SIGVTALRM, handler);
  kept = nullptr;
  raise(SIGVTALRM);
  pthread_t thread;
  pthread_create(&thread, nullptr, worker, nullptr);
  pthread_join(thread, nullptr);
  return leaf(3) == 3 ? 0 : 1;
}
"""
CALLS = {
    1001: ["inner", "large_frame", "main", "_start"],
    1002: ["inner", "moving_frame", "main", "_start"],
    1003: ["handler", "main", "_start"],
    1004: ["inner", "worker"],
}
"""In the program's own code, by the bytes that are asked for."""

CHURN = """
#include <cstdlib>
#include <pthread.h>
static char* volatile* kept;
static void* churn(void*) {
  for (int i = 0; i < 40000; ++i) {
    char* const p = static_cast<char*>(malloc(64));
    if (p == nullptr) abort();
    p[63] = static_cast<char>(i);
    if (i % 1000 == 0) kept[i / 1000] = p;
  }
  return nullptr;
}
int main() {
  kept = static_cast<char* volatile*>(calloc(40, sizeof *kept));
  pthread_t threads[2];
  if (THREADS)
    for (pthread_t& thread : threads) pthread_create(&thread, nullptr, churn, nullptr);
  churn(nullptr);
  if (THREADS)
    for (pthread_t& thread : threads) pthread_join(thread, nullptr);
  for (int i = 0; i < 40; ++i)
    if (kept[i][63] != static_cast<char>(i * 1000)) return 1;
  return 0;
}
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each of ``PARTS``, built for arm64 without a warning."""
    if shutil.which(COMPILER) is None:
        pytest.skip("g++-aarch64-linux-gnu is not installed")
    folder = tmp_path_factory.mktemp("arm64")
    for part in PARTS:
        build = folder / part
        subprocess.run(
            ["cmake", "-G", "Ninja", "-S", ROOT / part, "-B", build, "-DCMAKE_SYSTEM_NAME=Linux",
             "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={COMPILER}",
             "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        subprocess.run(["ninja", "-C", build, "-j2"], check=True, stdout=subprocess.DEVNULL)
    return folder


def run(folder: Path, source: str, **environment: object) -> None:
    """Compile ``source`` for arm64 and run it there."""
    emulator = next(filter(None, map(shutil.which, EMULATORS)), None)
    if emulator is None:
        pytest.skip("qemu-user is not installed")
    code, program = folder / "program.cpp", folder / "program"
    code.write_text(source)
    subprocess.run([COMPILER, "-O2", "-g", "-pthread", "-o", program, code], check=True)
    given = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
    subprocess.run([emulator, "-L", LIBRARIES, *given, program], check=True)


def test_call_stacks_are_those_of_the_program(parts: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    run(
        tmp_path,
        STACKS,
        LD_PRELOAD=parts / "observers/recorder/libtare-recorder.so",
        TARE_RECORDER_FOLDER=raw,
    )
    recorder.merge(raw, lambda _: None)
    (process,) = read_processes(raw)
    found = stacks(process, tmp_path / "program")
    assert {size: found[size] for size in CALLS} == CALLS


def stacks(process: Process, program: Path) -> dict[int, list[str]]:
    """By size, the functions of ``program`` that were active at an allocation, innermost first."""
    frames, damage = read_frames(process.table("frames"))
    assert damage == ""
    own = [f"{frame.offset:#x}" for frame in frames if frame.object == str(program)]
    told = subprocess.run(
        ["aarch64-linux-gnu-addr2line", "-f", "-e", program, *own],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()[::2]  # fmt: skip
    names = dict(zip(own, told, strict=True))
    (sites,) = TableReader(process.table("sites"), "sites", ("caller", "frame"))
    (births,) = TableReader(process.table("births"), "births", ("size", "site"))
    found: dict[int, list[str]] = {}
    for size, site in zip(births["size"], births["site"], strict=True):
        functions = found[int(size)] = []
        while site:
            number = int(sites["frame"][site - 1])
            if number != NO_FRAME and frames[number].object == str(program):
                functions.append(names[f"{frames[number].offset:#x}"])
            site = sites["caller"][site - 1]
    return found


def test_delay_serves_threads(parts: Path, tmp_path: Path) -> None:
    process = under(parts, tmp_path, "delay", CHURN.replace("THREADS", "true"))
    assert process.uncounted == 0


def test_marksweep_collects_and_keeps_what_is_reachable(parts: Path, tmp_path: Path) -> None:
    # QEMU keeps the signal for itself by which threads would be stopped.
    source = CHURN.replace("THREADS", "false")
    process = under(parts, tmp_path, "marksweep", source, TARE_MARKSWEEP_EVERY=1 << 18)
    counts = process.counts
    assert counts.collections > 0
    assert counts.skipped_collections == 0
    assert counts.swept_objects > 0


def under(parts: Path, folder: Path, name: str, source: str, **environment: object) -> Any:
    """What the layer ``name`` counted while the program of ``source`` ran."""
    counters = folder / "counters"
    counters.mkdir()
    run(
        folder,
        source,
        LD_PRELOAD=parts / f"managers/{name}/libtare-{name}.so",
        **{f"TARE_{name.upper()}_COUNTERS": counters},
        **environment,
    )
    (process,) = layers.read_folder(layers.layers()[name], counters)
    return process
