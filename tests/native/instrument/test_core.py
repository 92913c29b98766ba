"""Valgrind's core, that the instrument is linked with: the pinned one, or the distribution's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tare.base.native import native_file
from tests.support import ROOT

APPLY = ROOT / "observers/instrument/core/apply_patch.py"
PATCH = """Why it is so.

--- a/file
+++ b/file
@@ -2,2 +2,3 @@
 two
-three
+3
+and a half
@@ -5,1 +6,1 @@
-five
+5
"""
PROJECT = f"""
cmake_minimum_required(VERSION 3.24)
project(alone LANGUAGES C CXX)
set(CMAKE_C_STANDARD 17)
add_subdirectory({ROOT}/observers/instrument instrument)
"""


def patched(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "patch").write_text(PATCH)
    (tmp_path / "file").write_text(text)
    return subprocess.run(
        [sys.executable, APPLY, tmp_path / "patch", tmp_path / "file", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_patch_is_applied(tmp_path: Path) -> None:
    done = patched(tmp_path, "one\ntwo\nthree\nfour\nfive\n")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == "one\ntwo\n3\nand a half\nfour\n5\n"


@pytest.mark.parametrize("text", ["", "one\ntwo\nTHREE\nfour\nfive\n", "two\nthree\nfour\nfive\n"])
def test_a_patch_for_another_text_is_refused(tmp_path: Path, text: str) -> None:
    done = patched(tmp_path, text)
    assert done.returncode == 1
    assert "are not as the patch has them" in done.stderr
    assert not (tmp_path / "out").exists()


def valgrind_of(tool_folder: Path, counts: Path) -> str:
    """The version of the core that a built tool says it has counted with."""
    counts.mkdir()
    subprocess.run(
        [tool_folder / "tare-valgrind", "--tool=tareinst", "--command-line-only=yes", "--vgdb=no",
         "--quiet", f"--count-folder={counts}", "/bin/true"],
        check=True,
    )  # fmt: skip
    (file,) = counts.glob("*.json")
    found = json.loads(file.read_text())
    assert found["instructions"] > 10_000
    return str(found["valgrind"])


def test_without_the_source_the_system_s_core_serves(tmp_path: Path) -> None:
    config = Path("/usr/include/valgrind/config.h")
    if not config.exists():
        pytest.skip("Debian's package valgrind is missing")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    offline = {**os.environ, "APT_HELPER": "/bin/false", "TARE_CACHE": str(tmp_path / "cache")}
    configured = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build"],
        env=offline, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "valgrind_3.24.0.orig.tar.bz2; it must be reachable" in configured.stderr
    assert "system's Valgrind is linked in its place" in " ".join(configured.stderr.split())
    subprocess.run(
        ["cmake", "--build", tmp_path / "build", "--target", "tare-valgrind",
         "tareinst-amd64-linux"],
        capture_output=True, check=True,
    )  # fmt: skip
    folder = tmp_path / "build/instrument"
    (folder / "vgpreload_core-amd64-linux.so").symlink_to(
        "/usr/libexec/valgrind/vgpreload_core-amd64-linux.so"
    )
    assert f'#define VERSION "{valgrind_of(folder, tmp_path / "counts")}"' in config.read_text()


def test_the_pinned_core_is_what_was_built(tmp_path: Path) -> None:
    """Where the build of these tests could fetch it."""
    version = valgrind_of(native_file("valgrind/tare-valgrind").parent, tmp_path / "counts")
    assert f'version = "{version}"' in (APPLY.parent / "source.toml").read_text()
