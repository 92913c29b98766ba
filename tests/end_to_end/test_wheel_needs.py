"""What a wheel needs of a system, told from the files in it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import wheel_needs


def wheel_of(folder: Path, tag: str, *files: Path) -> Path:
    wheel = folder / f"tare-1-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tare/text.py", "print(1)\n")
        for file in files:
            archive.write(file, file.name)
    return wheel


def test_libraries_and_versions_are_those_of_the_linker(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    options = ["-shared", "-fPIC", "-Wl,-soname,libours.so.7"]
    library = compile_c("int answer(void) { return 42; }", *options, name="libours.so.7")
    program = compile_c(
        "int answer(void); int main(void) { return answer(); }",
        str(library),
        "-Wl,-rpath,/nowhere",
        name="asks",
    )
    glibc, needed_by = wheel_needs.needs(wheel_of(tmp_path, "linux_x86_64", program))
    assert [Path(name).name for name in needed_by] == ["libours.so.7"]
    assert [*needed_by.values()] == [["asks"]]
    together = wheel_of(tmp_path, "linux_x86_64", program, library)
    assert not wheel_needs.needs(together)[1], "what a wheel has itself"
    # __libc_start_main has this version since glibc 2.34.
    assert glibc >= (2, 34)


@pytest.mark.parametrize(
    ("tag", "code"),
    [("linux_x86_64", 0), ("manylinux_2_5_x86_64", 1), ("manylinux_2_99_x86_64", 0)],
)
def test_a_tag_that_promises_too_much_is_refused(
    compile_c: Callable[..., Path], tmp_path: Path, tag: str, code: int
) -> None:
    wheel = wheel_of(tmp_path, tag, compile_c("int main(void) { return 0; }"))
    done = subprocess.run(
        [sys.executable, wheel_needs.__file__, wheel], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "glibc 2.34 or newer" in done.stdout
