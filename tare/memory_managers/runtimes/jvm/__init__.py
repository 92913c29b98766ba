"""JVMs: their collectors, the options that choose one, and what shows that it served.

The agent of observers/jvm and the JVM's own log leave what they saw in a folder, two files for each
process; docs/jvm.md says what is made of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tare.base.errors import MissingError, UsageError
from tare.base.native import native_file
from tare.memory_managers import runtimes
from tare.memory_managers.catalogue import Recipe
from tare.memory_managers.runtimes import Process, Setting
from tare.memory_managers.runtimes.jvm import gc_log
from tare.memory_managers.runtimes.jvm.collectors import COLLECTORS, MMTK, OWN, PLAN, options_of
from tare.memory_managers.runtimes.jvm.processes import LOG_SUFFIX, read_processes
from tare.programs import java_command
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Outcome

NAME = "jvm"
TITLE = "Java virtual machines"
PACKAGE = "default-jdk-headless"
TRIAL = ("java", "-version")
LIMITED = ("jvm.serial", "jvm.parallel", "jvm.g1", "jvm.shenandoah", "jvm.zgc")
SWEEP = LIMITED
TUNED = ("jvm.own", *LIMITED)
BY_HAND: Mapping[str, str] = {}
REFERENCE = "serial"
OFF: Mapping[str, Mapping[str, str]] = {"epsilon": {}, MMTK: {"plan": "NoGC"}}
TELLS_WHEN = True
NO_HEAP = ""
OVER_MALLOC: Mapping[str, Mapping[str, str]] = {}
OWN_HEAP = None
OBJECT = "lib/libtare-jvm.so"
_OUT_OF_MEMORY_EXIT = 3
_REFUSED_EXIT = 1
_NEEDED_COLLECTION = "internal error: entered unreachable code: GC triggered in nogc"
"""What MMTk's NoGC ends with instead of an OutOfMemoryError."""
_MAPPINGS = re.compile(r"Failed at (un)?protecting memory .{1,200} kind: OutOfMemory")
"""What PageProtect ends with at the kernel's limit of mappings, which are a few for each object."""
_LEAST_SLACK = 4 << 20
"""A JVM rounds its heap up, to whole regions for instance."""
_TRIAL_SECONDS = 20.0
_FULL_EVERY = "TARE_JVM_FULL_EVERY"
_THREAD_BUFFER = "64k"
"""With a fixed period: the part of a thread's buffer that a collection finds unused is allocated,
too, so the buffers must be small and of one size."""

_NO_SCAVENGE = "-XX:-ScavengeBeforeFullGC"
_NEVER_SCAVENGES = 25
"""The release that has no such option, and no young collection before a full one."""


_CLASHES = (
    (
        "",
        re.compile(
            r"-XX:[+-]Use((Serial|Parallel|ParallelOld|G1|Shenandoah|Z|Epsilon|ConcMarkSweep)GC"
            r"|ThirdPartyHeap)"
        ),
    ),
    (
        "heap",
        re.compile(
            r"-Xm[sx]|-XX:(MaxHeapSize|InitialHeapSize|MinHeapSize|\w*RAM(Percentage|Fraction))="
        ),
    ),
    ("young", re.compile(r"-Xmn|-XX:(MaxNewSize|NewSize|NewRatio|SurvivorRatio)=")),
    (
        "period",
        re.compile(
            r"-Xmn|-XX:(MaxNewSize|NewSize|NewRatio|\w*SurvivorRatio|TLABSize"
            r"|ThirdPartyHeapOptions)="
        ),
    ),
    ("threads", re.compile(r"-XX:(ParallelGCThreads|ConcGCThreads)=")),
)
"""Options of the program that say what an option of the manager says; "" stands for its name."""
_TOO_SMALL = re.compile(
    r"Too small|OutOfMemoryError|reserve enough space|Try increasing|"
    r"Invalid (maximum|initial) heap|outside the allowed range|larger than the maximum heap"
)


