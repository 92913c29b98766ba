"""What it costs to time events in a JVM, and how far from 1 the null of `tare proximity` lies."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import tare
from bench.row import Row
from tare.errors import TareError
from tare.event_agent import MOST_EVENTS, agent_jar, agent_option
from tare.manager import resolve
from tare.measurement import Status
from tare.program import Program
from tare.proximity_events import fakes, interrupted, medians, read_recorded, relative
from tare.proximity_runs import InJvm, Pauses, timed_run
from tare.runner import Limits
from tare.statistics import median_interval

EVENT = "tare.workloads.LuceneSearcher.search"
ROUNDS, WARMUP = 24, 8
MOST_COST = 0.02
NULL_MANAGER = "jvm.serial(period=64MiB)"
NULL_ITERATIONS = 8
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
        return [_cost(jar, program, folder), _null(jar, program, folder)]


def _cost(jar: Path, program: Program, folder: Path) -> Row:
    """Of each event in a program that is warm, by searches with and without in one process."""
    workloads = program.argv[program.argv.index("-jar") + 1]
    data = program.argv[program.argv.index("--data") + 1]
    source = Path(__file__).with_name("EventCost.java")
    subprocess.run(["javac", "-cp", workloads, "-d", folder, source], check=True)
    events = folder / "events"
    java = ["java", "-XX:+UseSerialGC", agent_option(jar, [EVENT], events)]
    arguments = ["tare.workloads.EventCost", data, str(ROUNDS), str(WARMUP)]
    done = subprocess.run(
        [*java, "-cp", f"{folder}:{workloads}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    count = len(read_recorded(events, MOST_EVENTS).events)
    pairs = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    cost = median_interval([timed / plain - 1 for timed, plain in pairs], 0)
    assert cost is not None
    return Row(
        "timing each query of lucene-search, of its processor time",
        f"{cost.median:.2%} ({cost.low:.2%} to {cost.high:.2%}; {count} events)",
        f"at most {MOST_COST:.0%}",
        cost.high <= MOST_COST,
    )


def _null(jar: Path, program: Program, folder: Path) -> Row:
    title = f"the null of lucene-search under {NULL_MANAGER}, farthest of 20 ranks from 1"
    way = InJvm(jar, (EVENT,))
    words = list(program.argv)
    words[words.index("--iterations") + 1] = str(NULL_ITERATIONS)
    longer = Program(program.name, tuple(words), scratch=program.scratch)
    outcome, left = timed_run(way, Pauses(), longer, resolve(NULL_MANAGER), Limits(), folder, None)
    if outcome.status is not Status.OK:
        return Row(title, outcome.reason, met=False)
    seen = way.seen(left)
    places = fakes(seen.events, seen.stops, NULL_PLACES)
    kept = ~interrupted(seen.events, seen.stops)
    points = medians(relative(seen.events.wall, seen.events.key, kept), places, 0)
    if not points or None in points:
        return Row(title, "no room between the collections", met=False)
    off = max(abs(point[0] - 1) for point in points if point is not None)
    return Row(
        title, f"{off:.1%} ({len(places)} places)", f"at most {MOST_OFF:.0%}", off <= MOST_OFF
    )
