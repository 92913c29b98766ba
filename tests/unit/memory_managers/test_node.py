"""V8's collector: its names and options, and the events that it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tare.base.errors import UsageError
from tare.memory_managers.manager import resolve
from tare.memory_managers.runtimes import Setting, node
from tare.programs.program import Program


@pytest.mark.parametrize(
    ("manager", "words", "variable"),
    [
        ("node.v8(heap=64MiB)", ["--max-old-space-size=64", "x.js"], ""),
        ("node.v8(heap=64MiB)", ["--max_heap_size=64", "x.js"], ""),
        ("node.v8(semi=2MiB)", ["--max-semi-space-size=1", "x.js"], ""),
        ("node.v8(heap=64MiB)", ["x.js"], "--max-old-space-size=64"),
        ("node.v8", ["--trace-event-categories=node", "x.js"], ""),
    ],
)
def test_options_that_clash_are_refused(manager: str, words: list[str], variable: str) -> None:
    setting = resolve(manager).runtime
    assert setting is not None
    program = Program("test", ("node", *words), environment={node.VARIABLE: variable})
    with pytest.raises(UsageError, match="clashes"):
        node.check(setting, program)


def test_options_that_do_not_clash_are_not_refused() -> None:
    program = Program("test", ("node", "--max-old-space-size=64", "x.js", "--max-heap-size=1"))
    node.check(Setting("node", "v8"), program)
    node.check(Setting("node", "v8", {"semi": "2MiB"}), program)


def event(name: str, phase: str, at: int, **more: Any) -> dict[str, Any]:
    return {"pid": 9, "tid": 9, "ts": at, "tts": at // 2, "ph": phase, "name": name, **more}


def write_process(folder: Path, *files: str) -> None:
    facts = {
        "pid": 9,
        "version": "20.1.2",
        "arguments": [],
        "heap_limit_bytes": 5,
        "ended": True,
    }
    (folder / "9.process").write_text(json.dumps(facts))
    for number, text in enumerate(files, 1):
        (folder / f"9-{number}.events").write_text(text)


def test_events_become_collections_and_pauses(tmp_path: Path) -> None:
    before, after = {"usedHeapSizeBefore": 50, "type": "x"}, {"usedHeapSizeAfter": 20}
    step = {"dur": 10, "tdur": 4}
    first = [
        event("MinorGC", "B", 100, args=before),
        event("V8.GCScavenger", "X", 101, dur=8, tdur=7, args={}),
        event("MinorGC", "E", 110, args=after),
        event("V8.GCIncrementalMarking", "X", 200, args={}, **step),
        event("V8.GCIncrementalMarkingStart", "X", 202, args={}, dur=2, tdur=2),
    ]
    second = [
        event("MajorGC", "B", 250, args={**before, "type": "incremental finalization step"}),
        event("MajorGC", "E", 255, args=after),
        event("MajorGC", "B", 300, args=before),
        event("V8.GCIncrementalMarking", "X", 305, args={}, **step),
        event("MajorGC", "E", 340, args=after),
        event("MajorGC", "E", 350, args=after),
        event("V8.GCIncrementalMarking", "X", 400, args={}, **step),
        event("MinorGC", "B", 500, args={}),
    ]
    texts = [json.dumps({"traceEvents": each}) for each in (first, second)]
    write_process(tmp_path, *texts)
    (process,) = node.read_processes(tmp_path)
    young, full = process.collections
    assert (young.kind, young.start_ns, young.end_ns, young.cpu_ns) == (
        "young",
        100_000,
        110_000,
        5000,
    )
    assert (full.kind, full.start_ns, full.pauses, full.pause_ns) == ("full", 200_000, 3, 55_000)
    assert (full.used_before, full.used_after, full.cause) == (50, 20, "x")
    assert [(each.start_ns, each.collection) for each in process.pauses] == [
        (100_000, 0),
        (200_000, 1),
        (250_000, 1),
        (300_000, 1),
        (400_000, 2),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"traceEvents": 3}',
        '{"traceEvents": [1, {"name": "MinorGC", "ph": "E"}, {"name": []}]}',
        '{"traceEvents":[{"name":"MinorGC","ph":"B","tid":1},{"name":"MinorGC","ph":"E","tid":1}]}',
        '{"traceEvents":[{"name":"V8.GCIncrementalMarking","ph":"X","ts":"x"}]}',
    ],
)
def test_damaged_events_are_left_out(tmp_path: Path, text: str) -> None:
    write_process(tmp_path, text)
    (process,) = node.read_processes(tmp_path)
    assert not process.collections
    (tmp_path / "9.process").write_text('{"pid": "x"}')
    assert not node.read_processes(tmp_path)


def test_events_that_were_cut_off_are_read_up_to_there(tmp_path: Path) -> None:
    before, after = {"usedHeapSizeBefore": 50}, {"usedHeapSizeAfter": 20}
    events = [event("MinorGC", "B", 1, args=before), event("MinorGC", "E", 2, args=after)]
    text = json.dumps({"traceEvents": [*events, event("MinorGC", "B", 3)]}, separators=(",", ":"))
    write_process(tmp_path, text[:-20])
    (process,) = node.read_processes(tmp_path)
    assert len(process.collections) == 1


@pytest.mark.parametrize(
    "name", ["node.g1", "node.v8(young=1MiB)", "node.v8(heap=1500KiB)", "node.v8(semi=0)"]
)
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        resolve(name)