def recipes() -> dict[str, Recipe]:
    return {
        f"{NAME}.{key}": runtimes.recipe(
            f"{NAME}.{key}",
            facts.title,
            _installed_version(),
            "GPL-2.0 with Classpath exception",
            "https://openjdk.org",
            options=options_of(key),
            note="serves programs that are `java` commands, or that start one",
        )
        for key, facts in COLLECTORS.items()
    }


def _installed_version() -> str:
    java = runtimes.found("java")
    return "" if java is None else _version_of(java)


@cache
def _version_of(java: Path) -> str:
    """As the JVM's folder tells it, without starting it; "" where it does not."""
    try:
        text = (java.parent.parent / "release").read_text(errors="replace")
    except OSError:
        return ""
    match = re.search(r'^JAVA_VERSION="([\w.+-]{1,40})"', text, re.MULTILINE)
    return match[1] if match else ""


def _java_of(program: Program) -> Path | None:
    """What the command runs as `java`, or finds under that name."""
    word = program.argv[0] if java_command.is_java(program) else "java"
    if "/" in word:
        return (program.directory or Path.cwd()).joinpath(word).resolve()
    path = program.environment.get("PATH", os.environ.get("PATH", os.defpath))
    found = shutil.which(word, path=path)
    return None if found is None else Path(found).resolve()


def runs(program: Program) -> bool:
    return java_command.is_java(program)


def check_setting(setting: Setting) -> None:
    _arguments(setting)
    _plan(setting)


def _numbers(setting: Setting) -> dict[str, int]:
    counted = {name: value for name, value in setting.options.items() if name != PLAN.name}
    options = [each for each in options_of(setting.collector) if each != PLAN]
    return runtimes.numbers(replace(setting, options=counted), options)


def _plan(setting: Setting) -> dict[str, str]:
    """The variable that names the plan of MMTk. Raises UsageError."""
    given = setting.options.get(PLAN.name)
    if given is None:
        return {}
    if setting.collector != MMTK:
        raise UsageError(f"{NAME}.{setting.collector} has no option '{PLAN.name}'")
    try:
        return PLAN.environment_for(given)
    except ValueError as error:
        raise UsageError(f"{NAME}.{MMTK}({PLAN.name}={given}): {error}") from None


def _arguments(setting: Setting) -> list[str]:
    """The JVM's options for a setting."""
    facts = COLLECTORS[setting.collector]
    numbers = _numbers(setting)
    words = [*facts.options]
    if "heap" in numbers:
        words += [f"-Xms{numbers['heap']}", f"-Xmx{numbers['heap']}"]
    if "threads" in numbers:
        words.append(f"-XX:{facts.threads}={numbers['threads']}")
    if "young" in numbers:
        words.append(f"-Xmn{numbers['young']}")
    if "period" in numbers:
        if "young" in numbers:
            raise UsageError(f"{NAME}.{setting.collector}: give young= or period=, not both")
        words += _period_arguments(setting.collector, numbers["period"])
    if "full-period" in numbers:
        _full_every(setting)
    return words


def _arguments_for(setting: Setting, program: Program) -> list[str]:
    """Those that the program's JVM knows."""
    java = _java_of(program)
    release = "" if java is None else _version_of(java).partition(".")[0]
    never_scavenges = release.isdecimal() and int(release) >= _NEVER_SCAVENGES
    return [word for word in _arguments(setting) if not (never_scavenges and word == _NO_SCAVENGE)]


