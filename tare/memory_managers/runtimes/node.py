"""Node: V8's collector with the sizes of its heap, and what shows that it had them.

Each process leaves a file of observers/runtimes/node/observe.cjs, and V8's trace events, in which
are its collections; docs/runtimes.md says what is made of them.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.memory_managers import runtimes
from tare.memory_managers.catalogue import Option, Recipe
from tare.memory_managers.mmtk import HEAP
from tare.memory_managers.runtimes import Collection, OwnHeap, Pause, Process, Setting
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Outcome

NAME = "node"
TITLE = "Node"
PACKAGE = "nodejs"
TRIAL = ("node", "--eval", "0")
LIMITED = ("node.v8",)
SWEEP = ("node.v8", "node.v8(semi=1MiB)", "node.v8(semi=32MiB)")
TUNED = ("node.v8",)
BY_HAND: Mapping[str, str] = {}
REFERENCE = "v8"
OFF: Mapping[str, Mapping[str, str]] = {}
TELLS_WHEN = True
NO_HEAP = ""
OVER_MALLOC: Mapping[str, Mapping[str, str]] = {}
OWN_HEAP = OwnHeap(
    programs=re.compile(r"node(js)?"),
    mappers=re.compile(r"node(js)?|libnode\.so.*"),
    held="V8 keeps the objects of JavaScript in a heap that it maps itself",
    command=("tare", "compare", "-m", "node.v8", "-m", "node.v8(semi=32MiB)"),
    shows="tries a larger young generation",
)
VARIABLE = "NODE_OPTIONS"
"""Holds options for every Node process below a process."""
_FOLDER_VARIABLE = "TARE_NODE"
_SEEN_SUFFIX = ".process"
_EVENTS_SUFFIX = ".events"
_MIB = 1 << 20
_MOST_SEMI = 64 << 20
"""Half of the young generation, unless it is given; the young one is thrice that."""
_MOST_EVENT_BYTES = 512 << 20
_MOST_SEEN_BYTES = 1 << 20
_REFUSED_EXIT = 9
_ABORTS = (signal.SIGABRT, signal.SIGTRAP, signal.SIGILL)
_SHELL_SIGNAL = 128
_OUT_OF_MEMORY = re.compile(
    r"^.*(JavaScript heap out of memory|Fatal JavaScript (OOM|out of memory)|"
    r"ERR_WORKER_OUT_OF_MEMORY).*$",
    re.MULTILINE | re.IGNORECASE,
)
_REFUSED = re.compile(r"^.*(bad option|not allowed in NODE_OPTIONS|must be \w+).*$", re.MULTILINE)
_CLASHES = {
    HEAP: re.compile(r"--max[-_](old[-_]space|heap)[-_]size\b"),
    "semi": re.compile(r"--(max|min)[-_]semi[-_]space[-_]size\b|--semi[-_]space[-_]growth"),
    "": re.compile(r"--trace[-_]event"),
}
"""Options of the program that say what an option of the manager says; "" always."""
_OPTIONS = (
    Option(
        HEAP,
        "maximum size of the old generation in whole MiB, or a multiple of the minimum, like 2x; "
        "if not set, as V8 chooses",
        "size",
        "",
    ),
    Option(
        "semi",
        "maximum size of a semi-space in whole MiB; the young generation is 3 times that",
        "size",
        "",
        tried=("32MiB", "1MiB", "64MiB", "4MiB"),
    ),
)
_KINDS = {"MinorGC": "young", "MajorGC": "full"}
_STEP = "V8.GCIncrementalMarking"
_NO_COLLECTION = "incremental finalization step"
"""Of a MajorGC of Node 18, which is a step of marking."""
_VERSION_PARTS = ("MAJOR", "MINOR", "PATCH")


@dataclass(frozen=True)
class _Span:
    """A pause as V8 tells it, nanoseconds; ``kind`` is "" for a step of marking, which is for the
    next collection of the whole heap."""

    start: int
    end: int
    cpu: int
    kind: str = ""
    cause: str = ""
    before: int | None = None
    after: int | None = None


def recipes() -> dict[str, Recipe]:
    return {
        f"{NAME}.v8": runtimes.recipe(
            f"{NAME}.v8",
            "copies the young generation, marks the old one concurrently",
            _installed_version(),
            "BSD-3-Clause",
            "https://v8.dev",
            options=_OPTIONS,
            note="serves `node` commands, and what starts one",
        )
    }


def _installed_version() -> str:
    """As Node's header tells it, without starting Node."""
    node = runtimes.found("node")
    if node is None:
        return ""
    try:
        text = (node.parent.parent / "include" / "node" / "node_version.h").read_text()
    except OSError:
        return ""
    parts = [re.search(rf"define NODE_{key}_VERSION (\d+)", text) for key in _VERSION_PARTS]
    return ".".join(part[1] for part in parts if part)


def runs(program: Program) -> bool:
    return Path(program.argv[0]).name in ("node", "nodejs")


