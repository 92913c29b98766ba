"""A wheel with native parts inside gives a working tare in a clean virtual environment."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.sort_wheel import sort_wheel
from tare import __version__
from tests.support import ROOT

pytestmark = pytest.mark.network
WHEEL = f"tare-{__version__}-py3-none-manylinux_2_28_x86_64.whl"
# One allocator that builds in seconds stands for all: they share every line of the packaging. And
# minutes of cargo, which the replayer's build has shown to work in seconds.
LITTLE = (
    "--config-settings=cmake.define.TARE_ALLOCATORS=mimalloc",
    "--config-settings=cmake.define.TARE_COLLECTORS_WITH_PACKAGE=OFF",
)
# Allocators with a make and a CMake of their own, and from Debian's sources; and what cargo builds.
OF_EACH_KIND = ("--config-settings=cmake.define.TARE_ALLOCATORS=jemalloc;snmalloc;tcmalloc",)


def copy_of_the_sources(folder: Path) -> Path:
    """With their times. Where ``folder`` is there already, what is no longer a source goes."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        place = path.relative_to(folder)
        if place.parts[0] != "build" and str(place) not in names:
            path.unlink()
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


@contextmanager
def kept_copy() -> Iterator[Path]:
    """A copy of the sources, where the build knows what it has built before: minutes of it."""
    kept = ROOT / "build" / "wheel"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (kept / "away").exists():  # a test that was cut off left it there
            (kept / "away").rename(kept / "source")
        yield copy_of_the_sources(kept / "source")


@contextmanager
def gone(folder: Path) -> Iterator[None]:
    away = folder.rename(folder.with_name("away"))
    try:
        yield
    finally:
        away.rename(folder)


def build_wheel(source: Path, parts: Sequence[str]) -> Path:
    done = subprocess.run(
        [source / "scripts" / "build-wheel.sh", *parts],
        env=os.environ | {"PYTHON": sys.executable, "SOURCE_DATE_EPOCH": "1700000000"},
        capture_output=True,
        text=True,
    )
    if "older_system: Debian's package" in done.stderr and "HTTP Error 404" in done.stderr:
        pytest.skip("Debian no longer has the pinned package of the older C library")
    if "wheels are built on Debian 12" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return source / "dist" / WHEEL


def bundled(names: Sequence[str]) -> set[str]:
    """The allocators of other authors whose objects are among the files of a wheel."""
    objects = [Path(name) for name in names if name.startswith("tare/_native/managers/")]
    recipes = ROOT / "managers" / "allocators"
    return {path.parent.name for path in objects if (recipes / path.parent.name).is_dir()}


def missing_licences(names: Sequence[str]) -> set[str]:
    there = {Path(name).name for name in names if ".dist-info/licenses/" in name}
    wanted = {"LICENSE", "COPYING", "c-libraries.txt", "elfutils.txt", "rust-crates.txt"}
    return (wanted | {f"{name}.txt" for name in bundled(names)}) - there


@pytest.mark.timeout(3600)
def test_a_wheel_measures_in_a_clean_environment(tmp_path: Path) -> None:
    with kept_copy() as source:
        wheel = build_wheel(source, LITTLE)
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            for name in names:
                assert str(source).encode() not in archive.read(name), name
        assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
        assert "mimalloc" in bundled(names)
        assert not missing_licences(names)
        venv = tmp_path / "clean venv"  # the space is part of the test
        installed_in(venv, wheel, constraints(tmp_path))
        with gone(source):
            measures(venv, tmp_path)


def installed_in(venv: Path, wheel: Path, versions: Path) -> None:
    # With the pip of this environment: to make another takes as long as half of what it installs.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python"]
    install = [*pip, "install", "-q", "--no-compile", "-c", versions, wheel]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def measures(venv: Path, folder: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def tare(*words: str) -> str:
        done = subprocess.run(
            [venv / "bin" / "tare", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    options = ["-n", "2", "-m", "glibc", "-m", "mimalloc", "-o", "r"]
    assert "mimalloc" in tare("compare", *options, "--", "sort", "/etc/passwd")
    assert (folder / "r" / "report.html").exists()
    for command in ("space", "count"):
        tare(command, "-m", "mimalloc", "--no-page", "-o", command, "--", "true")
    suites = tare("suite", "list")
    assert "quick" in suites
    assert "kernels" in suites


def test_the_order_of_files_in_a_wheel_is_that_of_their_names(tmp_path: Path) -> None:
    contents = {
        "z.py": "z",
        "a/b.py": "b",
        "t.dist-info/METADATA": "m",
        "t.dist-info/licenses/LICENSE": "l",
    }
    wheels = []
    for order in (list(contents), list(reversed(contents))):
        record = "".join(f"{name},sha256=0,1\n" for name in order) + "t.dist-info/RECORD,,\n"
        wheels.append(tmp_path / f"{order[0][0]}.whl")
        with zipfile.ZipFile(wheels[-1], "w") as archive:
            for name, text in {
                **{n: contents[n] for n in order},
                "t.dist-info/RECORD": record,
            }.items():
                archive.writestr(zipfile.ZipInfo(name), text)
    sort_wheel(wheels[0])
    with zipfile.ZipFile(wheels[0]) as archive:
        assert archive.namelist() == [
            "a/b.py", "z.py", "t.dist-info/METADATA", "t.dist-info/licenses/LICENSE",
            "t.dist-info/RECORD",
        ]  # fmt: skip
        lines = archive.read("t.dist-info/RECORD").decode().splitlines()
        assert [line.partition(",")[0] for line in lines] == archive.namelist()
        assert {name: archive.read(name).decode() for name in contents} == contents
    assert wheels[0].read_bytes() != wheels[1].read_bytes()
    sort_wheel(wheels[1])
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_wheels_are_the_same_bytes(tmp_path: Path) -> None:
    wheels = [
        build_wheel(copy_of_the_sources(tmp_path / folder), OF_EACH_KIND)
        for folder in ("one", "another-folder")
    ]
    with zipfile.ZipFile(wheels[0]) as first, zipfile.ZipFile(wheels[1]) as second:
        assert first.namelist() == second.namelist()
        assert len(bundled(first.namelist())) == 3
        assert not missing_licences(first.namelist())
        differing = [name for name in first.namelist() if first.read(name) != second.read(name)]
    assert not differing
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


def constraints(tmp_path: Path) -> Path:
    """The versions of the lock file, without hashes, which pip cannot ask of a local folder."""
    pins = [
        line.rstrip(" \\")
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if line and line[0].isalnum() and "==" in line
    ]
    file = tmp_path / "constraints.txt"
    file.write_text("\n".join(pins))
    return file