def _period_arguments(collector: str, period: int) -> list[str]:
    """A young generation of a fixed size, in which exactly ``period`` bytes can be allocated. It
    has two more parts, for survivors, of which each takes the whole divided by a ratio. MMTk has
    none, and adds up what threads took from the heap whenever one takes more."""
    if collector == MMTK:
        return [f"-XX:ThirdPartyHeapOptions=stress_factor={period},precise_stress=false"]
    unit = COLLECTORS[collector].unit
    if period % unit or period < 8 * unit:
        raise UsageError(
            f"{NAME}.{collector}(period={period}B): its young generation has parts of "
            f"{unit >> 10}KiB",
            f"give a multiple of {unit >> 10}KiB, {8 * unit >> 10}KiB at least",
        )
    survivors = period // (8 * unit) * unit
    young = period + 2 * survivors
    ratio = young // survivors
    while young // ratio // unit * unit > survivors:
        ratio += 1
    words = [f"-Xmn{young}", f"-XX:TLABSize={_THREAD_BUFFER}", "-XX:-ResizeTLAB"]
    if collector == "parallel":
        ratios = [f"-XX:InitialSurvivorRatio={ratio}", f"-XX:MinSurvivorRatio={min(ratio, 3)}"]
        return [*words, "-XX:-UseAdaptiveSizePolicy", _NO_SCAVENGE, *ratios]
    return [*words, f"-XX:SurvivorRatio={ratio - 2}"]


def _full_every(setting: Setting) -> int:
    """After how many young collections a full one is asked for; 0 for never."""
    numbers = _numbers(setting)
    full = numbers.get("full-period")
    if full is None:
        return 0
    period = numbers.get("period", 0)
    if not period or full % period:
        raise UsageError(
            f"{NAME}.{setting.collector}: full-period must be a multiple of period",
            "give both, as in jvm.serial(period=4MiB, full-period=64MiB)",
        )
    return full // period


def check(setting: Setting, program: Program) -> None:
    agent()
    runtimes.refuse_multiple(setting)
    if java_command.is_java(program) and _java_of(program) is None:
        raise MissingError("java is not installed", f"apt-get install {PACKAGE}")
    given = {*setting.options, *([] if setting.collector == OWN else [""])}
    for word in java_command.options_of(program):
        for option, pattern in _CLASHES:
            if option in given and pattern.match(word):
                said = f"its option {option}=" if option else "its name"
                raise UsageError(
                    f"{program.name}: the JVM's option {word} clashes with the manager "
                    f"{NAME}.{setting.collector}: {said} sets the same",
                    f"leave {word} out of the command and of JDK_JAVA_OPTIONS",
                )


def without(program: Program, *settings: str) -> Program:
    """The program without options of its own that say what ``settings`` of a manager say: names of
    its options, or "" for the collector."""
    return java_command.without(program, lambda word: _says(word, settings))


def own_options(program: Program, *settings: str) -> list[str]:
    """The options that ``without`` leaves out."""
    return [word for word in java_command.options_of(program) if _says(word, settings)]


def _says(word: str, settings: Sequence[str]) -> bool:
    return any(name in settings and pattern.match(word) for name, pattern in _CLASHES)