def check_setting(setting: Setting) -> None:
    for key, size in _numbers(setting).items():
        if size % _MIB:
            raise UsageError(f"{NAME}.v8({key}={size}B): V8 takes whole MiB")


def _numbers(setting: Setting) -> dict[str, int]:
    return runtimes.numbers(setting, _OPTIONS)


def check(setting: Setting, program: Program) -> None:
    runtimes.refuse_multiple(setting)
    runtimes.inside("node/observe.cjs")
    given = runtimes.variable(program, VARIABLE).split()
    words = [*given, *_own_options(program)]
    for word in words:
        if option := _clash(setting, word):
            raise UsageError(
                f"{program.name}: the option {word} clashes with the manager {NAME}.v8: {option}",
                f"leave {word} out of the command and of {VARIABLE}",
            )


def _own_options(program: Program) -> list[str]:
    """The options before the script of a `node` command."""
    if not runs(program):
        return []
    options = []
    for word in program.argv[1:]:
        if not word.startswith("-") or word == "--":
            break
        options.append(word)
    return options


def _clash(setting: Setting, word: str) -> str:
    """What of the manager says the same as an option of the program, or ""."""
    for option, pattern in _CLASHES.items():
        if pattern.match(word) and (not option or option in setting.options):
            return f"its option {option}= sets the same" if option else "it needs these events"
    return ""


def advice(setting: Setting, program: Program) -> Program:
    numbers = _numbers(setting)
    options = [
        *([f"--max-old-space-size={numbers[HEAP] // _MIB}"] if HEAP in numbers else []),
        *([f"--max-semi-space-size={numbers['semi'] // _MIB}"] if "semi" in numbers else []),
    ]
    return _with_options(program, options) if options else program


def _with_options(program: Program, options: Sequence[str]) -> Program:
    before = runtimes.variable(program, VARIABLE)
    value = " ".join([*([before] if before else []), *options])
    return replace(program, environment={**program.environment, VARIABLE: value})


def under(setting: Setting, program: Program, folder: Path) -> Program:
    options = [
        f"--require={_quoted(str(runtimes.inside('node/observe.cjs')))}",
        "--trace-event-categories=v8",
        f"--trace-event-file-pattern={folder}/${{pid}}-${{rotation}}{_EVENTS_SUFFIX}",
    ]
    changed = _with_options(advice(setting, program), options)
    return replace(changed, environment={**changed.environment, _FOLDER_VARIABLE: str(folder)})


