"""Heap traces in other tools' forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

from tare.answers.exports import traces as trace_export
from tare.answers.exports.traces import (
    TRACE_FORMATS,
    to_collapsed,
    to_dhat,
    to_speedscope,
)
from tare.base.errors import UsageError
from tare.heap_traces import residence
from tare.heap_traces.trace import Trace, open_trace
from tare.report import stacks as stack_export
from tare.studies.drag.stacks import stacks_of
from tests.support.traces import objects_frame, sites_frame, write_trace_folder

END = 200
ROWS: list[dict[str, Any]] = [
    {"birth": 0, "size": 100, "first": 0, "last": 50, "free": 50, "site": 1},
    {"birth": 10, "size": 30, "site": 2},
    {"birth": 20, "size": 10, "first": 21, "last": 22, "free": 100, "site": 3},
    {"birth": 60, "size": 10, "first": 61, "last": 62, "free": 100, "site": 3},
    {"birth": 120, "size": 5, "free": 121},
]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    folder = tmp_path / "made.tare"
    write_trace_folder(folder, objects_frame(ROWS), end_instructions=END)
    return open_trace(folder)


def collapsed(trace: Trace, weight: str) -> dict[str, int]:
    lines = to_collapsed(trace, weight).decode().splitlines()
    return {stack: int(number) for stack, number in (line.rsplit(" ", 1) for line in lines)}


def test_collapsed_stacks(trace: Trace) -> None:
    assert collapsed(trace, "bytes") == {
        "main": 100,
        "main;work": 30,
        "main;work;make": 20,
        "[unknown]": 5,
    }
    assert collapsed(trace, "objects")["main;work;make"] == 2
    # The second object is void from 130 to 155 bytes allocated; the third and fourth are held in
    # vain until 150, from 140 and 150.
    assert collapsed(trace, "vain") == {"main;work": 30 * 25, "main;work;make": 10 * 10}


def test_frames_cannot_break_the_lines(tmp_path: Path) -> None:
    sites = sites_frame().with_columns(function=pl.lit("a;b\nc 7"))
    folder = write_trace_folder(tmp_path / "t.tare", objects_frame(ROWS[:1]), sites)
    assert to_collapsed(open_trace(folder), "bytes") == b"a:b\\nc 7 100\n"


def test_stacks_beyond_the_bound_become_one(trace: Trace) -> None:
    stacks = stacks_of(trace, "bytes", most=2)
    assert [(s.frames[0].name, s.sums["bytes"]) for s in stacks] == [
        ("main", 100),
        ("work", 30),
        (stack_export.OTHER, 25),
    ]


SPEEDSCOPE = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "shared": {
            "type": "object",
            "required": ["frames"],
            "properties": {
                "frames": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "file": {"type": "string"},
                            "line": {"type": "number"},
                        },
                        "additionalProperties": False,
                    },
                }
            },
        },
        "profiles": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "name", "unit", "startValue", "endValue", "samples"],
                "properties": {
                    "type": {"const": "sampled"},
                    "unit": {"enum": ["bytes", "none"]},
                    "samples": {"items": {"items": {"type": "integer", "minimum": 0}}},
                    "weights": {"items": {"type": "number"}},
                },
            },
        },
    },
}
"""What speedscope's own schema asks of files of sampled profiles."""


def test_speedscope(trace: Trace) -> None:
    document = json.loads(to_speedscope(trace, ""))
    jsonschema.validate(document, SPEEDSCOPE)
    frames = document["shared"]["frames"]
    by_name = {profile["name"]: profile for profile in document["profiles"]}
    for profile in by_name.values():
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(number < len(frames) for stack in profile["samples"] for number in stack)
        assert profile["endValue"] == pytest.approx(sum(profile["weights"]))
    profile = by_name["bytes allocated"]
    stacks = [[frames[number]["name"] for number in stack] for stack in profile["samples"]]
    weights = dict(zip(map(tuple, stacks), profile["weights"], strict=True))
    assert weights["main", "work", "make"] == 20
    mean = by_name["unused bytes, the mean over the run"]
    assert sum(mean["weights"]) == pytest.approx((30 * 25 + 10 * 10) / 155, abs=0.01)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, (1 << 63) - 1])
def test_varints(value: int) -> None:
    decoded = 0
    for place, byte in enumerate(stack_export._varint(value)):
        decoded |= (byte & 0x7F) << (7 * place)
    assert decoded == value


def naive_dhat(rows: list[dict[str, Any]], site: int | None, peak: int) -> dict[str, int]:
    mine = [(r["birth"], r.get("free", END), r["size"]) for r in rows if r.get("site") == site]
    held = [
        (sum(s for b, e, s in mine if b <= t < e), sum(1 for b, e, _ in mine if b <= t < e))
        for t in sorted(b for b, _, _ in mine)
    ]
    most = max(held, key=lambda each: each[0])
    left = [r["size"] for r in rows if r.get("site") == site and "free" not in r]
    return {
        "tb": sum(s for _, _, s in mine),
        "tbk": len(mine),
        "tl": sum(e - b for b, e, _ in mine),
        "mb": most[0],
        "mbk": most[1],
        "gb": sum(s for b, e, s in mine if b <= peak < e),
        "gbk": sum(1 for b, e, _ in mine if b <= peak < e),
        "eb": sum(left),
        "ebk": len(left),
    }


@pytest.mark.parametrize("batch_rows", [1, 2, 1 << 18])
@pytest.mark.parametrize("most_at_once", [1, 3, 1 << 20])
def test_dhat_against_a_naive_model(
    trace: Trace, most_at_once: int, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_export, "_MOST_AT_ONCE", most_at_once)
    for module in (trace_export, residence):
        monkeypatch.setattr(module, "BATCH_ROWS", batch_rows)
    document = json.loads(to_dhat(trace, ""))
    assert (document["dhatFileVersion"], document["bklt"]) == (2, True)
    assert (document["te"], document["tg"]) == (END, 20)
    names = document["ftbl"]
    assert names[0] == "[root]"
    points = {tuple(names[n] for n in point.pop("fs")): point for point in document["pps"]}
    chain = ("make (list.c:7)", "work (prog.c:20)", "main (prog.c:3)")
    for site, frames in ((1, chain[2:]), (2, chain[1:]), (3, chain), (None, ("[unknown]",))):
        assert points.pop(frames) == naive_dhat(ROWS, site, 20)
    assert not points


@pytest.mark.parametrize("name", sorted(TRACE_FORMATS))
def test_nothing_allocated(name: str, tmp_path: Path) -> None:
    folder = write_trace_folder(tmp_path / "t.tare", objects_frame([]))
    content = TRACE_FORMATS[name].render(open_trace(folder), "vain")
    assert content or name == "collapsed"


@pytest.mark.parametrize("name", sorted(TRACE_FORMATS))
def test_traces_without_last_uses(name: str, tmp_path: Path) -> None:
    rows = [{"birth": 1, "size": 4, "site": 1}]
    folder = write_trace_folder(tmp_path / "t.tare", objects_frame(rows), observed=["sites"])
    trace = open_trace(folder)
    assert TRACE_FORMATS[name].render(trace, "bytes")
    if name == "collapsed":
        with pytest.raises(UsageError, match="no last uses"):
            TRACE_FORMATS[name].render(trace, "vain")
