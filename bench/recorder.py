"""What the recorder costs, beside heaptrack: processor time, disk and memory for each event."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench import redis
from bench.programs import Times, commands, in_turns
from bench.row import Row, in_seconds, judged, ratio_row, seconds_row
from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.base.statistics import Interval
from tare.heap_traces.conversion import convert
from tare.observers import recorder
from tare.observers.recording_switch import Switch

Run = Callable[[Mapping[str, str]], tuple[float, float]]
"""A run of a program with more variables; processor seconds and peak resident bytes."""
REDIS_REQUESTS = 100_000
REDIS_TESTS = "set,get,lpush,hset,zadd,mset"
HEAPTRACK = (
    "/usr/lib/heaptrack/libheaptrack_preload.so",
    "/usr/lib/x86_64-linux-gnu/heaptrack/libheaptrack_preload.so",
)
SAMPLE = 512 << 10
BESIDE_HEAPTRACK, BESIDE_HEAPTRACK_MUCH_CODE = 0.5, 0.8
MOST_WITHOUT_STACKS, MOST_WITH_STACKS = 50e-9, 100e-9
OFTEN = ("gawk", "perl", "cc1plus")
"""Those of which the second of these is asked."""
MOST_SAMPLED = 1.01
DISK_BYTES, MEMORY_BYTES = 5, 64 << 20
RECORDINGS = 3
"""Which of two encodings a column gets depends on its times, where both take nearly as little."""
LEAST_ADDED = 0.05
"""Of the program's own time: a ratio to less than this says nothing."""
AGAIN = "bare again"
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
        runs: dict[str, Run] = {
            program: partial(_run, command) for program, command in programs.items()
        }
        if redis.is_installed():
            runs["redis"] = partial(_run_redis, folder)
        else:
            found.append(Row("recording redis", "the packages redis-server, redis-tools miss"))
        for program, run in runs.items():
            found += _rows_of(program, run, folder, heaptrack)
    return found


def _rows_of(program: str, run: Run, folder: Path, heaptrack: str) -> list[Row]:
    took, peaks = _measure(run, folder, heaptrack)
    recordings = [_recorded(run, folder) for _ in range(RECORDINGS)]
    events = recordings[0][0]
    each = sorted(disk / number for number, disk in recordings)
    disk = Interval(statistics.median(each), each[0], each[-1])
    disk_kept, told = judged(disk, DISK_BYTES)
    again = took.ratio(AGAIN, "bare")
    noise = f"nothing at all {again.median:.2f}x, {again.low:.2f} to {again.high:.2f}"
    memory = peaks["stacks"] - peaks["bare"]
    what = f"recording {program}, {events / 1e6:.1f} M events,"
    stacks = took.more("stacks", "bare", events)
    found = [
        seconds_row(
            f"{what} without stacks, an event",
            took.more("no stacks", "bare", events),
            MOST_WITHOUT_STACKS,
        ),
        seconds_row(f"{what} with stacks, an event", stacks, MOST_WITH_STACKS)
        if program in OFTEN
        else Row(f"{what} with stacks, an event", in_seconds(stacks)),
    ]
    if not heaptrack:
        found.append(Row(f"recording {program}", "the package heaptrack is missing"))
    elif took.ratio("heaptrack", "bare").low < 1 + LEAST_ADDED:
        found.append(Row(f"recording {program} with stacks", "heaptrack adds less than the noise"))
    else:
        slower = took.ratio("heaptrack", "bare").median
        found.append(
            ratio_row(
                f"what recording {program} with stacks adds, beside heaptrack",
                took.added("stacks", "heaptrack", "bare"),
                BESIDE_HEAPTRACK_MUCH_CODE if program == "cc1plus" else BESIDE_HEAPTRACK,
                f"heaptrack {slower:.1f}x of bare",
            )
        )
    off = took.ratio("off", "bare")
    return [
        *found,
        ratio_row(
            f"a sample of {program}, one byte in 512 KiB, beside bare",
            took.ratio("sampled", "bare"),
            MOST_SAMPLED,
            noise,
        ),
        Row(
            f"the recorder that is off, under {program}",
            f"{off.median:.2f}x ({off.low:.2f} to {off.high:.2f}; {noise})",
        ),
        Row(
            f"the trace of {program} on disk",
            f"{told}{disk.median:.1f} bytes an event ({disk.low:.1f} to {disk.high:.1f})",
            f"at most {DISK_BYTES}",
            disk_kept,
            disk.low,
        ),
        Row(
            f"memory that the recorder adds to {program}",
            f"{memory / (1 << 20):.1f} MiB",
            f"under {MEMORY_BYTES >> 20} MiB",
            memory < MEMORY_BYTES,
        ),
    ]


def _measure(run: Run, folder: Path, heaptrack: str) -> tuple[Times, dict[str, float]]:
    """Processor seconds of a program under each way to run it, and its median peak of resident
    bytes."""
    ours = str(native_file(recorder.OBJECT))
    files = folder / "recording"
    base = {"LD_PRELOAD": ours, recorder.FOLDER_VARIABLE: str(files)}
    ways = {
        "bare": {},
        "no stacks": {**base, recorder.STACKS_VARIABLE: "no"},
        "stacks": base,
        "sampled": {**base, recorder.SAMPLE_VARIABLE: str(SAMPLE)},
        "off": {**base, recorder.SWITCH_VARIABLE: str(files / "switch")},
        AGAIN: {},
    }
    if heaptrack:
        output = {"DUMP_HEAPTRACK_OUTPUT": str(files / "heaptrack")}
        ways["heaptrack"] = {"LD_PRELOAD": heaptrack, **output}
    peaks: dict[str, list[float]] = {way: [] for way in ways}

    def measured(way: str) -> float:
        files.mkdir()
        with Switch(files, paused=True):
            seconds, peak = run(ways[way])
        shutil.rmtree(files)
        peaks[way].append(peak)
        return seconds

    took = in_turns({way: partial(measured, way) for way in ways})
    return took, {way: statistics.median(each) for way, each in peaks.items()}


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


def _run_redis(folder: Path, variables: Mapping[str, str]) -> tuple[float, float]:
    """The same of a Redis server that its own benchmark drives, without what that takes itself."""
    load = ["-n", str(REDIS_REQUESTS), "-t", REDIS_TESTS, "-r", "10000", "-P", "16", "-q"]
    with redis.served(folder, variables) as (server, socket):
        client = ["-s", str(socket)]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["redis-benchmark", *client, *load], check=True, **quiet)
        subprocess.run(["redis-cli", *client, "shutdown", "nosave"], check=False, **quiet)
        _, _, used = os.wait4(server.pid, 0)
        server.returncode = 0
    return used.ru_utime + used.ru_stime, float(used.ru_maxrss << 10)


def _recorded(run: Run, folder: Path) -> tuple[int, int]:
    """How many events a recording with stacks has, and the bytes of its trace."""
    recording, trace = folder / "recording", folder / "trace"
    recording.mkdir()
    trace.mkdir()
    run(
        {
            "LD_PRELOAD": str(native_file(recorder.OBJECT)),
            recorder.FOLDER_VARIABLE: str(recording),
        }
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
