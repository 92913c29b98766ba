"""Programs that no preloaded manager can serve are recognised before they run."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.programs import elf
from tare.programs.elf import immunity, interpreter_of

HELLO = "int main(void) { return 0; }"


def test_an_ordinary_program_is_served(compile_c: Callable[..., Path]) -> None:
    assert immunity(compile_c(HELLO)) is None


def test_a_script_is_judged_by_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh -e\nexit 0\n")
    assert interpreter_of(script) == Path("/bin/sh")
    assert immunity(script) is None


@pytest.mark.parametrize("flags", [["-static"], ["-static-pie"]])
def test_static_programs_are_refused(compile_c: Callable[..., Path], flags: list[str]) -> None:
    found = immunity(compile_c(HELLO, *flags))
    assert found is not None
    assert "statically linked" in found.reason


def test_a_set_user_program_is_refused(compile_c: Callable[..., Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    program = compile_c(HELLO)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    found = immunity(program)
    assert found is not None
    assert "privileges" in found.reason


def test_musl_is_refused_where_nothing_is_built_for_it(
    compile_c: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elf, "built_for_musl", lambda _: None)
    program = compile_c(HELLO, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
    found = immunity(program)
    assert found is not None
    assert "musl" in found.reason


def test_a_go_program_is_refused(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    marked = tmp_path / "go"
    note = tmp_path / "note"
    note.write_bytes(b"\xff Go buildinf:")
    program = compile_c(HELLO)
    subprocess.run(
        ["objcopy", "--add-section", f".go.buildinfo={note}", program, marked], check=True
    )
    found = immunity(marked)
    assert found is not None
    assert "Go program" in found.reason


def test_a_real_go_program_is_refused() -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go toolchain here; the marked program above stands for one")
    found = immunity(Path(go).resolve())
    assert found is not None
    assert "Go program" in found.reason


def test_a_program_for_another_machine_is_refused(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    content = bytearray(compile_c(HELLO).read_bytes())
    content[18:20] = (0xF3).to_bytes(2, "little")  # e_machine: RISC-V
    foreign = tmp_path / "foreign"
    foreign.write_bytes(content)
    found = immunity(foreign)
    assert found is not None
    assert "RISC-V" in found.reason


@pytest.mark.parametrize("length", [4, 20, 63, 200])
def test_a_damaged_file_gives_a_message(
    compile_c: Callable[..., Path], tmp_path: Path, length: int
) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(compile_c(HELLO).read_bytes()[:length])
    with contextlib.suppress(UsageError):
        assert immunity(damaged) is not None, "half a file passes for a whole program"


def test_scripts_that_lead_nowhere(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    with pytest.raises(UsageError, match="does not exist"):
        immunity(script)
    script.write_text("#!\n")
    with pytest.raises(UsageError, match="names no interpreter"):
        immunity(script)
    script.write_text(f"#!{script}\n")
    with pytest.raises(UsageError, match="deep"):
        immunity(script)