def has(program: Program, collector: str) -> bool:
    """Whether the JVM of a `java` command starts with that collector."""
    try:
        done = subprocess.run(
            [program.argv[0], *COLLECTORS[collector].options, "-version"],
            env={**os.environ, **without(program, "").environment},
            cwd=program.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def advice(setting: Setting, program: Program) -> Program:
    """The program with the options that choose the collector, as a user would type them."""
    return java_command.with_options(
        without(program, "", *setting.options), _arguments_for(setting, program)
    )


def agent() -> Path:
    """The object that a JVM loads. Raises MissingError."""
    try:
        return native_file(OBJECT)
    except MissingError:
        raise MissingError(
            "the observer of JVMs is not built", f"apt-get install {PACKAGE}, and build Tare again"
        ) from None


def under(setting: Setting, program: Program, folder: Path) -> Program:
    every = _full_every(setting)
    log = gc_log.OF_MMTK if _uses_mmtk(setting, program) else gc_log.SELECTION
    options = [
        *_arguments_for(setting, program),
        "-XX:+ExitOnOutOfMemoryError",
        # Warnings go to standard output unless told otherwise, which is compared; and first of all
        # is what no version knows every part of.
        "-Xlog:disable",
        f"-Xlog:{log}:file={folder}/%p{LOG_SUFFIX}:{gc_log.DECORATIONS}:filecount=0",
        "-Xlog:all=warning:stderr",
        f"-agentpath:{agent()}={folder}",
    ]
    changed = java_command.with_options(program, options)
    variables = {**_plan(setting), **({_FULL_EVERY: str(every)} if every else {})}
    return replace(changed, environment={**changed.environment, **variables})


def _uses_mmtk(setting: Setting, program: Program) -> bool:
    (option,) = COLLECTORS[MMTK].options
    return setting.collector == MMTK or option in java_command.options_of(program)


def judge(setting: Setting, outcome: Outcome, folder: Path) -> Outcome:
    processes = read_processes(folder / runtimes.FOLDER)
    if outcome.status is Status.FAILED:
        return _judge_failure(
            outcome, processes, runtimes.tail_of(folder / "stdout") + outcome.error_tail
        )
    if outcome.status is not Status.OK:
        return outcome
    if reason := _fault(setting, processes):
        return replace(outcome, status=Status.NOT_LOADED, reason=reason, values={})
    served = runtimes.served(setting, outcome, processes)
    if any(process.collector == MMTK for process in processes):  # it tells no kinds
        known = {name: v for name, v in served.values.items() if name != "full_collections"}
        return replace(served, values=known)
    return served


def _fault(setting: Setting, processes: Sequence[Process]) -> str:
    """Why a run does not count, or ""."""
    if not processes:
        return "no JVM of the run showed its collector"
    asked = _numbers(setting).get("heap")
    for process in processes:
        if not process.collector or setting.collector not in (OWN, process.collector):
            return f"the JVM of process {process.pid} uses {process.collector or 'no collector'}"
        heap = process.heap_bytes
        if heap is None and process.collector == MMTK:  # it says nothing of it
            continue
        if asked is not None and (
            heap is None or not asked <= heap <= asked + max(_LEAST_SLACK, asked // 16)
        ):
            return f"the JVM of process {process.pid} has a heap of {heap} bytes, not {asked}"
    return ""


def _judge_failure(outcome: Outcome, processes: Sequence[Process], said: str) -> Outcome:
    """A JVM that ran out of memory exits with a status of its own, and without its orderly end; one
    whose heap is too small to start with does not even come to its collector."""
    begun = [process for process in processes if process.collector]
    if not all(process.ended for process in begun):
        match = re.search(r"Terminating due to (java\.lang\.OutOfMemoryError[^\n]{0,100})", said)
        if match or outcome.exit_code == _OUT_OF_MEMORY_EXIT:
            reason = match[1] if match else "the JVM exited: out of memory"
            return replace(outcome, status=Status.OUT_OF_MEMORY, reason=reason)
    if _NEEDED_COLLECTION in said:
        reason = "the heap was full, and this plan of MMTk never collects"
        return replace(outcome, status=Status.OUT_OF_MEMORY, reason=reason)
    if _MAPPINGS.search(said):
        reason = (
            "MMTk could not protect its pages, for the kernel allows a process no more mappings: "
            "raise vm.max_map_count by sysctl, or choose another plan"
        )
        return replace(outcome, reason=reason)
    if begun or outcome.exit_code != _REFUSED_EXIT:
        return outcome
    if _TOO_SMALL.search(said):
        reason = "the heap is too small for the JVM to start with"
        return replace(outcome, status=Status.OUT_OF_MEMORY, reason=reason)
    if "Could not create the Java Virtual Machine" in said:
        reason = f"the JVM refused its options: {said.strip().splitlines()[0][:200]}"
        return replace(outcome, status=Status.NOT_LOADED, reason=reason)
    return outcome
