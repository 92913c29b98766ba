"""JVMs: their collectors, the options that choose one, and what shows that it served.

The agent of observers/jvm and the JVM's own log leave what they saw in a folder, two files for each
process; docs/jvm.md says what is made of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tare.base.errors import MissingError, UsageError
from tare.base.native import native_file
from tare.memory_managers import runtimes
from tare.memory_managers.catalogue import Option, Recipe
from tare.memory_managers.mmtk import HEAP
from tare.memory_managers.runtimes import Collection, Pause, Process, Setting
from tare.memory_managers.runtimes.jvm import gc_log
from tare.memory_managers.runtimes.jvm.gc_log import GcLog, Logged
from tare.memory_managers.runtimes.jvm.stops import Stop, Stops, read_stops
from tare.programs import java_command
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Outcome

NAME = "jvm"
MMTK = "mmtk"
OWN = "own"
"""The collector that runs when none is asked for."""
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
_STOPS_SUFFIX = ".stops"
_LOG_SUFFIX = ".gc.log"
_OUT_OF_MEMORY_EXIT = 3
_REFUSED_EXIT = 1
_OF_MMTK = "ThirdPartyHeapOperation"
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


@dataclass(frozen=True)
class Collector:
    """``uses`` is how the JVM's log calls it. ``unit`` is the grain of its young generation in
    bytes, 0 where that has no fixed size. ``stops`` says that it does all its work in pauses."""

    title: str
    flag: str
    uses: str
    stops: bool
    threads: str = ""
    young: bool = False
    unit: int = 0
    extra: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """What a JVM is told to use it."""
        return (*self.extra, *([f"-XX:+{self.flag}"] if self.flag else []))


COLLECTORS: Mapping[str, Collector] = {
    "serial": Collector(
        "single-threaded, generational, all work in pauses",
        "UseSerialGC",
        "Serial",
        stops=True,
        young=True,
        unit=64 << 10,
    ),
    "parallel": Collector(
        "parallel, generational, all work in pauses",
        "UseParallelGC",
        "Parallel",
        stops=True,
        threads="ParallelGCThreads",
        young=True,
        unit=512 << 10,
    ),
    "g1": Collector(
        "in regions, marks concurrently, moves objects in short pauses",
        "UseG1GC",
        "G1",
        stops=True,
        threads="ParallelGCThreads",
        young=True,
    ),
    "shenandoah": Collector(
        "in regions, marks and moves objects concurrently",
        "UseShenandoahGC",
        "Shenandoah",
        stops=False,
        threads="ConcGCThreads",
    ),
    "zgc": Collector(
        "coloured pointers, marks and moves objects concurrently",
        "UseZGC",
        "The Z Garbage Collector",
        stops=False,
        threads="ConcGCThreads",
    ),
    "epsilon": Collector(
        "never collects: the program runs until the heap is full",
        "UseEpsilonGC",
        "Epsilon",
        stops=True,
        extra=("-XX:+UnlockExperimentalVMOptions",),
    ),
    MMTK: Collector(
        "a collector of MMTk, for a JVM that was built with it",
        "UseThirdPartyHeap",
        "MMTk",
        stops=False,
    ),
    OWN: Collector("as the program's command or the JVM chooses", "", "", stops=False),
}

_HEAP = Option(
    HEAP,
    "fixed size of the heap in bytes, or a multiple of the minimum heap, like 2x; if not set, as "
    "the JVM chooses",
    "size",
    "",
    tried=("128MiB", "512MiB", "64MiB", "256MiB", "1GiB", "32MiB"),
)
_YOUNG = Option(
    "young",
    "bytes of the young generation; if not set, as the JVM chooses",
    "size",
    "",
    tried=("64MiB", "16MiB", "256MiB"),
)
_THREADS = Option(
    "threads",
    "threads of the collector; if not set, as the JVM chooses",
    "int",
    "",
    tried=("1",),
)
_PERIOD = Option("period", "bytes allocated between young collections", "size", "")
_PERIOD_OF_MMTK = Option("period", "bytes allocated between collections", "size", "")
_FULL_PERIOD = Option("full-period", "bytes allocated between full collections", "size", "")
_PLANS = (
    "Compressor",
    "ConcurrentImmix",
    "GenCopy",
    "GenImmix",
    "Immix",
    "MarkCompact",
    "MarkSweep",
    "NoGC",
    "PageProtect",
    "SemiSpace",
    "StickyImmix",
)
_PLAN = Option(
    "plan",
    "the collector of MMTk; if not set, the one that the JVM was built with",
    "choice",
    "MMTK_PLAN",
    {plan: plan for plan in _PLANS},
)
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


def options_of(collector: str) -> tuple[Option, ...]:
    facts = COLLECTORS[collector]
    return (
        _HEAP,
        *([_YOUNG] if facts.young else []),
        *([_THREADS] if facts.threads else []),
        *([_PERIOD, _FULL_PERIOD] if facts.unit else []),
        *([_PERIOD_OF_MMTK, _PLAN] if collector == MMTK else []),
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
    counted = {name: value for name, value in setting.options.items() if name != _PLAN.name}
    options = [each for each in options_of(setting.collector) if each != _PLAN]
    return runtimes.numbers(replace(setting, options=counted), options)


def _plan(setting: Setting) -> dict[str, str]:
    """The variable that names the plan of MMTk. Raises UsageError."""
    given = setting.options.get(_PLAN.name)
    if given is None:
        return {}
    if setting.collector != MMTK:
        raise UsageError(f"{NAME}.{setting.collector} has no option '{_PLAN.name}'")
    try:
        return _PLAN.environment_for(given)
    except ValueError as error:
        raise UsageError(f"{NAME}.{MMTK}({_PLAN.name}={given}): {error}") from None


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
        f"-Xlog:{log}:file={folder}/%p{_LOG_SUFFIX}:{gc_log.DECORATIONS}:filecount=0",
        "-Xlog:all=warning:stderr",
        f"-agentpath:{agent()}={folder}",
    ]
    changed = java_command.with_options(program, options)
    variables = {**_plan(setting), **({_FULL_EVERY: str(every)} if every else {})}
    return replace(changed, environment={**changed.environment, **variables})


def _uses_mmtk(setting: Setting, program: Program) -> bool:
    (option,) = COLLECTORS[MMTK].options
    return setting.collector == MMTK or option in java_command.options_of(program)


def read_processes(folder: Path) -> list[Process]:
    """What the JVMs of a run left in ``folder``, in the order of their numbers."""
    processes = []
    for path in runtimes.left_in(folder, _STOPS_SUFFIX):
        seen = read_stops(path)
        log = path.with_name(path.name.removesuffix(_STOPS_SUFFIX) + _LOG_SUFFIX)
        if seen is not None and log.exists():
            processes.append(_process(seen, gc_log.read_gc_log(log)))
    return sorted(processes, key=lambda process: process.pid)


def _process(seen: Stops, log: GcLog) -> Process:
    collector = _collector_named(log.uses)
    if collector == MMTK:
        log = _with_stops_as_collections(log)
    pauses = _pauses(log, seen.stops)
    return Process(
        pid=seen.pid,
        version=log.version,
        collector=collector or log.uses,
        heap_bytes=log.heap_bytes,
        ended=seen.ended_ns != 0,
        collections=tuple(_collections(log, pauses)),
        pauses=tuple(pauses),
        collector_cpu_ns=seen.collector_cpu_ns,
        observer_cpu_ns=seen.observer_cpu_ns,
        allocated_bytes=(
            log.allocated_bytes
            if seen.ended_ns and collector and COLLECTORS[collector].stops
            else None
        ),
        stall_ns=log.stall_ns,
        dropped=seen.dropped,
    )


def _with_stops_as_collections(log: GcLog) -> GcLog:
    """MMTk's collections have no lines of their own: each is a safepoint of that name."""
    stops = [each for each in log.safepoints if each.operation == _OF_MMTK]
    collections = [
        Logged(number, stop.start_ns, stop.end_ns, {"Pause"}, [stop.end_ns])
        for number, stop in enumerate(stops)
    ]
    return replace(log, collections=tuple(collections))


