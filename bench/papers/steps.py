"""What `make papers` runs: one command after the other, each with its results in a folder.

A step that is done leaves a file beside its folder and is not repeated, as long as its commands are
the same. One that was interrupted goes on where it was, as every command of tare does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tare.base.units import format_duration
from tare.programs.suite import load_suite
from tare.studies.breakdown.memory import DEFAULT_MODEL

CHECKOUT = Path(__file__).resolve().parent.parent.parent
JAVA_PROGRAMS = "{results}/java"
JAVA_SPACE = "java-space"
INTERRUPTED = 130


class Size(StrEnum):
    """All of it, in a night on two cores; or a part, to see that everything works."""

    FULL = "full"
    REDUCED = "reduced"


@dataclass(frozen=True)
class Step:
    """``command`` is typed as it stands; ``minutes`` are what it takes on two cores, roughly.
    ``program`` is what the page calls the program of a step that has one, named by its command."""

    name: str
    command: tuple[str, ...]
    minutes: float
    prepare: tuple[str, ...] = ()
    program: str = ""

    def folder(self, results: Path) -> Path:
        return results / self.name

    def mark(self, results: Path) -> Path:
        return results / f"{self.name}.json"

    def typed(self, results: Path) -> list[str]:
        """The command with the folders in it; of tare, with the folder for its results."""
        words = _filled(self.command, results)
        if words[0] == "tare":
            name_of_command = 3 if words[1] == "suite" else 2
            words[name_of_command:name_of_command] = ["-o", str(self.folder(results))]
        return words


def _filled(command: Sequence[str], results: Path) -> list[str]:
    return [word.replace("{results}", str(results)) for word in command]


CLASSICS_OF_1994 = ("kingsley", "bdwgc", "haertel", "lea93", "quickfit")
PERIODS = "8MiB,16MiB,32MiB"
"""Of 2022; those of 2021 were twice as long, and the native program has all of both."""
DELAYS_OF_2022 = ("4KiB", "64KiB", "512KiB", "2MiB")
DELAYS_OF_2021 = ("1B", "4KiB", "40KiB", "512KiB", "1MiB")
ALLOCATORS_OF_2022 = ("tcmalloc", "mimalloc", "snmalloc")
ALLOCATORS_OF_2021 = ("mimalloc", "jemalloc", "hoard", "glibc")
BUFFERS_OF_2021 = ("40KiB", "128KiB")
THREADED_KERNELS = ("server", "false-sharing-active", "false-sharing-passive", "producer-consumer")
MIMALLOC_BENCH = ("bc-cfrac", "abc-espresso", "ghostscript-manual", "redis-commands", "z3-schedule")
SPEC_2006 = ("perl-dictionary", "gcc-compile", "xalan-report", "hmmer-search", "povray-chair")
TRACES = ("bc", "cplusplus", "gawk", "jq", "lua", "make", "perl", "sqlite", "tcc")
TRACES_WHEN_REDUCED = ("gawk", "lua")
LEAST_HEAPS = (
    "glibc",
    "marksweep(mimalloc, every=64KiB)",
    "marksweep(mimalloc, every=128KiB)",
    "semispace",
    "gencopy",
    "immix",
)
REGION_ROUTES = (
    "regions(glibc, as=original)",
    "regions(windowsxp, as=emulation)",
    "regions(dlmalloc27, as=emulation)",
    "regions(glibc, as=region)",
    "regions(glibc, as=reap)",
)


def descendants(paper: str, suite: str = "papers") -> dict[str, list[str]]:
    """By the name of a program in a paper, those of a suite that stand for it."""
    found: dict[str, list[str]] = {}
    for program in load_suite(suite).programs:
        for part in filter(None, program.paper.split(", ")):
            numbers, _, name = part.rpartition(" ")
            if paper in numbers.split(" and "):
                found.setdefault(name, []).append(program.name)
    return found


def steps(size: Size) -> list[Step]:
    """In the order in which they are done: counts first, which a busy machine does not disturb."""
    return [
        *_counted(size),
        *_held(size),
        *_least_heaps(size),
        *_timed(size),
        *_delayed(size),
        *_collected(size),
    ]


def _counted(size: Size) -> Iterator[Step]:
    full = size is Size.FULL
    yield _suite(
        "allocators-count",
        120 if full else 6,
        "papers" if full else "quick",
        _names("001") if full else ("gawk-dictionary", "perl-dictionary", "make-dry-run"),
        CLASSICS_OF_1994,
        "--study",
        "count",
        "--baseline",
        "kingsley",
    )
    yield _suite(
        "programs-count",
        60 if full else 4,
        "papers" if full else "quick",
        _names("002") if full else ("perl-dictionary", "gcc-compile", "lua-compile"),
        ("windowsxp", "glibc"),
        "--study",
        "count",
        "--baseline",
        "windowsxp",
    )
    yield _suite(
        "storage-breakdown",
        15 if full else 1,
        "storage",
        () if full else ("life", "knuth-bendix"),
        (),
        "--study",
        "breakdown",
        "--model",
        DEFAULT_MODEL,
    )
    few = () if full else ("life",)
    yield _suite("sml-breakdown", 5 if full else 1, "storage-sml", few, (), "--study", "breakdown")


def _held(size: Size) -> Iterator[Step]:
    full = size is Size.FULL
    yield _suite(
        "allocators-space",
        40 if full else 3,
        "papers" if full else "quick",
        _names("001") if full else ("gawk-dictionary", "perl-dictionary", "make-dry-run"),
        CLASSICS_OF_1994,
        "--study",
        "space",
        "--baseline",
        "kingsley",
    )
    yield _suite(
        "programs-drag",
        20 if full else 3,
        "papers" if full else "quick",
        _names("002") if full else ("perl-dictionary", "lua-compile"),
        (),
        "--study",
        "drag",
    )
    original = "regions(glibc, as=original)"
    yield _suite(
        "regions-drag",
        20 if full else 3,
        "regions",
        () if full else ("svn-verify", "ldb-add"),
        (original,),
        "--study",
        "drag",
        "--baseline",
        original,
    )


def _least_heaps(size: Size) -> Iterator[Step]:
    for trace in TRACES if size is Size.FULL else TRACES_WHEN_REDUCED:
        managers = _each("-m", LEAST_HEAPS)
        command = ("tare", "minheap", *managers, f"traces/{trace}.tare")
        yield Step(f"least-heap-{trace}", command, 2)
    java = ("python", "-m", "bench.java_space", "--least-heaps", f"{{results}}/{JAVA_SPACE}")
    few = () if size is Size.FULL else ("lucene-index",)
    yield Step(JAVA_SPACE, (*java, *few), 30 if size is Size.FULL else 3)


def _timed(size: Size) -> Iterator[Step]:
    full = size is Size.FULL
    runs = ("-n", "10") if full else ("-n", "2", "--warmup", "0")
    yield _suite(
        "allocators-time",
        30 if full else 2,
        "papers" if full else "quick",
        _names("001") if full else ("gawk-dictionary", "make-dry-run"),
        CLASSICS_OF_1994,
        "--baseline",
        "kingsley",
        *runs,
    )
    few = () if full else ("svn-verify", "ldb-add")
    baseline = ("--baseline", REGION_ROUTES[0])
    yield _suite("regions-time", 5 if full else 2, "regions", few, REGION_ROUTES, *baseline, *runs)


def _delayed(size: Size) -> Iterator[Step]:
    full = size is Size.FULL
    runs = ("-n", "10") if full else ("-n", "2", "--warmup", "0")
    for allocator in ALLOCATORS_OF_2022:
        options = "scope=global, buffer=2MiB"
        none = f"delay({allocator}, size=1B, {options})"
        sizes: tuple[str, ...] = DELAYS_OF_2022 if full else DELAYS_OF_2022[-1:]
        yield _suite(
            f"delay-{allocator}",
            20 if full else 2,
            "papers" if full else "quick",
            (*MIMALLOC_BENCH, *SPEC_2006) if full else ("gawk-dictionary", "lua-compile"),
            (none, *(f"delay({allocator}, size={each}, {options})" for each in sizes)),
            "--baseline",
            none,
            *runs,
        )
    for allocator in ALLOCATORS_OF_2021 if full else ALLOCATORS_OF_2021[:1]:
        for buffer in BUFFERS_OF_2021 if full else BUFFERS_OF_2021[:1]:
            options = f"scope=thread, buffer={buffer}, order=lifo"
            sizes = DELAYS_OF_2021 if full else ("1B", "1MiB")
            yield _suite(
                f"delay-{allocator}-{buffer}",
                8 if full else 1,
                "kernels",
                THREADED_KERNELS if full else ("server",),
                (allocator, *(f"delay({allocator}, size={each}, {options})" for each in sizes)),
                "--baseline",
                allocator,
                *runs,
            )


def _collected(size: Size) -> Iterator[Step]:
    full = size is Size.FULL
    build = ("python3", "workloads/java/build.py", "workloads/java", JAVA_PROGRAMS)
    jar = f"{JAVA_PROGRAMS}/tare-workloads.jar"
    for program in ("h2", "fop", "xalan") if full else ("graph",):
        yield Step(
            f"frequency-{program}",
            ("tare", "frequency", "-m", "jvm.serial", "--every", PERIODS, "--full", "64MiB",
             "-n", "10" if full else "2",
             "--", "java", "-jar", jar, program, "--iterations", "10"),
            15,
            build,
            program,
        )  # fmt: skip
    native = ("gawk", "-f", "workloads/gawk/format.awk", "/usr/share/dict/american-english")
    yield Step(
        "frequency-native",
        ("tare", "frequency", "-m", "mimalloc", "--every", f"{PERIODS},64MiB",
         "--reclaim", "1,4,16", "-n", "12" if full else "2", "--", *native),
        15 if full else 3,
        program="gawk-dictionary",
    )  # fmt: skip
    yield Step(
        "proximity",
        ("tare", "proximity", "-m", "jvm.serial", "-m", "jvm.g1",
         "--collections", "10,100,1000" if full else "100", "-n", "3" if full else "1",
         "-e", "tare.workloads.LuceneSearcher.search",
         "--", "java", "-jar", jar, "lucene-search", "--iterations", "6"),
        30,
        build,
        "lucene-search",
    )  # fmt: skip


def _names(paper: str) -> tuple[str, ...]:
    """The programs of the suite that stand for one of the paper's, each once."""
    return tuple(dict.fromkeys(name for each in descendants(paper).values() for name in each))


