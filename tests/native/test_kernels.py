"""The native kernels: the same work under the same seed, clean under the sanitizers."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tare.programs.suite import SuiteProgram, kernels_folder, load_suite, workloads_folder

SOURCES = workloads_folder() / "kernels"
NAMES = sorted(path.stem for path in SOURCES.glob("*.cpp"))
THREADED = {
    "false-sharing-active",
    "false-sharing-passive",
    "producer-consumer",
    "server",
    "thread-churn",
}
SMALL = "0.01"

pytestmark = pytest.mark.skipif(
    not SOURCES.is_dir() or shutil.which("cmake") is None, reason="needs CMake and the sources"
)


def build(folder: Path, *flags: str) -> Path:
    configure = [
        "cmake",
        "-S",
        str(SOURCES),
        "-B",
        str(folder),
        f"-DCMAKE_CXX_FLAGS={' '.join(flags)}",
    ]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    for command in (configure, ["cmake", "--build", str(folder), "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    installed = kernels_folder()
    if all((installed / name).is_file() for name in NAMES):
        return installed
    return build(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("sanitized"), f"-fsanitize={request.param}", "-g")


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)


def checksum(program: Path, *arguments: str) -> str:
    done = run(program, "--scale", SMALL, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    word, _, value = done.stdout.rstrip("\n").partition(" ")
    assert word == "checksum"
    assert len(value) == 16
    return value


def test_each_kernel_is_in_the_suite() -> None:
    assert sorted(program.name for program in load_suite("kernels").programs) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_the_checksum(kernels: Path, name: str) -> None:
    first = checksum(kernels / name)
    assert checksum(kernels / name) == first
    assert checksum(kernels / name, "--seed", "1") == first
    assert checksum(kernels / name, "--seed", "2") != first


@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_the_kernel_shows(kernels: Path, name: str) -> None:
    done = run(kernels / name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: {name} ")
    assert "Shows" in done.stdout
    assert ("--threads" in done.stdout) == (name in THREADED)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scale"],
        ["--scale", "0"],
        ["--scale", "-1"],
        ["--scale", "nan"],
        ["--scale", "1e9"],
        ["--scale", "1x"],
        ["--seed", "-1"],
        ["--seed", "99999999999999999999"],
        ["--sede"],
        ["extra"],
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_bad_arguments_are_refused(kernels: Path, name: str, arguments: list[str]) -> None:
    done = run(kernels / name, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"{name}: ")
    assert arguments[-1] in done.stderr


@pytest.mark.parametrize("name", sorted(THREADED))
def test_the_number_of_threads_is_checked(kernels: Path, name: str) -> None:
    for number in ("0", "257", "-2", "two"):
        assert run(kernels / name, "--threads", number).returncode == 2
    for number in ("1", "3"):
        assert checksum(kernels / name, "--threads", number)


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_clean_under_the_sanitizers(sanitized: Path, kernels: Path, name: str) -> None:
    assert checksum(sanitized / name) == checksum(kernels / name)


@pytest.mark.parametrize("program", load_suite("kernels").programs, ids=lambda one: one.name)
def test_the_suite_states_the_output(kernels: Path, program: SuiteProgram) -> None:
    done = run(kernels / program.name)
    assert hashlib.sha256(done.stdout.encode()).hexdigest() == program.output_sha256
