"""Layers: heaps composed of them, and what the compiler says of compositions without sense."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.programs import built
from tests.support import ROOT

HERE = Path(__file__).parent
LAYERS = ROOT / "managers" / "layers"
INCLUDE = LAYERS / "include"
HEADERS = sorted((INCLUDE / "tare" / "layers").glob("*.hpp"))
COMPILE = ["c++", "-std=c++20"]
OURS = f"-I{INCLUDE}"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]


def compile_text(tmp_path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What the compiler makes of a text, with warnings as errors."""
    source = tmp_path / "text.cpp"
    source.write_text(text)
    command: list[str | Path] = [*COMPILE, *options, OURS, *STRICT, "-fsyntax-only", source]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def precompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of includes where GCC finds what it made of all.hpp, for the many tests that begin
    with it; another compiler reads the header itself."""
    folder = tmp_path_factory.mktemp("precompiled")
    target = folder / "tare" / "layers" / "all.hpp.gch"
    target.parent.mkdir(parents=True)
    source = INCLUDE / "tare" / "layers" / "all.hpp"
    command: list[str | Path] = [*COMPILE, OURS, "-w", "-x", "c++-header", "-o", target, source]
    subprocess.run(command, check=True)
    return folder


@pytest.mark.parametrize("kind", ["memory", "thread"])
def test_compositions(kind: str) -> None:
    program = built(f"layers_compositions_{kind}")
    ran = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ok\n"), ran.stderr


def test_every_header_stands_alone(tmp_path: Path) -> None:
    assert len(HEADERS) > 10
    for header in HEADERS:
        text = f'#include "tare/layers/{header.name}"\n' * 2
        compiled = compile_text(tmp_path, text)
        assert compiled.returncode == 0, f"{header.name}: {compiled.stderr}"


def test_all_includes_every_header() -> None:
    everything = (INCLUDE / "tare" / "layers" / "all.hpp").read_text()
    for header in HEADERS:
        assert header.name == "all.hpp" or f'"tare/layers/{header.name}"' in everything


@pytest.mark.parametrize(
    ("composition", "message"),
    [
        ("Locked<Region<Pages>, SpinLock>", "Heap"),  # a region frees nothing
        ("Locked<BoundaryTags<Pages, FirstFit>, int>", "Lockable"),
        ("Region<Region<Pages>>", "MemorySource"),
        ("QuickLists<Obstack<Pages>, 8>", "Sized"),
        ("SizeClasses<PowersOfTwo<4, 20>, Region<Pages>>", "Sized"),
        ("SizeClasses<int, SizeHeaders<Region<Pages>>>", "ClassesOfSizes"),
        ("BoundaryTags<Pages, SpinLock>", "Fit"),
        ("Counted<Obstack<Pages>>", "Sized"),
        ("Nested<SizeHeaders<Pages>>", "ObjectAllocator"),
        ("Traced<BoundaryTags<Pages, FirstFit>, int>", "Observer"),
        ("StackLike<Pages>", "RisingSource"),
        ("PageFragments<Pages>", "RisingSource"),
        ("ProcessorHeaps<Pages, PowersOfTwo<4, 12>, int>", "Lockable"),
        ("ProcessorHeaps<Pages, PowersOfTwo<4, 12>, SpinLock>", "must hold two objects"),
        ("Aligned<Region<Pages>>", "Sized"),
        ("NewestFreed<Region<Pages>>", "Heap"),
        ("FreeList<Region<Pages>, 4>", "a freed object must have room for a pointer"),
    ],
)
def test_a_composition_without_sense_says_why(
    tmp_path: Path, precompiled: Path, composition: str, message: str
) -> None:
    text = f'#include "tare/layers/all.hpp"\nusing namespace tare::layers;\n{composition} heap;\n'
    compiled = compile_text(tmp_path, text, f"-I{precompiled}")
    assert compiled.returncode != 0
    assert message in compiled.stderr


def test_documentation_names_every_layer() -> None:
    page = (ROOT / "docs" / "layers.md").read_text()
    for header in HEADERS:
        assert header.name == "all.hpp" or f"`{header.name}`" in page


def test_found_by_cmake(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed (package cmake)")

    def cmake(*arguments: str | Path) -> None:
        subprocess.run(["cmake", *arguments], check=True, capture_output=True)

    cmake("-S", LAYERS, "-B", tmp_path / "layers")
    cmake("--install", tmp_path / "layers", "--prefix", tmp_path / "prefix")
    (tmp_path / "main.cpp").write_text(
        '#include "tare/layers/all.hpp"\n'
        "int main() { tare::layers::Region<tare::layers::Pages> region;"
        " return region.Allocate(1) == nullptr; }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(user LANGUAGES CXX)\n"
        "find_package(tare-layers 1 REQUIRED)\nadd_executable(user main.cpp)\n"
        "target_link_libraries(user tare::layers)\n"
    )
    cmake("-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}")
    cmake("--build", tmp_path / "build")
    subprocess.run([tmp_path / "build" / "user"], check=True)
