"""What the recorder costs, beside heaptrack: processor time, disk and memory for each event."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.programs import commands
from bench.row import Row
from tare import recorder
from tare.conversion import convert
from tare.errors import MissingError
from tare.native import native_file

TRIES = 5
HEAPTRACK = (
    "/usr/lib/heaptrack/libheaptrack_preload.so",
    "/usr/lib/x86_64-linux-gnu/heaptrack/libheaptrack_preload.so",
)
SAMPLE = 512 << 10
BESIDE_HEAPTRACK, BESIDE_HEAPTRACK_MUCH_CODE = 0.5, 0.8
NANOSECONDS, SAMPLED_SHARE, DISK_BYTES, MEMORY_BYTES = 50, 0.02, 5, 64 << 20
LEAST_ADDED = 0.05
"""Of the program's own time: a ratio to less than this says nothing."""
FACTS = {
    "observer": "recorder",
    "observed": ["free", "sites"],
    "program": {"name": "program"},
    "manager": "glibc",
}
HANDED_OVER = """
#include <atomic>
#include <cstdlib>
#include <thread>
constexpr int kObjects = 1500000, kPlaces = 1024;
static std::atomic<void *> places[kPlaces];
int main() {
  std::thread taker([] {
    for (int i = 0; i < kObjects; ++i) {
      void *object;
      while ((object = places[i % kPlaces].exchange(nullptr)) == nullptr) std::this_thread::yield();
      free(object);
    }
  });
  for (int i = 0; i < kObjects; ++i) {
    void *const object = malloc(16 + i % 100), *empty = nullptr;
    while (!places[i % kPlaces].compare_exchange_weak(empty, object)) {
      empty = nullptr;
      std::this_thread::yield();
    }
  }
  taker.join();
}
"""


def rows() -> list[Row]:
    """Each program bare, recorded in each way and under heaptrack in turn."""
    try:
        recorder.require()
    except MissingError as error:
        return [Row("recorder", error.message)]
    heaptrack = next((path for path in HEAPTRACK if Path(path).exists()), "")
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {
            name: command
            for name, command in commands(folder).items()
            if name in ("gawk", "perl", "a C++ map")
        }
        programs["a producer and a consumer"] = [str(_compile(folder, HANDED_OVER, "pair"))]
        programs["cc1plus"] = _compiler(folder)
        for program, command in programs.items():
            found += _rows_of(program, command, folder, heaptrack)
    return found


def _rows_of(program: str, command: Sequence[str], folder: Path, heaptrack: str) -> list[Row]:
    seconds, peaks = _measure(command, folder, heaptrack)
    events, disk = _disk(command, folder)
    added = {way: took - seconds["bare"] for way, took in seconds.items()}
    nanoseconds = added["no stacks"] / events * 1e9
    share = added["sampled"] / seconds["bare"]
    memory = peaks["stacks"] - peaks["bare"]
    most = BESIDE_HEAPTRACK_MUCH_CODE if program == "cc1plus" else BESIDE_HEAPTRACK
    found = [
        Row(
            f"recording {program} without stacks",
            f"{nanoseconds:.0f} ns an event ({events / 1e6:.1f} M events)",
            f"under {NANOSECONDS} ns",
            nanoseconds < NANOSECONDS,
        )
    ]
    if heaptrack and added["heaptrack"] < LEAST_ADDED * seconds["bare"]:
        found.append(Row(f"recording {program} with stacks", "heaptrack adds less than the noise"))
    elif heaptrack:
        ratio = added["stacks"] / added["heaptrack"]
        found.append(
            Row(
                f"recording {program} with stacks, beside heaptrack",
                f"{ratio:.2f}x of what that adds (+{added['stacks']:.2f} s, "
                f"heaptrack +{added['heaptrack']:.2f} s)",
                f"at most {most}x",
                ratio <= most,
            )
        )
    else:
        found.append(Row(f"recording {program}", "the package heaptrack is missing"))
    return [
        *found,
        Row(
            f"a sample of {program}, one byte in 512 KiB",
            f"{share:+.1%} of processor time",
            f"under {SAMPLED_SHARE:.0%}",
            share < SAMPLED_SHARE,
        ),
        Row(
            f"the trace of {program} on disk",
            f"{disk / events:.1f} bytes an event",
            f"at most {DISK_BYTES}",
            disk / events <= DISK_BYTES,
        ),
        Row(
            f"memory that the recorder adds to {program}",
            f"{memory / (1 << 20):.1f} MiB",
            f"under {MEMORY_BYTES >> 20} MiB",
            memory < MEMORY_BYTES,
        ),
    ]


