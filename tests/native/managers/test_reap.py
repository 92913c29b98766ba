"""The library of reaps: its promises, a model, threads, misuse, and how programs find it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.programs import built
from tests.support import ROOT

SOURCE = ROOT / "managers" / "reap"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]

C_PROGRAM = """
#include <stdio.h>
#include <tare/reap.h>
int main(void) {
  reap_t *reap = reap_create(NULL);
  int *numbers = reap_calloc(reap, 10, sizeof(int));
  numbers[9] = REAP_ABI;
  printf("%d\\n", numbers[9]);
  reap_free(reap, numbers);
  reap_destroy(reap);
  return 0;
}
"""
CPP_PROGRAM = """
#include <iostream>
#include <tare/reap.hpp>
#include <vector>
int main() {
  tare::Reap reap;
  std::vector<int, tare::ReapAllocator<int>> numbers(tare::ReapAllocator<int>{reap});
  numbers.push_back(1);
  std::cout << numbers[0] << "\\n";
}
"""
CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.24)
project(user LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(tare-reap 1 REQUIRED)
add_executable(c main.c)
target_link_libraries(c tare::reap)
add_executable(cpp main.cpp)
target_link_libraries(cpp tare::reap-static)
"""


VARIANTS = pytest.mark.parametrize(
    "variant",
    [
        pytest.param("", id="headers"),
        pytest.param("_segregated", id="segregated"),
    ],
)
"""What the library can be compiled as: the end of a program's name."""


def run(*command: str | Path, **options: object) -> str:
    """Standard output of a command that must succeed."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return str(ran.stdout)


@pytest.fixture(scope="module")
def units() -> Path:
    """The program of unit tests."""
    return built("reap_units")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, installed."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed (package cmake)")
    folder = tmp_path_factory.mktemp("reap")
    run("cmake", "-S", SOURCE, "-B", folder / "build")
    run("cmake", "--build", folder / "build")
    run("cmake", "--install", folder / "build", "--prefix", folder / "prefix")
    return folder / "prefix"


def library(prefix: Path) -> Path:
    """The shared object in the prefix."""
    return next(prefix.rglob("libtare-reap.so"))


@pytest.mark.parametrize("variant", ["", "_segregated", "_without_inlining"])
def test_units(variant: str) -> None:
    assert run(built(f"reap_units{variant}")) == "ok\n"


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        ("double-free-plain", "double free"),
        ("double-free", "double free"),
        ("overflow", "past its end"),
        ("underflow", "before its beginning"),
        ("wrong-reap", "of another one"),
        ("no-reap", "in no reap"),
        ("inside", "not an object"),
        ("large", "past its end"),
    ],
)
def test_misuse_ends_the_program_with_a_message(units: Path, misuse: str, message: str) -> None:
    ran = subprocess.run([units, misuse], capture_output=True, text=True, check=False)
    assert ran.returncode == -6, ran.stderr
    assert ran.stderr.startswith("tare-reap: ")
    assert message in ran.stderr
    assert "0x" in ran.stderr


@VARIANTS
def test_model_under_sanitizers(variant: str) -> None:
    model = built(f"reap_model{variant}")
    for seed in ("1", "2"):
        run(model, seed, "40000")


@VARIANTS
def test_threads_under_sanitizer(variant: str) -> None:
    run(built(f"reap_threads{variant}"), "4", "5000")


@pytest.mark.soak
@VARIANTS
def test_fuzzer(tmp_path: Path, variant: str) -> None:
    if shutil.which("clang++") is None:
        pytest.skip("clang is not installed (package clang)")
    fuzzer = built(f"reap_fuzzer{variant}", compiler="clang")
    run(fuzzer, "-max_total_time=120", "-max_len=20000", "-seed=1", cwd=tmp_path)


@pytest.mark.soak
@VARIANTS
def test_model_for_long(variant: str) -> None:
    model = built(f"reap_model_fast{variant}")
    for seed in range(100, 130):
        run(model, str(seed), "300000")


def test_symbols_are_versioned_and_no_others_seen(prefix: Path) -> None:
    shown = run("nm", "-D", "--defined-only", library(prefix)).split("\n")
    names = [line.split()[-1] for line in shown if " T " in line]
    assert "reap_malloc@@TARE_REAP_1" in names
    assert all(name.startswith("reap_") and name.endswith("@@TARE_REAP_1") for name in names)
    dynamic = run("readelf", "-d", library(prefix))
    assert "SONAME" in dynamic
    assert "[libtare-reap.so.1]" in dynamic
    assert "libstdc++" not in dynamic


def test_header_declares_what_the_library_has(prefix: Path) -> None:
    listed = {
        name.strip()
        for line in (SOURCE / "reap.map").read_text().splitlines()
        for name in line.split(";")
        if name.strip().startswith("reap_")
    }
    header = (prefix / "include/tare/reap.h").read_text()
    manual = (SOURCE / "tare-reap.3").read_text()
    for name in listed:
        assert f"{name}(" in header
        assert name in manual or name == "reap_malloc_slowly"


@pytest.mark.parametrize(("compiler", "name", "source"), [
    (["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"], "main.c", C_PROGRAM),
    (["c++", "-std=c++17", *WARNINGS], "main.cpp", CPP_PROGRAM),
])  # fmt: skip
@pytest.mark.parametrize("optimization", ["-O0", "-O2"])
def test_found_by_pkg_config(
    prefix: Path, tmp_path: Path, compiler: list[str], name: str, source: str, optimization: str
) -> None:
    (tmp_path / name).write_text(source)
    folder = str(library(prefix).parent)
    where = {"PKG_CONFIG_PATH": f"{folder}/pkgconfig", "PATH": "/usr/bin:/bin"}
    flags = run("pkg-config", "--cflags", "--libs", "tare-reap", env=where).split()
    program = tmp_path / "program"
    run(*compiler, optimization, tmp_path / name, *flags, "-o", program)
    assert run(program, env={"LD_LIBRARY_PATH": folder}) == "1\n"


def test_found_by_cmake(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(C_PROGRAM)
    (tmp_path / "main.cpp").write_text(CPP_PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_PROJECT)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "c") == "1\n"
    assert run(tmp_path / "build" / "cpp") == "1\n"


def test_manual_page_renders(prefix: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed (package man-db)")
    page = prefix / "share/man/man3/tare-reap.3"
    ran = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    assert "reap_create_with" in ran.stdout
