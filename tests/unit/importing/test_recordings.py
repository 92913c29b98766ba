"""Recordings of other tools as heap traces."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tare.__main__ import run as tare_command
from tare.answers.exports.traces import TRACE_FORMATS
from tare.base.errors import UsageError
from tare.heap_traces.invariants import violations
from tare.heap_traces.trace import Trace, open_trace
from tare.importing import events, import_recording, lines

HEAD = "v 10400 3\nX program with words\nI 1000 5e2990\n"
END = "c 10\nR 5\n"
NAMED = (
    "s 6 /bin/p\ns 4 main\ns 3 p.c\ns 5 inner\ns 1b operator new(unsigned long)\n"
    "i 10 1 2 3 a\nt 1 0\ni 20 1 4 3 14 2 3 b\nt 2 1\ni 30 1 5\nt 3 2\na 18 1\na 20 3\n"
)


def imported(path: Path, **options: Any) -> Trace:
    target = path.with_name(f"{path.name}.tare")
    shutil.rmtree(target, ignore_errors=True)
    trace = import_recording(path, target, **options)
    assert violations(trace) == {}
    return trace


def importing(tmp_path: Path, text: str | bytes, name: str = "file.1.gz") -> Trace:
    content = text if isinstance(text, bytes) else text.encode()
    (tmp_path / name).write_bytes(content)
    return imported(tmp_path / name)


def objects(trace: Trace) -> pl.DataFrame:
    return trace.objects().collect()


def test_each_column_of_a_small_recording(tmp_path: Path) -> None:
    trace = importing(tmp_path, HEAD + NAMED + "c 5\n+ 0\n+ 1\n+ 0\nc 6\n- 0\n- 1\n" + END)
    table = objects(trace)
    assert table["size"].to_list() == [0x18, 0x20, 0x18]
    assert table["birth_bytes"].to_list() == [0x18, 0x38, 0x50]
    assert table["birth_nanoseconds"].to_list() == [5_000_000, 5_000_001, 5_000_002]
    # Of the two of kind 0 the younger one.
    assert table["free_nanoseconds"].to_list() == [None, 6_000_001, 6_000_000]
    assert table["free_bytes"].to_list() == [None, 0x50, 0x50]
    assert table["birth_instructions"].null_count() == 3
    main = {"function": "main", "object": "/bin/p", "file": "p.c", "line": 10, "offset": 0}
    # What main has inlined is the innermost; operator new is no frame.
    inner = main | {"function": "inner", "line": 20}
    outer = main | {"line": 11}
    sites = table["site"].to_list()
    assert trace.frames_of(0, sites[0]) == [main]
    assert trace.frames_of(0, sites[1]) == [inner, outer, main]
    assert trace.meta["program"]["name"] == "program with words"
    assert trace.meta["complete"] is True
    assert trace.meta["max_live_bytes"] == 0x50
    end = trace.events().filter(pl.col("kind") == "end").collect()
    assert end["nanoseconds"].to_list() == [0x10 * 1_000_000]


def test_older_versions_have_strings_without_lengths(tmp_path: Path) -> None:
    text = "v 10200 2\nX p\ns /bin/p\ns void f(int, char)\ni 10 1 2\nt 1 0\na 8 1\n+ 0\nc 1\n"
    trace = importing(tmp_path, text)
    assert trace.frames_of(0, 1)[0]["function"] == "void f(int, char)"
    raw = "v 10200 1\nx /bin/p\nX p\nm /bin/q 1000 0 100\nt 1010 0\n+ 8 1 aa0\nc 1\n"
    trace = importing(tmp_path, raw)
    assert trace.frames_of(0, 1)[0]["object"] == "/bin/q"
    assert trace.frames_of(0, 1)[0]["offset"] == 0xF


@pytest.mark.parametrize("version", ["", " 0", " 4", " ffffffff"])
def test_other_versions_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(UsageError, match=r"has version \d+ of heaptrack"):
        importing(tmp_path, f"v 10400{version}\nX p\n+ 8 1 aa0\n")


def test_a_command_line_may_have_newlines(tmp_path: Path) -> None:
    text = HEAD.replace("with", "-c\n+ 0\nt = 1\n  q") + NAMED + "+ 0\n" + END
    trace = importing(tmp_path, text)
    assert trace.meta["complete"] is True
    assert trace.meta["objects"] == 1
    assert trace.meta["program"]["argv"] == ["program", "-c"]


def test_what_was_before_an_attachment_is_missing(tmp_path: Path) -> None:
    trace = importing(tmp_path, HEAD + "A\n" + NAMED + "+ 0\n" + END)
    assert trace.meta["complete"] is False
    assert "attached" in trace.meta["reason"]


def test_each_column_of_a_small_log(tmp_path: Path) -> None:
    text = (
        "= Start\n"
        "@ ./p:[0x10] + 0x5000 0x18\n"
        "@ /lib/l.so:(f(char)+0x1a)[0x7fffffff0010] + 0x6000 0\n"
        "@ [0x33] < 0x5000\n@ [0x33] > 0x7000 0x28\n"
        "@ ./p:[0x10] ! 0x7000 0xffffffffffff\n+ (nil) 0xffffffffffffff\n"
        "- 0x9999\n- 0x6000\n+ 0x8000 0x1\n\n= End\n"
    )
    trace = importing(tmp_path, text, "log")
    table = objects(trace)
    assert table["size"].to_list() == [0x18, 0, 0x28, 1]
    assert table["birth_bytes"].to_list() == [0x18, 0x18, 0x28, 0x29]
    assert table["operation"].to_list() == ["malloc", "malloc", "realloc", "malloc"]
    assert table["resized_from"].to_list() == [None, None, 1, None]
    assert table["address"].to_list() == [0x5000, 0x6000, 0x7000, 0x8000]
    assert table["free_nanoseconds"].to_list() == [3, 8, None, None]
    assert table["site"].to_list()[3] is None
    frames = [trace.frames_of(0, site)[0] for site in table["site"].to_list()[:3]]
    assert [(f["function"], f["object"], f["offset"]) for f in frames] == [
        ("", "./p", 0xF),
        ("f(char)", "/lib/l.so", 0),
        ("", "", 0x32),
    ]
    assert trace.processes[0]["unknown_frees"] == 1


def test_a_place_whose_file_cannot_exist(tmp_path: Path) -> None:
    trace = importing(tmp_path, "= Start\n@ ./p\0q:[0x10] + 0x5000 0x18\n= End\n", "log")
    assert objects(trace)["size"].to_list() == [0x18]


def test_a_realloc_over_the_edge_of_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BATCH_EVENTS", 1)
    monkeypatch.setattr(lines, "_PIECE_BYTES", 16)
    monkeypatch.setattr(lines, "_PIECES", 1)
    text = "= Start\n@ [0x1] + 0x5000 0x18\n@ [0x3] < 0x5000\n@ [0x3] > 0x7000 0x28\n"
    table = objects(importing(tmp_path, text, "log"))
    assert table["birth_bytes"].to_list() == [0x18, 0x28]
    assert table["resized_from"].to_list() == [None, 1]


# ---- pairing ----


def reference(steps: Sequence[tuple[str, int]], *, youngest: bool) -> list[tuple[int, int | None]]:
    """By a table of what is live: for each birth its step, and the step of its free."""
    ends: dict[int, int] = {}
    live: dict[int, list[int]] = {}
    for step, (what, key) in enumerate(steps):
        stack = live.setdefault(key, [])
        if what == "+":
            if not youngest:
                stack.clear()
            stack.append(step)
        elif stack:
            ends[stack.pop()] = step
    births = [step for step, (what, _) in enumerate(steps) if what == "+"]
    return [(step, ends.get(step)) for step in births]


STEPS = st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 5)), max_size=60)
QUICK = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.thorough
@QUICK
@given(steps=STEPS, batch=st.sampled_from([1, 7, 1000]), piece=st.sampled_from([16, 1024]))
def test_frees_find_their_allocations(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[tuple[str, int]],
    batch: int,
    piece: int,
) -> None:
    """In a raw file and in one by kinds, however it is cut into blocks and batches."""
    monkeypatch.setattr(events, "BATCH_EVENTS", batch)
    monkeypatch.setattr(lines, "_PIECE_BYTES", piece)
    monkeypatch.setattr(lines, "_PIECES", 1)
    raw = "v 10400 3\nx 6 /bin/p\nX p\nm 1 -\nt 10 0\n" + "".join(
        f"+ 8 1 {key + 1:x}\n" if what == "+" else f"- {key + 1:x}\n" for what, key in steps
    )
    assert ends_of(importing(tmp_path, raw + END)) == reference(steps, youngest=False)
    # heaptrack writes no free of a kind of which nothing is live.
    live: Counter[int] = Counter()
    known = []
    for what, key in steps:
        if what == "+" or live[key]:
            live[key] += 1 if what == "+" else -1
            known.append((what, key))
    kinds = "".join(f"a {key + 1:x} 1\n" for key in range(6))
    named = HEAD + "i 10 0\nt 1 0\n" + kinds + "".join(f"{w} {k:x}\n" for w, k in known)
    assert ends_of(importing(tmp_path, named + END)) == reference(known, youngest=True)


def ends_of(trace: Trace) -> list[tuple[int, int | None]]:
    rows = objects(trace).select("birth_nanoseconds", "free_nanoseconds").rows()
    return [(birth - 1, None if free is None else free - 1) for birth, free in rows]


@pytest.mark.parametrize(
    "line",
    [
        "+ 2", "+ ", "+", "+ x", "- 1", "+ 1 1", "a 8", "a 8 9", "a 1000000000000000 1", "t 9 1",
        "t 1 9", "s 9 short", "i", "i 10 99", "c", "c fffffffffffffffff", "q", "\x00",
        "+ 00000000000000000",
    ],
)  # fmt: skip
def test_reading_ends_before_a_line_that_is_wrong(tmp_path: Path, line: str) -> None:
    text = HEAD + NAMED + f"+ 0\n+ 0\n{line}\n+ 0\n" + END
    trace = importing(tmp_path, text)
    wrong = text[: text.index(f"\n{line}\n")].count("\n") + 2
    assert trace.meta["objects"] == 2
    assert trace.meta["reason"].endswith(f"its line {wrong} is not of its format")


@pytest.mark.parametrize(
    "line", ["m", "m 9 short 0", "m 1 x 10 20", "m 1 x zz", "+ 8 2 10", "+ 8 1", "t 1", "s 1 a"]
)
def test_reading_ends_before_a_raw_line_that_is_wrong(tmp_path: Path, line: str) -> None:
    text = f"v 10400 3\nx 6 /bin/p\nX p\nt 10 0\n+ 8 1 aa0\n{line}\n+ 8 1 bb0\n"
    trace = importing(tmp_path, text)
    assert trace.meta["objects"] == 1
    assert trace.meta["reason"].endswith("its line 6 is not of its format")


@pytest.mark.parametrize(
    "line", ["+ 0x5 ", "@ a [0x1] * 0x5 0x5", "+ 5 0x5", "- 0x5 0x5", "@ x + 0x5 0x5", "- 0xg"]
)
def test_reading_ends_before_an_operation_that_is_wrong(tmp_path: Path, line: str) -> None:
    trace = importing(tmp_path, f"= Start\n+ 0x7 0x7\n{line}\n+ 0x8 0x8\n", "log")
    assert trace.meta["objects"] == 1
    assert trace.meta["reason"].endswith("its line 3 is not of its format")


@QUICK
@given(
    data=st.binary(max_size=300),
    start=st.sampled_from(["v 10400 3\n", "v 1 3\nx 1 a\n", "= Start\n"]),
)
def test_any_bytes_give_a_trace_or_a_message(tmp_path: Path, data: bytes, start: str) -> None:
    importing(tmp_path, start.encode() + data)


@QUICK
@given(
    text=st.lists(
        st.one_of(
            st.sampled_from(NAMED.splitlines()),
            st.from_regex(r"[+\-atcims] ([0-9a-f]{1,3} ?){0,5}", fullmatch=True),
            st.from_regex(r"(@ .{0,9}\] )?[-+<>!] 0x[0-9a-f]{1,3}( 0x[0-9a-f]{1,3})?"),
        ),
        max_size=40,
    ),
    start=st.sampled_from(["v 10400 3", "v 10400 3\nx 1 a", "= Start"]),
)
def test_lines_that_are_nearly_right_give_sound_traces(
    tmp_path: Path, text: list[str], start: str
) -> None:
    importing(tmp_path, "\n".join([start, *text]) + "\n")


def test_a_line_without_an_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    trace = importing(tmp_path, (HEAD + "X" * (4 << 20)).encode())
    assert "a line of more than" in trace.meta["reason"]


# ---- the command ----


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("heaptrack.p.7").write_text(HEAD + NAMED + "+ 0\n+ 1\n- 1\n" + END)
    assert tare_command(["import", "heaptrack.p.7"]) == 0
    output = capsys.readouterr().out
    assert "tare import: program with words" in output
    assert "recorded by heaptrack 1.4.0" in output
    assert "trace: heaptrack.p.7.tare" in output
    assert "Valgrind" not in output
    assert tare_command(["import", "heaptrack.p.7"]) == 2
    assert "--force" in capsys.readouterr().err
    assert tare_command(["import", "heaptrack.p.7", "--force", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert tare_command(["drag", "heaptrack.p.7.tare"]) == 2
    assert "no last uses" in capsys.readouterr().err
    Path("cut").write_text(HEAD + NAMED + "+ 0\n+ ")
    assert tare_command(["import", "cut", "-o", "cut.tare"]) == 1
    assert "not complete: the end of cut is missing" in capsys.readouterr().err
    assert open_trace("cut.tare").meta["objects"] == 1
    assert sorted(os.listdir()) == ["cut", "cut.tare", "heaptrack.p.7", "heaptrack.p.7.tare"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read: it is empty"),
        (b"hello\n", "not a recording that Tare can read"),
        (b"\x28\xb5\x2f\xfd", "its compressed data is cut off"),
        (gzip.compress(b"hello\n", mtime=0), "not a recording that Tare can read"),
        (b"v 10400 9\n", "has version 9 of heaptrack's format"),
    ],
)
def test_files_that_cannot_be_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    target = tmp_path / "t.tare"
    assert tare_command(["import", str(tmp_path / "file"), "-o", str(target)]) == 2
    assert said in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_no_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        assert tare_command(["import", str(path), "-o", str(tmp_path / "t")]) == 2
        assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("form", TRACE_FORMATS)
def test_exports_of_an_imported_recording(
    tmp_path: Path, form: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    trace = importing(tmp_path, HEAD + NAMED + "+ 0\n+ 1\n+ 0\n- 1\n" + END)
    weight = ["--weight", "bytes"] if TRACE_FORMATS[form].weighted else []
    assert tare_command(["export", "-f", form, *weight, str(trace.folder)]) == 0
    content = capsysbinary.readouterr().out
    if form == "collapsed":
        assert content.splitlines() == [b"main 48", b"main;main;inner 32"]
    elif form == "dhat":
        document = json.loads(content)
        assert (document["tu"], document["tg"], document["te"]) == ("ns", 3, 16_000_000)
        assert [point["gb"] for point in document["pps"]] == [48, 32]
    else:
        assert content


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """No import leaves a folder that is not finished."""
    yield
    assert not [path for path in tmp_path.rglob(".*") if path.suffix == ".partial"]
