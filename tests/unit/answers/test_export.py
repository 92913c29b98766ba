"""Exports: other tools' forms, with names and values that try to break them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.answers.exports.formats import (
    FORMATS,
    to_bencher,
    to_csv,
    to_hyperfine,
    to_json,
    to_latex,
    to_markdown,
    to_perfetto,
)
from tare.base.errors import UsageError
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, measurement_schema
from tare.records.runs import Outcome, Record, Run
from tare.records.summary import summarise
from tare.studies.proximity.analysis import Events, Halts, halts
from tare.studies.proximity.observe import Seen
from tare.studies.proximity.question import TIMELINE_EVENTS, timeline
from tests.support.campaigns import described

NUMBER_OR_NULL = {"type": ["number", "null"]}
TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["tare", "schema", "study", "measurements", "summary"],
    "additionalProperties": False,
    "properties": {
        "tare": TEXT,
        "schema": {"const": 1},
        "study": TEXT,
        "measurements": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["program", "manager", "invocation", "metric", "unit", "status"],
                "additionalProperties": False,
                "properties": {
                    "program": TEXT,
                    "manager": TEXT,
                    "invocation": {"type": "integer"},
                    "metric": TEXT,
                    "value": {"type": "number"},
                    "unit": TEXT,
                    "status": {"enum": [str(status) for status in Status]},
                },
                "if": {"properties": {"status": {"const": "ok"}}},
                "else": {"not": {"required": ["value"]}},
            },
        },
        "summary": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    *("program", "manager", "metric", "median", "low", "high"),
                    *("ratio", "ratio_low", "ratio_high", "verdict"),
                ],
                "additionalProperties": False,
                "properties": {
                    **dict.fromkeys(("program", "manager", "metric", "verdict"), TEXT),
                    **dict.fromkeys(
                        ("median", "low", "high", "ratio", "ratio_low", "ratio_high"),
                        NUMBER_OR_NULL,
                    ),
                },
            },
        },
    },
}
Row = tuple[str, str, int, str, float | None, str]


def make(rows: list[Row], programs: list[dict[str, Any]] | None = None) -> Results:
    """``rows``: program, manager, invocation, metric, value, status."""
    frame = pl.DataFrame(
        [
            (
                "compare",
                program,
                manager,
                invocation,
                order,
                metric,
                value,
                METRICS[metric].unit,
                status,
                "executed",
            )
            for order, (program, manager, invocation, metric, value, status) in enumerate(rows)
        ],
        schema=measurement_schema(),
        orient="row",
    )
    document = described("compare", [], ["glibc"])
    document["programs"] = [
        {**described("compare", [each["name"]], ["glibc"])["programs"][0], **each}
        for each in programs or []
    ]
    return Results(Path("results"), document, frame)


def usual(program: str = "gawk", manager: str = "mimalloc") -> Results:
    rows: list[Row] = []
    for invocation, seconds in enumerate((1.0, 1.1, 1.2, 1.3) * 2):
        for name, factor in (("glibc", 1.0), (manager, 0.5)):
            rows.append((program, name, invocation, "wall_seconds", seconds * factor, "ok"))
            rows.append((program, name, invocation, "user_seconds", 0.8 * factor, "ok"))
            rows.append((program, name, invocation, "system_seconds", 0.1, "ok"))
            rows.append((program, name, invocation, "peak_resident_bytes", 2.0**20, "ok"))
    rows.append((program, "broken", 0, "wall_seconds", None, "timeout"))
    argv = ["gawk", "-f", "a b.awk"]
    return make(rows, [{"name": program, "argv": argv}])


def summary_of(results: Results) -> pl.DataFrame:
    return summarise(results.measurements, "glibc", 1)


names = st.text(min_size=1, max_size=30).filter(lambda text: text not in ("glibc", "broken"))


@pytest.mark.thorough
@given(program=names, manager=names)
def test_json_of_any_name_loads_and_keeps_its_schema(program: str, manager: str) -> None:
    results = usual(program, manager)
    text = FORMATS["json"].render(results, summary_of(results))
    document = json.loads(text)
    jsonschema.validate(document, SCHEMA)
    assert {row["program"] for row in document["measurements"]} == {program}
    values = [r["value"] for r in document["measurements"] if r["status"] == "ok"]
    assert values == results.measurements.filter(pl.col("status") == "ok")["value"].to_list()


def test_json_keeps_a_failed_run_without_a_value() -> None:
    results = usual()
    (failed,) = [
        r for r in to_json(results, summary_of(results))["measurements"] if r["manager"] == "broken"
    ]
    assert failed["status"] == "timeout"
    assert "value" not in failed


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_has_no_number_that_json_lacks(value: float) -> None:
    results = make([("p", "glibc", 0, "wall_seconds", value, "ok")])
    empty = summary_of(usual()).clear()
    document = json.loads(FORMATS["json"].render(results, empty))
    assert "value" not in document["measurements"][0]


@given(program=names, manager=names)
def test_csv_reads_back_with_no_cell_that_is_a_formula(program: str, manager: str) -> None:
    results = usual(program, manager)
    rows = list(csv.DictReader(io.StringIO(to_csv(results), newline="")))
    assert len(rows) == results.measurements.height
    assert list(rows[0]) == results.measurements.columns
    for row in rows:
        assert not row["program"].startswith(("=", "+", "-", "@", "\t", "\r"))
        assert row["program"].removeprefix("'") == program.removeprefix("'")
    read = [float(row["value"]) for row in rows if row["value"]]
    assert read == results.measurements["value"].drop_nulls().to_list()


def test_csv_leaves_negative_numbers_alone() -> None:
    results = make([("p", "glibc", 0, "wall_seconds", -1.5, "ok")])
    (row,) = csv.DictReader(io.StringIO(to_csv(results)))
    assert row["value"] == "-1.5"


@pytest.mark.thorough
@given(program=names, manager=names)
def test_markdown_is_one_table_whatever_the_names(program: str, manager: str) -> None:
    lines = to_markdown(summary_of(usual(program, manager))).splitlines()
    assert len(lines) == 2 + 3
    unescaped = [line.replace("\\|", "") for line in lines]
    assert {line.count("|") for line in unescaped} == {7}


def test_markdown_says_what_is_known() -> None:
    text = to_markdown(summary_of(usual()))
    assert "| `gawk` | `glibc` | 1.15 s | baseline | 1.00 MiB | baseline |" in text
    assert "| `gawk` | `mimalloc` | 575 ms | **0.500 (" in text
    assert "| `gawk` | `broken` | no data |" in text


BENCHER_SCHEMA = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {
                f"{bound}value": {"type": "number"} for bound in ("", "lower_", "upper_")
            },
            "required": ["value"],
            "additionalProperties": False,
        },
    },
}
"""After Bencher's reference of its metric format."""
BENCHER_LONGEST_BENCHMARK, BENCHER_LONGEST_MEASURE = 1024, 64