def _collector_named(uses: str) -> str:
    return next((key for key, each in COLLECTORS.items() if uses and each.uses == uses), "")


_RANK = {"concurrent": 0, "young": 1, "mixed": 2, "full": 3}
"""A pause in which several collections ended is that of the greatest."""
_OPEN_AT_ONCE = 4
"""So many collections can be under way: a young one within one of the whole heap, say."""


def _pauses(log: GcLog, stops: Sequence[Stop]) -> list[Pause]:
    """The union of what the log and the agent saw, in the order of time."""
    found = []
    place = 0
    for safepoint in sorted(log.safepoints, key=lambda each: each.end_ns):
        start, end, inside = safepoint.start_ns, safepoint.end_ns, []
        while place < len(stops) and stops[place].start_ns <= end:
            stop = stops[place]
            place += 1
            if stop.finish_ns < start:
                found.append(Pause(stop.start_ns, stop.finish_ns, "", cpu_ns=stop.cpu_ns))
            else:
                inside.append(stop)
        cpu_ns = sum(stop.cpu_ns for stop in inside) if inside else None
        start = min([start, *(stop.start_ns for stop in inside)])
        end = max([end, *(stop.finish_ns for stop in inside)])
        found.append(Pause(start, end, safepoint.operation, cpu_ns=cpu_ns))
    found += [
        Pause(each.start_ns, each.finish_ns, "", cpu_ns=each.cpu_ns) for each in stops[place:]
    ]
    numbers = _Numbers(log.collections)
    return [replace(pause, collection=numbers.of(pause)) for pause in found]