def _measure(
    command: Sequence[str], folder: Path, heaptrack: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Median processor seconds and peak resident bytes of each way to run ``command``."""
    ours = str(native_file(recorder.OBJECT))
    files = folder / "recording"
    base = {"LD_PRELOAD": ours, recorder.FOLDER_VARIABLE: str(files)}
    ways = {
        "bare": {},
        "no stacks": {**base, recorder.STACKS_VARIABLE: "no"},
        "stacks": base,
        "sampled": {**base, recorder.SAMPLE_VARIABLE: str(SAMPLE)},
    }
    if heaptrack:
        output = {"DUMP_HEAPTRACK_OUTPUT": str(files / "heaptrack")}
        ways["heaptrack"] = {"LD_PRELOAD": heaptrack, **output}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    peaks: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(TRIES):
        for way, variables in ways.items():
            files.mkdir()
            took, peak = _run(command, variables)
            shutil.rmtree(files)
            seconds[way].append(took)
            peaks[way].append(peak)
    return (
        {way: statistics.median(each) for way, each in seconds.items()},
        {way: statistics.median(each) for way, each in peaks.items()},
    )


def _run(command: Sequence[str], variables: Mapping[str, str]) -> tuple[float, float]:
    """Processor seconds and peak resident bytes of one run, by the launcher: a program that Python
    itself started would begin with Python's peak."""
    report_read, report_write = os.pipe()
    words = [str(native_file("bin/tare-launch")), "--report-fd", str(report_write)]
    for stream in ("stdin", "stdout", "stderr"):
        words += [f"--{stream}", "/dev/null"]
    environment = {**os.environ, **variables}
    with subprocess.Popen(
        [*words, "--", *command], env=environment, pass_fds=(report_write,)
    ) as launcher:
        os.close(report_write)
        with open(report_read, "rb") as pipe:
            report = json.loads(pipe.read())
    if launcher.returncode != 0 or report["code"] != 0 or report["signal"] != 0:
        raise RuntimeError(f"{command[0]} did not end well")
    seconds = (report["user_microseconds"] + report["system_microseconds"]) / 1e6
    return seconds, float(report["largest_process_bytes"])


def _disk(command: Sequence[str], folder: Path) -> tuple[int, int]:
    """How many events a recording with stacks has, and the bytes of its trace."""
    recording, trace = folder / "recording", folder / "trace"
    recording.mkdir()
    trace.mkdir()
    _run(
        command,
        {
            "LD_PRELOAD": str(native_file(recorder.OBJECT)),
            recorder.FOLDER_VARIABLE: str(recording),
        },
    )
    recorder.merge(recording, lambda _: None)
    convert(recording, trace, FACTS)
    events = sum(json.loads(path.read_text())["events"] for path in recording.glob("*.json"))
    size = sum(path.stat().st_size for path in trace.iterdir())
    shutil.rmtree(recording)
    shutil.rmtree(trace)
    return events, size


def _compile(folder: Path, source: str, name: str) -> Path:
    code = folder / f"{name}.cpp"
    code.write_text(source)
    subprocess.run(["c++", "-O2", "-pthread", "-o", folder / name, code], check=True)
    return folder / name


def _compiler(folder: Path) -> list[str]:
    """The C++ compiler itself, on a source that is already preprocessed."""
    path = subprocess.run(
        ["c++", "-print-prog-name=cc1plus"], check=True, capture_output=True, text=True
    ).stdout.strip()
    source = folder / "pair.ii"
    with source.open("wb") as file:
        subprocess.run(["c++", "-O2", "-E", folder / "pair.cpp"], check=True, stdout=file)
    return [path, "-quiet", "-O2", str(source), "-o", "/dev/null"]
