"""Go: when its collector collects, and what shows that it did as it was told.

A Go program holds its runtime and is often linked statically, so nothing can be loaded into it. The
runtime is told by variables, and tells of its collections on standard error, between the lines of
the program itself; docs/runtimes.md says what is made of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tare.base.errors import UsageError
from tare.memory_managers import runtimes
from tare.memory_managers.catalogue import Option, Recipe
from tare.memory_managers.mmtk import HEAP
from tare.memory_managers.runtimes import Collection, Pause, Process, Setting
from tare.programs.elf import is_go
from tare.programs.program import Program, find_executable
from tare.records.metrics import Status
from tare.records.runs import Outcome

NAME = "go"
TITLE = "Go"
PACKAGE = "golang-go"
TRIAL = ("go", "version")
LIMITED = ("go.limit",)
SWEEP = ("go.gogc(gogc=50)", "go.gogc", "go.gogc(gogc=200)", "go.gogc(gogc=400)", "go.off")
TUNED = ("go.gogc",)
BY_HAND: Mapping[str, str] = {}
REFERENCE = "limit"
OFF: Mapping[str, Mapping[str, str]] = {"off": {}}
TELLS_WHEN = False
NO_HEAP = "-m go.limit collects when Go's soft memory limit is reached"
OVER_MALLOC: Mapping[str, Mapping[str, str]] = {}
OWN_HEAP = None
_MIB = 1 << 20
_DEFAULT_GOGC = 100
_LEAST_GOAL = 4
"""MiB under GOGC=100: Go collects no earlier."""
_GOAL_SLACK = 2
"""MiB: the runtime tells whole ones, and lets a goal be a little above its rule."""
_IN_A_ROW = 3
"""Collections that leave more than the limit, and so tell that it is not kept."""
_NO_GOAL = 1 << 30
"""MiB, and more: what Go tells with GOGC=off."""
_VARIABLES = ("GOGC", "GOMEMLIMIT")
_STARTED = "started"
_MOST_COLLECTIONS = 2_000_000
_OUT_OF_MEMORY_EXIT = 2
_TAIL = 2000

_TITLES = {
    "gogc": "concurrent mark-sweep; collects when the heap has grown by a percentage",
    "limit": "the same collector, which collects only when a soft memory limit is reached",
    "off": "never collects",
}
_OPTIONS: dict[str, tuple[Option, ...]] = {
    "gogc": (
        Option(
            "gogc",
            "how much the heap grows between collections, in percent of live memory",
            "int",
            "",
            default=str(_DEFAULT_GOGC),
            tried=("400", "50", "200", "1000", "25"),
        ),
        Option("limit", "an additional soft memory limit (GOMEMLIMIT)", "size", ""),
    ),
    "limit": (
        Option(
            HEAP,
            "soft limit of all memory that Go's runtime holds, in bytes, or a multiple of the "
            "minimum, like 2x; if not set, nothing is collected",
            "size",
            "",
        ),
    ),
    "off": (),
}

_number, _whole = r"(\d{1,12}(?:\.\d{1,9})?)", r"(\d{1,9})"
_COLLECTION = re.compile(
    rf"gc {_whole} @{_number}s \d+%: "
    rf"{_number}\+{_number}\+{_number} ms clock, "
    r"[\d.]+\+[\d.]+/[\d.]+/[\d.]+\+[\d.]+ ms cpu, "
    rf"{_whole}->{_whole}->{_whole} MB, (\d{{1,15}}) MB goal, "
    rf"(?:{_whole} MB stacks, {_whole} MB globals, )?\d+ P( \(forced\))?"
)
_DEBUG = "gctrace=1,cpu.tare=off"
"""The runtime complains of a feature that no processor has, and so shows that it was reached; with
``inittrace`` it would, too, but count each allocation from then on."""
_REACHED = re.compile(r'GODEBUG(?: sys/cpu)?: unknown cpu feature "tare"')
_OUT_OF_MEMORY = re.compile(
    r"^(runtime: out of memory.*|fatal error: (runtime: )?(out of memory|cannot allocate memory).*)"
)


@dataclass(frozen=True)
class Told:
    """What Go tells of one collection. Times are nanoseconds; ``started`` is since the start of the
    process. ``stopped`` are the lengths of its two pauses, ``beside`` is what is between them. The
    rest are MiB, rounded down."""

    number: int
    started: int
    stopped: tuple[int, int]
    beside: int
    before: int
    grown: int
    lives: int
    goal: int
    other: int
    forced: bool


@dataclass(frozen=True)
class Traced:
    """The runtime's part of a standard error."""

    begun: bool
    collections: Sequence[Told]
    missing: int
    out_of_memory: str