class _Numbers:
    """Finds the collection that a pause was for."""

    def __init__(self, collections: Sequence[Logged]) -> None:
        self._collections = collections
        self._starts = [each.first_ns for each in collections]
        self._stopped = sorted(
            (at, _RANK[each.kind], each.number) for each in collections for at in each.stopped_at
        )
        self._stopped_at = [at for at, _, _ in self._stopped]

    def of(self, pause: Pause) -> int:
        """Its number, or -1."""
        first = bisect_left(self._stopped_at, pause.start_ns)
        last = bisect_right(self._stopped_at, pause.end_ns)
        if first < last:
            return max(self._stopped[first:last], key=lambda each: each[1:])[2]
        if pause.cpu_ns is None:  # the agent, too, saw no collection in it
            return -1
        place = bisect_right(self._starts, pause.end_ns)
        for each in reversed(self._collections[max(place - _OPEN_AT_ONCE, 0) : place]):
            if each.last_ns >= pause.start_ns:
                return each.number
        return -1


def _collections(log: GcLog, pauses: Sequence[Pause]) -> list[Collection]:
    by_number: dict[int, list[Pause]] = {}
    for pause in pauses:
        by_number.setdefault(pause.collection, []).append(pause)
    return [_collection(each, by_number.get(each.number, [])) for each in log.collections]


def _collection(logged: Logged, pauses: Sequence[Pause]) -> Collection:
    times = [pause.cpu_ns for pause in pauses]
    return Collection(
        number=logged.number,
        kind=logged.kind,
        cause=logged.cause,
        start_ns=min([logged.first_ns, *(pause.start_ns for pause in pauses)]),
        end_ns=max([logged.last_ns, *(pause.end_ns for pause in pauses)]),
        pause_ns=sum(pause.end_ns - pause.start_ns for pause in pauses),
        pauses=len(pauses),
        cpu_ns=None if None in times or not times else sum(each or 0 for each in times),
        used_before=logged.used_before,
        used_after=logged.used_after,
    )


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
