"""What it costs to time events in a JVM, and how far from 1 the null of `tare proximity` lies."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import tare
from bench.row import Row, judged
from tare.base.errors import TareError
from tare.base.statistics import Interval, median_interval
from tare.memory_managers.manager import resolve
from tare.observers.event_agent import agent_jar, agent_option
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tare.studies.proximity.analysis import fakes, interrupted, medians, relative
from tare.studies.proximity.observe import InJvm, Pauses, timed_run

EVENT = "tare.workloads.LuceneSearcher.search"
NOTHING = "tare.workloads.EventCost.nothing"
QUERIES, ROUNDS, WARMUP = 2048, 24, 10
MOST_COST = 0.02
NULL_MANAGER = "jvm.serial(period=64MiB)"
NULL_ITERATIONS = 8
STEADY = 3
"""Iterations at the end, whose processor time is that of a warm run."""
NULL_PLACES = 5000
MOST_OFF = 0.02


def rows() -> list[Row]:
    if shutil.which("javac") is None:
        return [Row("events of a JVM", "javac is not installed")]
    try:
        jar = agent_jar(lambda _text: None)
        (program,) = tare.suite_programs("java", ["lucene-search"], report=lambda _text: None)
    except TareError as error:
        return [Row("events of a JVM", error.message)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        null, per_event = _null(jar, program, folder)
        return [null, _cost(jar, program, folder, per_event)] if per_event else [null]


def _null(jar: Path, program: Program, folder: Path) -> tuple[Row, float]:
    """And the processor time of an iteration for each of its events, in ns; 0 if the run failed."""
    title = f"the null of lucene-search under {NULL_MANAGER}, farthest of 20 ranks from 1"
    way = InJvm(jar, (EVENT,))
    words = list(program.argv)
    words[words.index("--iterations") + 1] = str(NULL_ITERATIONS)
    longer = Program(program.name, tuple(words), scratch=program.scratch)
    prepared = partial(way.prepared, pauses=Pauses())
    outcome, left = timed_run(prepared, longer, resolve(NULL_MANAGER), Limits(), folder, None)
    if outcome.status is not Status.OK:
        return Row(title, outcome.reason, met=False), 0.0
    seen = way.seen(left)
    steady = left.iterations[-STEADY:]
    events = sum(len(each.events) for each in left.recorded.values()) / len(left.iterations)
    per_event = statistics.median(each.cpu_ns for each in steady) / events
    places = fakes(seen.events, seen.stops, NULL_PLACES)
    kept = ~interrupted(seen.events, seen.stops)
    points = medians(relative(seen.events.wall, seen.events.key, kept), places, 0)
    if None in points:
        return Row(title, "no room between the collections", met=False), per_event
    off = max(abs(point[0] - 1) for point in points if point is not None)
    told = f"{off:.1%} ({len(places)} places)"
    return Row(title, told, f"at most {MOST_OFF:.0%}", off <= MOST_OFF), per_event


def _cost(jar: Path, program: Program, folder: Path, per_event: float) -> Row:
    """Of an event after each search, with and without in one process: whole runs differ more than
    that from one to the next. ``per_event`` is the processor time that a run takes for each."""
    workloads = program.argv[program.argv.index("-jar") + 1]
    data = program.argv[program.argv.index("--data") + 1]
    source = Path(__file__).with_name("EventCost.java")
    subprocess.run(["javac", "-cp", workloads, "-d", folder, source], check=True)
    java = ["java", "-XX:+UseSerialGC", agent_option(jar, [NOTHING], folder / "events")]
    arguments = ["tare.workloads.EventCost", data, str(ROUNDS), str(WARMUP)]
    done = subprocess.run(
        [*java, "-cp", f"{folder}:{workloads}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    pairs = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    cost = median_interval([(timed - plain) / QUERIES for timed, plain in pairs], 0)
    assert cost is not None
    shares = Interval(*(each / (per_event - each) for each in (cost.median, cost.low, cost.high)))
    met, told = judged(shares, MOST_COST)
    of = f"{cost.median / 1e3:.1f} of {per_event / 1e3:.0f} µs"
    return Row(
        "an event for each query of lucene-search, of the processor time of a run",
        f"{told}{shares.median:.1%} ({shares.low:.1%} to {shares.high:.1%}; {of})",
        f"at most {MOST_COST:.0%}",
        met,
        shares.low,
    )
