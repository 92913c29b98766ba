"""CPython: its collector of cycles with the threshold that starts it, or without it.

Most objects are freed by counting references, under every setting; only what is in cycles waits for
the collector. Each process loads observers/runtimes/cpython/sitecustomize.py, which writes what the
collector did; docs/runtimes.md says what is made of it.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.memory_managers import runtimes
from tare.memory_managers.catalogue import Option, Recipe
from tare.memory_managers.runtimes import Collection, OwnHeap, Pause, Process, Setting
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Outcome

NAME = "cpython"
TITLE = "CPython"
PACKAGE = "python3"
TRIAL = ("python3", "-c", "pass")
LIMITED = ()
SWEEP = (
    "cpython.gc",
    "cpython.gc(threshold=100)",
    "cpython.gc(threshold=10000)",
    "cpython.gc(threshold=100000)",
    "cpython.off",
)
TUNED = (
    "cpython.gc",
    "cpython.off",
    "cpython.malloc(glibc)",
    "cpython.malloc(jemalloc)",
    "cpython.malloc(mimalloc)",
)
BY_HAND = {
    "off": "call gc.disable(), after which cycles are never freed",
    "threshold": "call gc.set_threshold({})",
}
REFERENCE = ""
_NOTHING = "off"
OFF: Mapping[str, Mapping[str, str]] = {_NOTHING: {}}
TELLS_WHEN = True
NO_HEAP = "CPython collects by counts of objects; tare compare shows its peak memory"
MALLOC = "malloc"
OVER_MALLOC = {MALLOC: {"PYTHONMALLOC": "malloc"}}
OWN_HEAP = OwnHeap(
    programs=re.compile(r"python(3(\.\d+)?)?"),  # those without a global lock have another heap
    mappers=re.compile(r"(lib)?python(3(\.\d+)?)?(\.so.*)?"),
    held="CPython serves objects of up to 512 bytes by its own pymalloc, from arenas that it maps",
    command=("tare", "weigh", "-m", "cpython.malloc"),
    shows="shows all objects, by line of Python (3.11 to 3.14)",
    served="PYTHONMALLOC=malloc is set here, so malloc serves all objects; without it pymalloc "
    "serves those of up to 512 bytes, from arenas that CPython maps",
)
_PATH = "PYTHONPATH"
_FOLDER_VARIABLE = "TARE_CPYTHON"
_ASKED_VARIABLE = "TARE_CPYTHON_GC"
_SEEN_SUFFIX = ".process"
_ROWS_SUFFIX = ".collections"
_ROW = struct.Struct("<qqqii")
_MOST_ROWS = 1 << 21
_MOST_SEEN_BYTES = 1 << 16
_OLDEST = 2
_OUT_OF_MEMORY = re.compile(r"^MemoryError\b.*$", re.MULTILINE)
_COMMAND = re.compile(r"python(\d(\.\d+)?t?)?")
_IGNORES_PATH = re.compile(r"-[bBdEhiIOPqRsSuvVx]*[EIS][bBdEhiIOPqRsSuvVx]*")
"""Options of Python, alone or several in one word, with which it does not look at the path."""
_TITLES = {
    MALLOC: "malloc for every object, instead of pymalloc for those up to 512 bytes",
    "gc": "counts references, and collects cycles when enough containers are new",
    "off": "counts references, and never collects cycles",
}
_OPTIONS: dict[str, tuple[Option, ...]] = {
    MALLOC: (),
    "gc": (
        Option(
            "threshold",
            "new containers, less those freed, that start a collection of the youngest; if not "
            "set, as CPython or the program chooses",
            "int",
            "",
            tried=("10000", "100000", "200"),
        ),
    ),
    "off": (),
}


def recipes() -> dict[str, Recipe]:
    return {
        f"{NAME}.{key}": runtimes.recipe(
            f"{NAME}.{key}",
            title,
            "of the program",
            "PSF-2.0",
            "https://docs.python.org/3/library/gc.html",
            options=_OPTIONS[key],
            note="serves `python3` commands, and what starts one"
            + (
                "; takes a manager: cpython.malloc(jemalloc), without one glibc"
                if key == MALLOC
                else ""
            ),
        )
        for key, title in _TITLES.items()
    }


def runs(program: Program) -> bool:
    return _COMMAND.fullmatch(Path(program.argv[0]).name) is not None


def check_setting(setting: Setting) -> None:
    _numbers(setting)


def _numbers(setting: Setting) -> dict[str, int]:
    return runtimes.numbers(setting, _OPTIONS[setting.collector])


def check(setting: Setting, program: Program) -> None:
    runtimes.inside("cpython/sitecustomize.py")
    if not runs(program):
        return
    for word in program.argv[1:]:
        if not word.startswith("-") or word in ("-", "-c", "-m"):
            return
        if _IGNORES_PATH.fullmatch(word):
            raise UsageError(
                f"{program.name}: with {word} Python does not load Tare's observer, which the "
                f"manager {NAME}.{setting.collector} needs",
                f"leave {word} out",
            )


def advice(setting: Setting, program: Program) -> Program:
    added = OVER_MALLOC.get(setting.collector, {})
    return replace(program, environment={**program.environment, **added})


def under(setting: Setting, program: Program, folder: Path) -> Program:
    # By way of a link: the path is a list with colons.
    path = folder / NAME
    path.symlink_to(runtimes.inside("cpython/sitecustomize.py").parent)
    before = runtimes.variable(program, _PATH)
    asked = "off" if setting.collector == _NOTHING else str(_numbers(setting).get("threshold", ""))
    variables = {
        **advice(setting, program).environment,
        _PATH: ":".join([str(path), *([before] if before else [])]),
        _FOLDER_VARIABLE: str(folder),
        _ASKED_VARIABLE: asked,
    }
    return replace(program, environment=variables)


def read_processes(folder: Path) -> list[Process]:
    return [process for process, _ in _seen(folder)]


def _seen(folder: Path) -> list[tuple[Process, Mapping[str, Any]]]:
    """The Python processes of a run, with what they wrote of themselves, in the order of their
    numbers."""
    found = []
    for path in runtimes.left_in(folder, _SEEN_SUFFIX):
        facts = _facts(path)
        rows = path.with_suffix(_ROWS_SUFFIX)
        if facts is not None and rows.exists():
            found.append((_process(facts, rows), facts))
    return sorted(found, key=lambda each: each[0].pid)


def _facts(path: Path) -> Mapping[str, Any] | None:
    with path.open("rb") as file:
        text = file.read(_MOST_SEEN_BYTES)
    try:
        facts = json.loads(text)
        return {
            "pid": int(facts["pid"]),
            "version": str(facts["version"])[:40],
            "enabled": facts["enabled"] is True,
            "threshold": int(facts["threshold"]),
            "collections": int(facts["collections"]),
            "ended": facts["ended"] is True,
            "pymalloc_blocks": int(facts["pymalloc_blocks"]),
        }
    except (ValueError, KeyError, TypeError):
        return None  # the process was ended while it wrote


def _process(facts: Mapping[str, Any], path: Path) -> Process:
    collections = _collections(path)
    return Process(
        pid=facts["pid"],
        version=facts["version"],
        collector="gc" if facts["enabled"] else _NOTHING,
        heap_bytes=None,
        ended=facts["ended"],
        collections=tuple(collections),
        pauses=tuple(
            Pause(each.start_ns, each.end_ns, each.kind, each.number, each.cpu_ns)
            for each in collections
        ),
        collector_cpu_ns=sum(each.cpu_ns or 0 for each in collections),
        dropped=max(facts["collections"] - len(collections), 0),
    )


def _collections(path: Path) -> list[Collection]:
    found: list[Collection] = []
    with path.open("rb") as file:
        while len(found) < _MOST_ROWS and len(row := file.read(_ROW.size)) == _ROW.size:
            start, end, cpu, generation, _ = _ROW.unpack(row)
            if not 0 < start <= end:
                break
            found.append(
                Collection(
                    number=len(found),
                    kind="full" if generation == _OLDEST else "young",
                    cause="",
                    start_ns=start,
                    end_ns=end,
                    pause_ns=end - start,
                    pauses=1,
                    cpu_ns=max(cpu, 0),
                )
            )
    return found


def judge(setting: Setting, outcome: Outcome, folder: Path) -> Outcome:
    if outcome.status is Status.FAILED:
        said = runtimes.first_line_with(folder / "stderr", _OUT_OF_MEMORY)
        if said and outcome.exit_code == 1:
            return replace(outcome, status=Status.OUT_OF_MEMORY, reason=said[:200])
        return outcome
    if outcome.status is not Status.OK:
        return outcome
    seen = _seen(folder / runtimes.FOLDER)
    if reason := _fault(setting, seen):
        return replace(outcome, status=Status.NOT_LOADED, reason=reason, values={})
    return runtimes.served(setting, outcome, [process for process, _ in seen])


def _fault(setting: Setting, seen: Sequence[tuple[Process, Mapping[str, Any]]]) -> str:
    """Why a run does not count, or ""."""
    if not seen:
        return (
            "no CPython process of the run showed its collector; with -I, -E or -S Python does not "
            "load Tare's observer"
        )
    threshold = _numbers(setting).get("threshold")
    for process, facts in seen:
        if setting.collector == MALLOC:
            if facts["pymalloc_blocks"]:
                return f"pymalloc serves process {process.pid}"
        elif process.collector != setting.collector:
            turned = "on" if process.collector == "gc" else "off"
            return f"the program turned the collector of process {process.pid} {turned}"
        if threshold is not None and facts["threshold"] != threshold:
            return f"the program set the threshold of process {process.pid} to {facts['threshold']}"
        if process.dropped:
            return f"{process.dropped} collections of process {process.pid} were not seen"
    return ""