def recipes() -> dict[str, Recipe]:
    return {
        f"{NAME}.{key}": runtimes.recipe(
            f"{NAME}.{key}",
            title,
            "of the program",
            "BSD-3-Clause",
            "https://go.dev",
            options=_OPTIONS[key],
            note="serves programs that Go 1.19 or later built; a program holds its own runtime",
        )
        for key, title in _TITLES.items()
    }


def runs(program: Program) -> bool:
    try:
        return is_go(find_executable(program))
    except (UsageError, OSError):
        return False


def check_setting(setting: Setting) -> None:
    _numbers(setting)


def _numbers(setting: Setting) -> dict[str, int]:
    return runtimes.numbers(setting, _OPTIONS[setting.collector])


def check(setting: Setting, program: Program) -> None:
    runtimes.refuse_multiple(setting)
    runtimes.refuse_variables(setting, program, _VARIABLES)


def advice(setting: Setting, program: Program) -> Program:
    numbers = _numbers(setting)
    variables = dict(program.environment)
    variables["GOGC"] = (
        str(numbers.get("gogc", _DEFAULT_GOGC)) if setting.collector == "gogc" else "off"
    )
    limit = numbers.get("limit", numbers.get(HEAP))
    if limit is not None:
        variables["GOMEMLIMIT"] = str(limit)
    return replace(program, environment=variables)


def under(setting: Setting, program: Program, folder: Path) -> Program:
    variables = dict(advice(setting, program).environment)
    debug = runtimes.variable(program, "GODEBUG")
    variables["GODEBUG"] = ",".join([*([debug] if debug else []), _DEBUG])
    (folder / _STARTED).write_text(str(time.monotonic_ns()))
    return replace(program, environment=variables)


def read_trace(path: Path) -> Traced:
    """What the Go processes that wrote the file told."""
    begun, missing, last, out_of_memory = False, 0, 0, ""
    found: list[Told] = []
    for line in runtimes.lines_of(path):
        begun = begun or _REACHED.search(line) is not None
        out_of_memory = out_of_memory or (match[0] if (match := _OUT_OF_MEMORY.match(line)) else "")
        told = _told(line)
        if told is not None and len(found) < _MOST_COLLECTIONS:
            # A number that is not above the last is that of another process.
            missing += max(told.number - (last if told.number > last else 0) - 1, 0)
            last = told.number
            found.append(told)
    return Traced(begun or bool(found), found, missing, out_of_memory)


def _told(line: str) -> Told | None:
    # The program may have begun a line of its own in front.
    match = _COLLECTION.search(line)
    if match is None:
        return None
    stop, beside, end = (round(float(part) * 1e6) for part in match.groups()[2:5])
    before, grown, lives, goal, stacks, globals_ = (int(part or 0) for part in match.groups()[5:11])
    return Told(
        number=int(match[1]),
        started=round(float(match[2]) * 1e9),
        stopped=(stop, end),
        beside=beside,
        before=before,
        grown=grown,
        lives=lives,
        goal=goal,
        other=stacks + globals_,
        forced=match[12] is not None,
    )


def read_processes(folder: Path) -> list[Process]:
    """One process that stands for all of a run: Go does not tell them apart."""
    traced = read_trace(folder.parent / "stderr")
    if not traced.begun:
        return []
    start = int((folder / _STARTED).read_text())
    pauses = [
        Pause(begin, begin + length, "stop", number)
        for number, told in enumerate(traced.collections)
        for begin, length in zip(_pause_starts(start, told), told.stopped, strict=True)
    ]
    return [
        Process(
            pid=0,
            version="",
            collector="",
            heap_bytes=max(
                (told.goal * _MIB for told in traced.collections if told.goal < _NO_GOAL),
                default=None,
            ),
            ended=not traced.out_of_memory,
            collections=tuple(
                _collection(number, start, told) for number, told in enumerate(traced.collections)
            ),
            pauses=tuple(pauses),
            dropped=traced.missing,
        )
    ]


def _pause_starts(start: int, told: Told) -> tuple[int, int]:
    first = start + told.started
    return first, first + told.stopped[0] + told.beside