def _quoted(word: str) -> str:
    if not re.search(r'[\s"\\]', word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def read_processes(folder: Path) -> list[Process]:
    return [process for process, _ in _seen(folder)]


def _seen(folder: Path) -> list[tuple[Process, Mapping[str, Any]]]:
    """The Node processes of a run, with what they wrote themselves, in the order of their
    numbers."""
    found = []
    for path in runtimes.left_in(folder, _SEEN_SUFFIX):
        facts = _facts(path)
        if facts is not None:
            files = sorted(folder.glob(f"{facts['pid']}-*{_EVENTS_SUFFIX}"), key=_rotation)
            found.append((_process(facts, files), facts))
    return sorted(found, key=lambda each: each[0].pid)


def _rotation(path: Path) -> int:
    return int(re.findall(r"\d+", path.name)[-1])


def _facts(path: Path) -> Mapping[str, Any] | None:
    with path.open("rb") as file:
        text = file.read(_MOST_SEEN_BYTES)
    try:
        facts = json.loads(text)
        return {
            "pid": int(facts["pid"]),
            "version": str(facts["version"])[:40],
            "arguments": [str(each) for each in facts["arguments"]],
            "heap_limit_bytes": int(facts["heap_limit_bytes"]),
            "ended": facts["ended"] is True,
        }
    except (ValueError, KeyError, TypeError):
        return None  # the process was ended while it wrote


def _process(facts: Mapping[str, Any], files: Sequence[Path]) -> Process:
    events = [event for path in files for event in _events(path)]
    collections, pauses = _collected(_spans(events))
    return Process(
        pid=facts["pid"],
        version=facts["version"],
        collector="v8" if files else "",
        heap_bytes=facts["heap_limit_bytes"],
        ended=facts["ended"],
        collections=tuple(collections),
        pauses=tuple(pauses),
        dropped=sum(path.stat().st_size > _MOST_EVENT_BYTES for path in files),
    )


def _events(path: Path) -> list[Any]:
    if path.stat().st_size > _MOST_EVENT_BYTES:
        return []
    text = path.read_bytes()
    try:
        found = json.loads(text)
    except ValueError:
        # A process that was ended leaves the end out.
        try:
            found = json.loads(text[: text.rfind(b"},{") + 1] + b"]}")
        except ValueError:
            return []
    events = found.get("traceEvents") if isinstance(found, dict) else None
    return [each for each in events if isinstance(each, dict)] if isinstance(events, list) else []


def _spans(events: Sequence[Mapping[str, Any]]) -> list[_Span]:
    """Pauses of all threads that run JavaScript, one within another left out."""
    open_: dict[Any, Mapping[str, Any]] = {}
    found: dict[Any, list[_Span]] = {}
    for event in events:
        name, phase, thread = event.get("name"), event.get("ph"), event.get("tid")
        try:
            if name in _KINDS and phase == "B":
                open_[thread, name] = event
            elif name in _KINDS and phase == "E" and (thread, name) in open_:
                span = _collection_span(open_.pop((thread, name)), event)
                found.setdefault(thread, []).append(span)
            elif isinstance(name, str) and name.startswith(_STEP) and phase == "X":
                start = int(event["ts"]) * 1000
                cpu = int(event["tdur"]) * 1000
                step = _Span(start, start + int(event["dur"]) * 1000, cpu)
                found.setdefault(thread, []).append(step)
        except (KeyError, TypeError, ValueError):
            continue
    return sorted(
        (span for spans in found.values() for span in _outermost(spans)),
        key=lambda span: span.start,
    )


def _collection_span(begin: Mapping[str, Any], end: Mapping[str, Any]) -> _Span:
    cause = str(begin["args"].get("type", ""))[:80]
    return _Span(
        start=int(begin["ts"]) * 1000,
        end=int(end["ts"]) * 1000,
        cpu=(int(end["tts"]) - int(begin["tts"])) * 1000,
        kind="" if cause == _NO_COLLECTION else _KINDS[begin["name"]],
        cause=cause,
        before=int(begin["args"]["usedHeapSizeBefore"]),
        after=int(end["args"]["usedHeapSizeAfter"]),
    )


def _outermost(spans: Sequence[_Span]) -> Iterator[_Span]:
    last = 0
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if span.end > last:
            last = span.end
            yield span


def _collected(spans: Sequence[_Span]) -> tuple[list[Collection], list[Pause]]:
    """A collection of the whole heap has the steps of marking since the one before it."""
    collections: list[Collection] = []
    pauses: list[Pause] = []
    steps: list[_Span] = []
    for span in spans:
        if not span.kind:
            steps.append(span)
            continue
        number = len(collections)
        own = [*steps, span] if span.kind == "full" else [span]
        if span.kind == "full":
            steps = []
        pauses += [
            Pause(each.start, each.end, each.kind or "marking", number, each.cpu) for each in own
        ]
        collections.append(
            Collection(
                number=number,
                kind=span.kind,
                cause=span.cause,
                start_ns=own[0].start,
                end_ns=span.end,
                pause_ns=sum(each.end - each.start for each in own),
                pauses=len(own),
                cpu_ns=sum(each.cpu for each in own),
                used_before=span.before,
                used_after=span.after,
            )
        )
    # Marking that the end of the process cut off was for a collection, too.
    pauses += [Pause(each.start, each.end, "marking", len(collections), each.cpu) for each in steps]
    return collections, sorted(pauses, key=lambda pause: pause.start_ns)


def judge(setting: Setting, outcome: Outcome, folder: Path) -> Outcome:
    if outcome.status is Status.FAILED:
        return _judge_failure(outcome, folder / "stderr")
    if outcome.status is not Status.OK:
        return outcome
    seen = _seen(folder / runtimes.FOLDER)
    if reason := _fault(setting, seen):
        return replace(outcome, status=Status.NOT_LOADED, reason=reason, values={})
    return runtimes.served(setting, outcome, [process for process, _ in seen])


def _judge_failure(outcome: Outcome, errors: Path) -> Outcome:
    aborted = {*_ABORTS, *(_SHELL_SIGNAL + each for each in _ABORTS)}
    said = runtimes.first_line_with(errors, _OUT_OF_MEMORY)
    if said and (outcome.signal in aborted or outcome.exit_code in aborted or "WORKER" in said):
        return replace(outcome, status=Status.OUT_OF_MEMORY, reason=said[-200:])
    if outcome.exit_code == _REFUSED_EXIT and (said := runtimes.first_line_with(errors, _REFUSED)):
        reason = f"Node refused its options: {said[:200]}"
        return replace(outcome, status=Status.NOT_LOADED, reason=reason)
    return outcome


def _fault(setting: Setting, seen: Sequence[tuple[Process, Mapping[str, Any]]]) -> str:
    """Why a run does not count, or ""."""
    if not seen:
        return "no Node process of the run showed its collector"
    numbers = _numbers(setting)
    semi = numbers.get("semi", _MOST_SEMI)
    for process, facts in seen:
        for word in facts["arguments"]:
            if _clash(setting, word):
                return f"Node process {process.pid} was started with {word}"
        if not process.collector:
            return f"Node process {process.pid} left no events of its collector"
        limit = process.heap_bytes or 0
        if HEAP in numbers and not numbers[HEAP] <= limit <= numbers[HEAP] + 3 * semi:
            return (
                f"Node process {process.pid} has a heap of at most {limit} bytes, "
                f"not {numbers[HEAP]} and its young generation"
            )
    return ""
