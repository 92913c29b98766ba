"""What the trace of a Java program costs, with stores and stacks: for one thread, and for eight."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import tare
from bench.programs import Times, in_turns, timed
from bench.row import Row, ratio_row
from tare.base.errors import TareError
from tare.base.statistics import Interval
from tare.observers import jvm_trace
from tare.observers.asked import Asked
from tare.programs import java_command
from tare.programs.program import Program

PROGRAMS = {"lucene-search": "4096", "xalan": "6"}
"""Each with its size, by which the JVM's start is the lesser part."""
THREADS = (1, 8)
MOST_SLOWER = 3.0
MOST_OF_ONE = 1.0
"""What eight threads get slower, over what one gets."""


def rows() -> list[Row]:
    """Two for each program."""
    if shutil.which("javac") is None:
        return [Row("trace of Java", "javac is not installed")]
    try:
        jvm_trace.require()
        found = tare.suite_programs("java", list(PROGRAMS), report=lambda _text: None)
    except TareError as error:
        return [Row("trace of Java", error.message)]
    return [row for program in found for row in _rows_of(program)]


def _rows_of(program: Program) -> list[Row]:
    processor, wall = _times(program)
    slower = {n: wall.ratio(f"{n} traced", f"{n}").median for n in THREADS}
    one, many = THREADS
    return [
        ratio_row(
            f"trace of {program.name} with stores and stacks, {one} thread, processor time",
            processor.ratio(f"{one} traced", f"{one}"),
            MOST_SLOWER,
            f"of {wall.each(f'{one}', 1).median:.1f} s; wall time {slower[one]:.2f}x",
        ),
        ratio_row(
            f"trace of {program.name}: how much more {many} threads are slowed down, wall time",
            _quotient(wall, many, one),
            MOST_OF_ONE,
            f"{slower[many]:.2f}x, and {slower[one]:.2f}x",
        ),
    ]


def _quotient(wall: Times, many: int, one: int) -> Interval:
    """How much slower the trace makes `many` threads, over how much it makes `one`."""

    def products(traced: int, plain: int) -> list[float]:
        both = zip(wall.of[f"{traced} traced"], wall.of[f"{plain}"], strict=True)
        return [value * other for value, other in both]

    return Times({"": products(many, one), "base": products(one, many)}).ratio("", "base")


def _times(program: Program) -> tuple[Times, Times]:
    """Processor and wall time of the program with so many threads, and of it traced."""
    walls: dict[str, list[float]] = {}

    def traced(name: str, run: Program) -> float:
        with tempfile.TemporaryDirectory() as recording:
            what = Asked(jvm=True, pointers=True, reachability_bytes=jvm_trace.DEFAULT_PERIOD)
            run = jvm_trace.under(run, Path(recording), what, lambda _text: None)
            return timed(walls, name, run.argv)

    measures = {}
    for threads in THREADS:
        run = _with_threads(program, threads)
        plain = java_command.with_options(run, ["-XX:+UseSerialGC"])
        measures[f"{threads}"] = partial(timed, walls, f"{threads}", plain.argv)
        measures[f"{threads} traced"] = partial(traced, f"{threads} traced", run)
    return in_turns(measures), Times(walls)


def _with_threads(program: Program, threads: int) -> Program:
    words = program.argv[program.argv.index("-jar") :]
    words = (*words[: words.index("--iterations")], *words[words.index("--iterations") + 2 :])
    more = ("--threads", f"{threads}", "--size", PROGRAMS[program.name])
    return replace(program, argv=("java", *words, *more))