def _collection(number: int, start: int, told: Told) -> Collection:
    first = start + told.started
    stopped = sum(told.stopped)
    return Collection(
        number=number,
        kind="concurrent",
        cause="forced" if told.forced else "goal",
        start_ns=first,
        end_ns=first + stopped + told.beside,
        pause_ns=stopped,
        pauses=len(told.stopped),
        used_before=told.before * _MIB,
        used_after=told.lives * _MIB,
    )


def judge(setting: Setting, outcome: Outcome, folder: Path) -> Outcome:
    errors = folder / "stderr"
    traced = read_trace(errors)
    if outcome.error_tail:
        outcome = replace(outcome, error_tail=_own_tail(errors))
    if outcome.status is Status.FAILED:
        if traced.out_of_memory and outcome.exit_code == _OUT_OF_MEMORY_EXIT:
            return replace(outcome, status=Status.OUT_OF_MEMORY, reason=traced.out_of_memory)
        return outcome
    if outcome.status is not Status.OK:
        return outcome
    if reason := _fault(setting, traced):
        return replace(outcome, status=Status.NOT_LOADED, reason=reason, values={})
    if reason := _over(setting, traced):
        return replace(outcome, status=Status.OUT_OF_MEMORY, reason=reason, values={})
    return runtimes.served(setting, outcome, read_processes(folder / runtimes.FOLDER))


def _own_tail(path: Path) -> str:
    """The end of what the program itself wrote."""
    kept = ""
    for line in runtimes.lines_of(path):
        if not _COLLECTION.fullmatch(line) and not _REACHED.fullmatch(line):
            kept = (kept + line + "\n")[-_TAIL:]
    return kept


def _fault(setting: Setting, traced: Traced) -> str:
    """Why a run does not count, or ""."""
    if not traced.begun:
        return "no Go program of the run showed its collector"
    if setting.collector == "gogc":
        return _wrong_goals(_numbers(setting), traced.collections)
    by_itself = sum(not told.forced for told in traced.collections)
    if by_itself and HEAP not in setting.options:
        return f"Go collected {by_itself} times: the program turns its collector on"
    return _other_limit(_numbers(setting).get(HEAP), traced.collections)


def _other_limit(limit: int | None, collections: Sequence[Told]) -> str:
    """What is wrong where a goal is above the limit, though what lived left room below it."""
    for last, told in pairwise(collections):
        lived = (last.lives + last.other + _GOAL_SLACK) * _MIB
        if limit is not None and told.goal * _MIB > limit > lived:
            return f"Go's goal was {told.goal} MiB: the program sets a limit of its own"
    return ""


def _wrong_goals(numbers: dict[str, int], collections: Sequence[Told]) -> str:
    """What is wrong where most goals are not those of GOGC."""
    growth = numbers.get("gogc", _DEFAULT_GOGC) / 100
    lived = [0, *(told.lives for told in collections)]
    before = [0, *(told.number for told in collections)]
    checked = [
        (told, lives)
        for told, lives, number in zip(collections, lived, before, strict=False)
        if told.number in (1, number + 1)
    ]
    wrong = [
        f"{told.goal} MiB for {lives} MiB live"
        for told, lives in checked
        if not _is_goal(told, 0 if told.number == 1 else lives, growth, "limit" in numbers)
    ]
    if 2 * len(wrong) <= len(checked):
        return ""
    return f"Go's goals are not those of GOGC ({wrong[0]}): the program sets its own"


def _is_goal(told: Told, lives: int, growth: float, limited: bool) -> bool:
    """Whether the goal is what lives, and so many hundredths of that and of stacks and globals. A
    limit can lower it."""
    least = max(lives + growth * (lives + told.other), _LEAST_GOAL * growth)
    # Each of the three is rounded down.
    most = max(lives + 1 + growth * (lives + told.other + 3), _LEAST_GOAL * growth + told.other)
    return (limited or told.goal >= int(least)) and told.goal <= most + _GOAL_SLACK


def _over(setting: Setting, traced: Traced) -> str:
    """Why the limit was not kept, or "": once in a while it is exceeded because the collector did
    not get a core in time, and that says nothing of what lives."""
    limit = _numbers(setting).get(HEAP)
    lived = [(told.lives + told.other) * _MIB for told in traced.collections]
    windows = zip(*(lived[place:] for place in range(_IN_A_ROW)), strict=False)
    most = max(map(min, windows), default=0)
    if limit is None or most < limit:
        return ""
    return (
        f"{most // _MIB} MiB were live in {_IN_A_ROW} collections in a row, "
        f"over the soft limit of {limit // _MIB} MiB"
    )