def _suite(
    name: str,
    minutes: float,
    suite: str,
    programs: Sequence[str],
    managers: Sequence[str],
    *options: str,
) -> Step:
    chosen = (*_each("-p", programs), *_each("-m", managers), *options)
    return Step(name, ("tare", "suite", "run", suite, *chosen), minutes)


def _each(option: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        yield from (option, value)


def run_all(
    planned: Sequence[Step], results: Path, report: Callable[[str], None]
) -> dict[str, int]:
    """The exit code of each step; stops at an interruption. Steps that are done are not repeated,
    but those are that gave anything else than figures or statuses of programs."""
    results.mkdir(parents=True, exist_ok=True)
    codes = {step.name: code for step in planned if (code := code_of(step, results)) is not None}
    left = [step for step in planned if step.name not in codes]
    report(f"{len(codes)} of {len(planned)} steps are done; {results} has their results")
    expected = spent = 0.0
    for number, step in enumerate(left, 1):
        remaining = 60 * sum(each.minutes for each in left[number - 1 :])
        remaining *= spent / expected if expected else 1
        report(
            f"step {number} of {len(left)}: {step.name}; "
            f"about {format_duration(remaining)} to go in all"
        )
        begun = time.monotonic()
        codes[step.name] = code = _run(step, results)
        spent += time.monotonic() - begun
        expected += 60 * step.minutes
        if code == INTERRUPTED:
            break
    return codes


def code_of(step: Step, results: Path) -> int | None:
    """0 or 1 of a step that was done with these very commands, or None."""
    try:
        mark = json.loads(step.mark(results).read_text())
    except (OSError, ValueError):
        return None
    same = mark.get("command") == list(step.command) and mark.get("code") in (0, 1)
    return int(mark["code"]) if same else None


def _run(step: Step, results: Path) -> int:
    """Its tables go into a file, so that progress can be read; its mark is written at the end."""
    with results.joinpath(f"{step.name}.txt").open("w") as output:
        for command in (_filled(step.prepare, results), step.typed(results)):
            code = _start(command, output.fileno()) if command else 0
            if code not in (0, 1):
                return code
    mark = {"command": step.command, "code": code}
    step.mark(results).write_text(json.dumps(mark, indent=1) + "\n")
    return code


def _start(command: Sequence[str], output: int) -> int:
    """The exit code of a command in the checkout; that of an interruption after Ctrl-C."""
    words = list(command)
    if command[0] == "tare":
        words[:1] = [sys.executable, "-m", "tare"]
    elif command[0] == "python":
        words[0] = sys.executable
    with subprocess.Popen(words, cwd=CHECKOUT, stdout=output) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            return INTERRUPTED
