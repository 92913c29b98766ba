"""Files of snapshots: read as written, and refused where they cannot be true."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tare.base.errors import TareError
from tare.studies.space.snapshot import Mapping, read_snapshot, read_snapshots


def write_snapshot(path: Path, *, cut: int = 0, **parts: bytes) -> Path:
    kinds = ["moment", "maps", "rollup", "resident", "own", "mapped", "threads", "start"]
    kinds += ["folder", "held", "end"]
    moment = struct.pack("<7Q", 0x31504E5345524154, 1000, 50, 0, 0, 10, 1020)
    done = struct.pack("<7Q", 0x31504E5345524154, 1000, 50, 150, 0, 10, 1020)
    content = b""
    for name, part in [("moment", moment), *parts.items(), ("moment", done), ("end", b"")]:
        content += struct.pack("<II", kinds.index(name) + 1, len(part)) + part
    path.write_bytes(content[: len(content) - cut])
    return path


def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    text = (
        b"1000-3000 rw-p 00000000 00:00 0 \n7000-8000 r-xp 00001000 08:01 12   /bin/a b (deleted)\n"
    )
    runs = struct.pack("<6Q", 0x1000, 0x1000, 0x2000, 0x1000 | 1, 0x7000, 0x1000 | 2)
    runs += struct.pack("<2Q", 0x8000, 0x1000 | 8)
    path = write_snapshot(
        tmp_path / "12.0.snapshot.peak",
        maps=text,
        rollup=b"1000-8000 ---p 0 00:00 0 [rollup]\nRss:                  12 kB\n",
        resident=runs,
        folder=b"/tmp/r",
    )
    found = read_snapshot(path)
    assert found.mappings == [
        Mapping(0x1000, 0x3000, "rw-p", ""),
        Mapping(0x7000, 0x8000, "r-xp", "/bin/a b (deleted)"),
    ]
    assert found.runs.tolist() == [[0x1000, 0x2000]]
    assert found.guards.tolist() == [[0x8000, 0x9000]]
    assert (found.rss_bytes, found.swapped_bytes, found.time) == (12 * 1024, 0x1000, 100)
    assert (found.recording, found.name, found.lowest_ratio) == ("/tmp/r", "peak", 1.02)


@pytest.mark.parametrize("cut", [1, 8, 9, 70, 200])
def test_a_snapshot_that_is_cut_off_is_left_out_and_said_so(tmp_path: Path, cut: int) -> None:
    write_snapshot(tmp_path / "12.0.snapshot.0")
    write_snapshot(tmp_path / "12.0.snapshot.1", cut=cut)
    found = read_snapshots(tmp_path)["12.0"]
    assert [each.name for each in found.timeline] == ["0"]
    assert len(found.damage) == 1
    assert found.peak is None


@pytest.mark.parametrize(
    "resident",
    [
        b"123",
        struct.pack("<2Q", 0x1001, 0x1000),
        struct.pack("<2Q", 1 << 63, 0x1000),
        struct.pack("<2Q", 0x1000, 1 << 62),
        struct.pack("<4Q", 0x2000, 0x1000, 0x1000, 0x1000),
    ],
)
def test_a_snapshot_that_cannot_be_true_is_refused(tmp_path: Path, resident: bytes) -> None:
    path = write_snapshot(tmp_path / "12.0.snapshot.0", resident=resident)
    with pytest.raises(TareError):
        read_snapshot(path)