@pytest.mark.thorough
@given(program=names, manager=names)
def test_bencher_form_of_any_name_keeps_its_schema(program: str, manager: str) -> None:
    document = to_bencher(summary_of(usual(program * 100, manager)))
    jsonschema.validate(document, BENCHER_SCHEMA)
    assert len(document) == 2
    assert all(0 < len(name) <= BENCHER_LONGEST_BENCHMARK for name in document)
    slugs = {slug for measures in document.values() for slug in measures}
    assert all(len(slug) <= BENCHER_LONGEST_MEASURE and "_" not in slug for slug in slugs)


def test_bencher_form_has_the_medians_and_their_bounds() -> None:
    measures = to_bencher(summary_of(usual()))["gawk under mimalloc"]
    assert measures["wall-seconds"]["value"] == pytest.approx(0.575)
    assert measures["latency"]["value"] == pytest.approx(0.575e9)
    wall = measures["wall-seconds"]
    assert wall["lower_value"] <= wall["value"] <= wall["upper_value"]
    assert measures["peak-resident-bytes"]["value"] == 1 << 20


def plain_latex(text: str) -> str:
    """Without what LaTeX reads as one character, or as a command that the table is made of."""
    words = ("textasciitilde", "textasciicircum", "textbackslash", "textless", "textgreater")
    for command in words:
        text = text.replace(f"\\{command}{{}}", "")
    for character in "&%$#_{}":
        text = text.replace(f"\\{character}", "")
    return text


@pytest.mark.thorough
@given(program=names, manager=names)
def test_latex_is_one_table_whatever_the_names(program: str, manager: str) -> None:
    lines = to_latex(summary_of(usual(program, manager))).splitlines()
    assert lines[1] == "\\begin{tabular}{llrrrr}"
    assert lines[-1] == "\\end{tabular}"
    rows = lines[5:-2]
    assert len(rows) == 3
    for row in rows:
        bare = plain_latex(row.removesuffix(" \\\\"))
        spans = bare.count("\\multicolumn{2}")
        assert bare.count("&") + spans == 5
        rest = bare.replace("\\multicolumn{2}{r}{", "").replace("\\textbf{", "").replace("}", "")
        assert not set(rest) & set("\\{%$#_^~")


