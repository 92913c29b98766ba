"""The quarantine, `delay(M, …)`: its names, and what its files prove."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.base.errors import TareError, UsageError
from tare.base.native import native_file
from tare.memory_managers import layers
from tare.memory_managers.layers import delay
from tare.memory_managers.manager import Manager, resolve

# Names


@pytest.mark.parametrize(
    "name",
    [
        "delay(glibc)",
        "delay(glibc, size=64KiB)",
        "delay(glibc(tcache=0, arenas=1), size=1B, scope=global, order=lifo)",
        "delay(glibc, size=1GiB, buffer=40KiB, realloc=pass, poison=yes)",
        "delay(own, size=2MiB)",
    ],
)
def test_a_printed_name_reads_back(name: str) -> None:
    manager = resolve(name)
    assert manager.name == name
    assert resolve(manager.name) == manager
    assert manager.preload[0] == native_file(delay.OBJECT) == manager.layer


def test_spaces_do_not_matter() -> None:
    assert (
        resolve(" delay( glibc(tcache=0),size=1MiB ) ").name == "delay(glibc(tcache=0), size=1MiB)"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("delay", "does not say which manager"),
        ("delay()", "does not say which manager"),
        ("delay(size=1MiB)", "does not say which manager"),
        ("delay(glibc, size)", "not of the form option=value"),
        ("delay(glibc, size=)", "not of the form option=value"),
        ("delay(glibc, size=1B, size=2B)", "twice"),
        ("delay(glibc, size=0B)", "between 1B and 1GiB"),
        ("delay(glibc, size=1025MiB)", "between 1B and 1GiB"),
        ("delay(glibc, size=lots)", "must be a size"),
        ("delay(glibc, colour=red)", "no option 'colour'"),
        ("delay(glibc, scope=process)", "must be one of thread, global"),
        ("delay(glibc, buffer=3KiB)", "must be one of grow, 40KiB"),
        ("delay(glibc, poison=true)", "must be one of yes, no"),
        ("delay(delay(glibc), size=1B)", "has two layers"),
        ("delay(nosuch)", "no manager 'nosuch'"),
        ("delay(glibc(tcache=maybe))", "whole number"),
        ("delay(./missing.so)", "does not exist"),
        ("delay(glibc", "not a manager name"),
        ("delay(glibc))", "not a manager name"),
        ("delay(" * 300, "not a manager name|characters"),
    ],
)
def test_bad_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(name)


def test_a_collector_is_not_delayed() -> None:
    with pytest.raises(UsageError, match="is a collector"):
        resolve("delay(bdwgc, size=1MiB)")


@given(st.text(alphabet="delay(),= glibc1KMB", max_size=40))
def test_any_name_is_read_or_refused(text: str) -> None:
    try:
        split = layers.split_name(text)
    except UsageError:
        return
    assert split is None or split.inner


def test_the_manager_is_described() -> None:
    manager = resolve("delay(glibc, size=64KiB)")
    assert isinstance(manager, Manager)
    assert manager.environment["TARE_DELAY_SIZE"] == "65536"
    assert manager.environment["TARE_DELAY_SCOPE"] == "thread"


def process(pid: int = 1, forked: bool = False, uncounted: int = 0) -> delay.Process:
    return delay.Process(pid, forked, ("/inner", "/inner"), uncounted, 0, ())


def test_a_process_that_shows_nothing_spoils_a_run() -> None:
    def serves(path: str) -> bool:
        return path == "/inner"

    assert layers.fault([process(1)], [1], serves) == ""
    assert layers.fault([process(1), process(2, forked=True)], [1], serves) == ""
    assert "process 2" in layers.fault([process(1)], [1, 2], serves)
    assert "process 1" in layers.fault([process(1)], [1, 1], serves)
    assert "process 2" in layers.fault([process(1), process(2, forked=True)], [1, 2], serves)
    assert "/inner" in layers.fault([process(1)], [1], lambda path: path == "/other")


def test_no_metric_without_all_processes() -> None:
    assert delay.values([process()])
    assert delay.values([process(), process(uncounted=1)]) == {}


@pytest.mark.parametrize(
    "content",
    [b"x" * 100, b"x" * 70000, struct.pack("<7Q", 0x33594C4544455254, 1, 1, 241, 0, 0, 0)
     + bytes(4096 - 56 + 240 * 704)],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "1.0"
    path.write_bytes(content)
    with pytest.raises(TareError, match=r"1\.0: not a file of counters"):
        delay.read_process(path)


@pytest.mark.parametrize("length", [0, 100, 4096, 65536])
def test_a_process_killed_as_it_began_is_left_out(tmp_path: Path, length: int) -> None:
    (tmp_path / "1.0").write_bytes(bytes(length))
    assert layers.read_folder(delay, tmp_path) == []
