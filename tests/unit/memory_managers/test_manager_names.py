"""Manager names: what Tare prints can be typed in again, and what means nothing is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.base.errors import UsageError
from tare.memory_managers.manager import Manager, machine_libc, parse_name, resolve

names = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
values = st.from_regex(r"[A-Za-z0-9.:_-]{1,8}", fullmatch=True)


@given(names, st.dictionaries(names, values, max_size=4))
def test_a_printed_name_reads_back(name: str, options: dict[str, str]) -> None:
    printed = name
    if options:
        printed += "(" + ", ".join(f"{key}={value}" for key, value in options.items()) + ")"
    assert parse_name(printed) == (name, options)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        name, _ = parse_name(text)
    except UsageError:
        return
    assert name in text


@pytest.mark.parametrize(
    "text",
    ["", "Glibc", "glibc(", "glibc)", "glibc(trim)", "glibc(=1)", "glibc(trim=)", "a b",
     "glibc(trim=1, trim=2)", "x" * 501],
)  # fmt: skip
def test_malformed_names_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_name(text)


@pytest.mark.parametrize(
    "text",
    ["nosuchmalloc", "glibc(nosuch=1)", "glibc(tcache=maybe)", "own(x=1)", "./\udcff.so"],
)
def test_names_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        resolve(text)


def test_glibc_is_the_libc_of_the_machine() -> None:
    glibc = resolve("glibc")
    assert glibc.preload == (machine_libc(),)
    assert glibc.serves(str(machine_libc()))
    assert not glibc.serves("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
    assert glibc.version.startswith("glibc 2.")


def test_objects_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        resolve(str(tmp_path / "missing.so"))
    text = tmp_path / "text.so"
    text.write_text("not an object")
    with pytest.raises(UsageError, match="not a shared object"):
        resolve(str(text))


def test_a_manager_does_not_serve_a_file_that_has_gone(tmp_path: Path) -> None:
    assert not Manager("x", server=tmp_path / "a").serves(str(tmp_path / "b"))