def test_latex_says_what_is_known() -> None:
    text = to_latex(summary_of(usual()))
    assert "gawk & glibc & 1.15 s & baseline & 1.00 MiB & baseline \\\\" in text
    assert "gawk & mimalloc & 575 ms & \\textbf{0.500 (" in text
    assert "gawk & broken & \\multicolumn{2}{r}{no data}" in text


def test_hyperfine_form_has_the_statistics_of_the_runs() -> None:
    glibc, mimalloc = to_hyperfine(usual())["results"]
    assert glibc["command"] == "gawk -f 'a b.awk'  # glibc"
    assert mimalloc["parameters"] == {"manager": "mimalloc"}
    times = [0.5, 0.55, 0.6, 0.65] * 2
    assert mimalloc["times"] == times
    assert mimalloc["mean"] == pytest.approx(0.575)
    assert mimalloc["stddev"] == pytest.approx(statistics.stdev(times))
    assert mimalloc["median"] == pytest.approx(0.575)
    assert (mimalloc["min"], mimalloc["max"]) == (0.5, 0.65)
    assert (mimalloc["user"], mimalloc["system"]) == (pytest.approx(0.4), pytest.approx(0.1))
    assert mimalloc["memory_usage_byte"] == [1 << 20] * 8
    assert mimalloc["exit_codes"] == [0] * 8


def test_hyperfine_form_of_a_single_run_has_no_deviation() -> None:
    (entry,) = to_hyperfine(make([("p", "glibc", 0, "wall_seconds", 1.0, "ok")]))["results"]
    assert entry["stddev"] is None
    assert "memory_usage_byte" not in entry


def test_every_format_renders_text() -> None:
    results = usual()
    for name, form in FORMATS.items():
        assert form.title
        if name == "perfetto":
            continue  # of results with a timeline: below
        if name == "sarif":  # of results with advice: tests/unit/studies/test_actions.py
            with pytest.raises(UsageError, match="tare compare name no lines"):
                form.render(results, summary_of(results))
            continue
        assert form.render(results, summary_of(results)).endswith("\n"), name


# ---- a timeline ----


def seen() -> Seen:
    """Two threads with events of 10 microseconds, 100 apart; a collection after each ten of them,
    and a sleep of one thread."""
    starts = np.arange(2000, dtype=np.int64) * 100_000
    events = Events(
        np.repeat(starts, 2),
        np.full(4000, 10_000, np.int64),
        np.zeros(4000, np.int64),
        np.zeros(4000, np.int64),
        np.tile(np.array([71, 72], np.int64), 2000),
    )
    collections = [(start + 20_000, start + 50_000, "collection") for start in starts[::10]]
    sleep = Halts(*(np.array([n], np.int64) for n in (100_120_000, 100_130_000, 2, 71)))
    return Seen(events, halts(collections).joined(sleep), 0, "")


def test_perfetto_form_is_a_timeline_of_each_run(tmp_path: Path) -> None:
    recorded = timeline(seen())
    assert len(recorded["events"]) == 4000 < TIMELINE_EVENTS
    details = {"timeline": recorded}
    records = [
        Record(Run("proximity", "p<q>", manager, 0, order), Outcome(Status.OK, details=details))
        for order, manager in enumerate(("jvm.g1", "jvm.serial"), 1)
    ]
    (tmp_path / "runs.jsonl").write_text("".join(f"{record.to_line()}\n" for record in records))
    found = json.loads(
        FORMATS["perfetto"].render(Results(tmp_path, {}, pl.DataFrame()), pl.DataFrame())
    )
    rows = found["traceEvents"]
    assert {row["ph"] for row in rows} == {"M", "X"}
    names = {(row["pid"], row["tid"], row["args"]["name"]) for row in rows if row["ph"] == "M"}
    assert {name for pid, _, name in names if pid == 2} == {
        "p<q> under jvm.serial, run 1", "all threads", "thread 71", "thread 72",
    }  # fmt: skip
    slices = [row for row in rows if row["ph"] == "X" and row["pid"] == 1]
    tracks = {name: tid for pid, tid, name in names if pid == 1}
    on = Counter((row["name"], row["tid"]) for row in slices)
    assert on["event", tracks["thread 71"]] == on["event", tracks["thread 72"]] == 2000
    assert on["collection", tracks["all threads"]] == 200
    assert on["park", tracks["thread 71"]] == 1
    assert {row["dur"] for row in slices if row["name"] == "event"} == {10.0}
    assert {row["dur"] for row in slices if row["name"] == "collection"} == {30.0}
    for track in tracks.values():
        mine = sorted((row["ts"], row["ts"] + row["dur"]) for row in slices if row["tid"] == track)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(mine))


def test_perfetto_form_needs_a_timeline(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no timeline"):
        to_perfetto(Results(tmp_path, {}, pl.DataFrame()))
