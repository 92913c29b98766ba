"""What of the machine a run can have, and what it cannot, in words that help."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tare.base.errors import MissingError, TareError, UsageError
from tare.memory_managers.manager import resolve
from tare.observers import conditions
from tare.observers.conditions import arguments, check
from tare.records.conditions import Conditions
from tare.records.runs import Limits


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four processors, of which one is not allowed; two memory nodes; no huge pages."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    for name in ("_PROCESSORS", "_NODES", "_HUGE_PAGES"):
        monkeypatch.setattr(conditions, name, tmp_path / name)
    (tmp_path / "_PROCESSORS").write_text("0-3\n")
    (tmp_path / "_NODES").write_text("0-1\n")
    monkeypatch.setattr(conditions, "_takes", lambda _: True)
    return tmp_path


def huge_pages(machine: Path, common: str, of_size: str = "") -> None:
    folder = machine / "_HUGE_PAGES"
    (folder / "hugepages-2048kB").mkdir(parents=True, exist_ok=True)
    (folder / "hpage_pmd_size").write_text("2097152\n")
    words = "always madvise never"
    (folder / "enabled").write_text(words.replace(common, f"[{common}]") + "\n")
    if of_size:
        text = f"inherit {words}".replace(of_size, f"[{of_size}]")
        (folder / "hugepages-2048kB" / "enabled").write_text(text + "\n")


def test_what_can_be_had_is_told_to_the_launcher(machine: Path) -> None:
    huge_pages(machine, "madvise")
    assert arguments(Conditions()) == []
    assert arguments(Conditions(hugepages="as-is")) == []
    assert arguments(Conditions("0-1", "1", "never")) == [
        *("--processors", "0-1"),
        *("--memory-nodes", "1"),
        *("--huge-pages", "never"),
    ]


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        (Conditions(cpus="0-5"), "there is no processor 4-5", "this machine has 0-3"),
        (Conditions(cpus="2-3"), "may not use processor 3", "allows 0-2"),
        (Conditions(memory_nodes="0,2"), "there is no memory node 2", "this machine has 0-1"),
    ],
)
def test_places_that_are_not_there_are_named(
    machine: Path, asked: Conditions, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        arguments(asked)
    assert message in caught.value.message
    assert hint in caught.value.hint
    with pytest.raises(UsageError):
        check([resolve("glibc")], Limits(conditions=asked))


def test_one_memory_node_is_no_choice(machine: Path) -> None:
    for text in ("0\n", ""):
        (machine / "_NODES").write_text(text)
        with pytest.raises(UsageError, match="one memory node"):
            arguments(Conditions(memory_nodes="0"))


@pytest.mark.parametrize(
    ("given", "wanted", "word"),
    [
        ("always", "never", "never"),
        ("madvise", "never", "never"),
        ("never", "never", "never"),
        ("", "never", "never"),
        ("always", "madvise", "where-advised"),
        ("madvise", "madvise", "as-the-machine-says"),
        ("always", "always", "as-the-machine-says"),
        ("madvise", "always", ""),
        ("never", "always", ""),
        ("never", "madvise", ""),
        ("", "madvise", ""),
    ],
)
def test_a_process_gets_no_more_huge_pages_than_the_machine_gives(
    machine: Path, given: str, wanted: str, word: str
) -> None:
    if given:
        huge_pages(machine, given)
    if word:
        assert arguments(Conditions(hugepages=wanted)) == ["--huge-pages", word]
        return
    with pytest.raises(MissingError) as caught:
        arguments(Conditions(hugepages=wanted))
    if given:
        assert f"({given})" in caught.value.message
        assert f"echo {wanted} > " in caught.value.hint
    assert ("jemalloc(thp=always)" in caught.value.hint) == (given == "madvise")


def test_an_old_kernel_cannot_leave_them_to_those_that_ask(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge_pages(machine, "always")
    monkeypatch.setattr(conditions, "_takes", lambda _: False)
    with pytest.raises(MissingError, match=r"Linux 6\.18"):
        arguments(Conditions(hugepages="madvise"))


def test_the_setting_of_the_size_counts(machine: Path) -> None:
    huge_pages(machine, "always", "inherit")
    assert arguments(Conditions(hugepages="always"))
    huge_pages(machine, "always", "never")
    with pytest.raises(TareError, match="to nobody") as caught:
        arguments(Conditions(hugepages="always"))
    assert "hugepages-2048kB/enabled" in str(caught.value)


def test_the_managers_own_conditions_are_checked(machine: Path) -> None:
    managers = [resolve("glibc"), resolve("machine(glibc, cpus=7)")]
    check(managers[:1], Limits())
    with pytest.raises(UsageError, match="no processor 7"):
        check(managers, Limits(conditions=Conditions(cpus="0")))
