"""The instrument's raw recording: read in a stream, whole or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tare.base.errors import TareError
from tare.heap_traces.recording import TABLES, Frame, TableReader, read_frames, read_processes
from tests.support.recordings import numbers, write_process, write_table

WORDS = st.integers(0, (1 << 64) - 1)
FIRST_LINE = f"tare-table 1 marks {' '.join(TABLES['marks'])}\n".encode()


def read(path: Path, name: str, **options: Any) -> tuple[dict[str, NDArray[np.uint64]], str]:
    """The whole table, and what is wrong with it."""
    reader = TableReader(path, name, **options)
    batches = list(reader)
    columns = {
        column: np.concatenate([batch[column] for batch in batches] or [numbers()])
        for column in TABLES[name]
    }
    assert {len(values) for values in columns.values()} == {reader.rows}
    return columns, reader.damage


@given(
    st.integers(1, 40).flatmap(lambda n: st.lists(st.tuples(*[WORDS] * 4), min_size=n, max_size=n)),
    st.integers(0, 64),
    st.integers(1, 7),
    st.integers(1, 50),
)
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, ...]],
    bits: int,
    block_rows: int,
    batch_rows: int,
) -> None:
    path = tmp_path_factory.mktemp("table") / "pointers"
    values = np.array(rows, np.uint64) >> np.uint64(min(bits, 63))
    columns = dict(zip(TABLES["pointers"], values.T, strict=True))
    write_table(path, "pointers", columns, block_rows)
    found, damage = read(path, "pointers", batch_rows=batch_rows)
    assert damage == ""
    for name, column in columns.items():
        assert found[name].tolist() == column.tolist()
    sizes = [len(batch["source"]) for batch in TableReader(path, "pointers", (), batch_rows)]
    assert all(size == batch_rows for size in sizes[:-1])
    assert sizes[-1] <= batch_rows


def marks(rows: int) -> dict[str, NDArray[np.uint64]]:
    return {
        name: np.arange(rows, dtype=np.uint64) * np.uint64(place + 1) + np.uint64(1 << 40)
        for place, name in enumerate(TABLES["marks"])
    }


@pytest.mark.parametrize("cut", [1, 5, 15, 16, 17, 40, 100, 111, 112])
def test_a_table_that_is_cut_off_keeps_its_whole_blocks(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "marks"
    write_table(path, "marks", marks(8), 8)
    first_block = path.read_bytes()
    write_table(path, "marks", marks(16), 8)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(first_block) + cut])
    assert len(first_block) + cut < len(whole)
    found, damage = read(path, "marks")
    assert found["bytes"].tolist() == marks(8)["bytes"].tolist()
    assert "cut off" in damage


def test_every_wrong_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    write_table(path, "marks", marks(3), 8)
    before = len(path.read_bytes())
    write_table(path, "marks", marks(6), 3)
    whole = path.read_bytes()
    for place in range(before, len(whole)):
        wrong = bytearray(whole)
        wrong[place] ^= 0x55
        path.write_bytes(wrong)
        found, damage = read(path, "marks")
        assert damage != ""
        assert found["bytes"].tolist() == marks(3)["bytes"].tolist()


@pytest.mark.parametrize(
    "block",
    [
        b"\x42\x4c\x4b\x32" + b"\xff" * 12,
        b"\x42\x4c\x4b\x32" + (65537).to_bytes(4, "little") + b"\0" * 8,
        b"\x42\x4c\x4b\x32" + b"\0" * 12,
        b"\x42\x4c\x4b\x32" + (1).to_bytes(4, "little") + b"\0" * 4 + (1).to_bytes(4, "little"),
        b"\0" * 64,
    ],
)
def test_a_block_that_claims_nonsense_ends_the_table(tmp_path: Path, block: bytes) -> None:
    path = tmp_path / "marks"
    path.write_bytes(FIRST_LINE + block)
    found, damage = read(path, "marks")
    assert len(found["bytes"]) == 0
    assert damage != ""


def test_more_columns_than_known_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    write_table(path, "marks", marks(2))
    line, blocks = path.read_bytes().split(b"\n", 1)
    path.write_bytes(line.replace(b" live_objects", b" later") + b"\n" + blocks)
    reader = TableReader(path, "marks", ("bytes",))
    assert [batch["bytes"].tolist() for batch in reader] == [marks(2)["bytes"].tolist()]
    with pytest.raises(TareError, match="no column live_objects"):
        list(TableReader(path, "marks"))


@pytest.mark.parametrize("line", [b"tare-table 2 marks bytes\n", b"hello\n", b"\xff\xfe\n"])
def test_another_format_is_an_error(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "marks"
    path.write_bytes(line)
    with pytest.raises(TareError, match="is not a table of marks"):
        list(TableReader(path, "marks"))


def test_a_table_without_a_whole_first_line_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    path.write_bytes(FIRST_LINE[:-4])
    assert read(path, "marks")[1] == "its first line is cut off"
    assert read(tmp_path / "missing", "marks")[1] == ""


def test_processes_come_after_their_parents(tmp_path: Path) -> None:
    write_process(tmp_path, pid=50, parent=900)
    write_process(tmp_path, pid=900, parent=7, serial=1)
    write_process(tmp_path, pid=900, parent=7, serial=0, end="exec")
    write_process(tmp_path, pid=20, parent=50, end="running")
    found = read_processes(tmp_path)
    assert [(p.pid, p.serial) for p in found] == [(900, 0), (900, 1), (50, 0), (20, 0)]
    assert [p.end for p in found] == ["exec", "exit", "exit", "running"]


def test_processes_that_claim_to_be_their_own_parents_come_to_an_end(tmp_path: Path) -> None:
    write_process(tmp_path, pid=1, parent=2)
    write_process(tmp_path, pid=2, parent=1)
    assert {p.pid for p in read_processes(tmp_path)} == {1, 2}


def test_a_process_killed_while_it_wrote_its_file_is_still_one(tmp_path: Path) -> None:
    path = write_process(tmp_path)
    path.write_text(path.read_text()[:30])
    (process,) = read_processes(tmp_path)
    assert (process.pid, process.end, process.numbers["objects"]) == (100, "running", 0)


def test_another_version_is_an_error(tmp_path: Path) -> None:
    path = write_process(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    with pytest.raises(TareError, match="another version"):
        read_processes(tmp_path)


def test_nonsense_in_the_file_of_a_process_becomes_harmless(tmp_path: Path) -> None:
    path = write_process(tmp_path)
    nonsense = {"program": 7, "end": "perhaps", "instructions": -1, "objects": 1 << 64}
    path.write_text(json.dumps({**json.loads(path.read_text()), **nonsense}))
    (process,) = read_processes(tmp_path)
    assert (process.program, process.end) == ("", "running")
    assert process.numbers["instructions"] == process.numbers["objects"] == 0


def test_frames_are_read_up_to_what_is_damaged(tmp_path: Path) -> None:
    good = {"function": "f", "object": "/bin/x", "file": "x.c", "line": 3, "offset": 70}
    path = tmp_path / "frames"
    path.write_bytes(json.dumps(good).encode() + b'\n{"function": "\xff", "line": "x"}\n{"func')
    frames, problem = read_frames(path)
    assert frames == [Frame("f", "/bin/x", "x.c", 3, 70), Frame("\N{REPLACEMENT CHARACTER}")]
    assert problem == "its line 3 is cut off or damaged"
    path.write_bytes(b"[1]\n")
    assert read_frames(path) == ([], "its line 1 is cut off or damaged")
    path.write_bytes(b"[" * 60000 + b"\n")
    assert read_frames(path)[0] == []
    assert read_frames(tmp_path / "missing") == ([], "")
