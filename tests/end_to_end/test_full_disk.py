"""A disk that fills up while a program is observed ends no program, and is told of."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.namespaces import unshare
from tests.support.started import Started

PROGRAM = [sys.executable, "-c", "x = [str(i) * 9 for i in range(60000)]; print(len(x))"]
CHURN = """
public class Churn {
    static Object[] kept = new Object[1000];
    public static void main(String[] words) {
        for (int i = 0; i < 300000; i++) kept[i % 1000] = new int[i % 50];
        System.out.println("done");
    }
}
"""
QUICK = ("-q", "--no-page")
FEW = ("-n", "2", "--warmup", "0")
COMMANDS = {
    "recorder": ["trace", "-q", "--", *PROGRAM],
    "instrument": ["trace", "-q", "--last-use", "--", *PROGRAM],
    "drag": ["drag", *QUICK, "--", *PROGRAM],
    "count": ["count", "-q", "--once", "-m", "glibc", "--", *PROGRAM],
    "space": ["space", *QUICK, "-m", "glibc", "--", *PROGRAM],
    "delay": ["delay", *QUICK, *FEW, "--sizes", "64KiB", "-m", "glibc", "--", *PROGRAM],
    "marksweep": ["compare", *QUICK, *FEW, "-m", "marksweep(glibc)", "--", *PROGRAM],
    "jvm": ["compare", *QUICK, *FEW, "-m", "jvm.serial", "--", "java", "-cp", ".", "Churn"],
    "jvm-trace": ["trace", "-q", "--jvm", "--", "java", "-cp", ".", "Churn"],
}
SIZES = ("96k", "192k", "320k", "1m", "3m")
MOUNT = """
for disk in "$0"/*/*; do mount -t tmpfs -o "size=${disk##*/}" tare "$disk" || exit; done
exec "$@"
"""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    if shutil.which("javac") is not None:
        (folder / "Churn.java").write_text(CHURN)
        subprocess.run(["javac", "-d", folder, folder / "Churn.java"], check=True)
    return folder


@pytest.fixture(scope="module")
def small_disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Started, Path]]:
    """A folder with a disk for each command and each of ``SIZES``, and what runs commands that see
    them."""
    command = unshare("no right to make a small file system here")
    disks = tmp_path_factory.mktemp("disks")
    for name in COMMANDS:
        for size in SIZES:
            (disks / name / size).mkdir(parents=True)
    process = Started(command, "-rm", "sh", "-c", MOUNT, disks)
    yield process, disks
    process.end()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_ends_no_program(
    small_disks: tuple[Started, Path], classes: Path, name: str
) -> None:
    if name.startswith("jvm") and shutil.which("javac") is None:
        pytest.skip("javac is not installed (package default-jdk-headless)")
    process, disks = small_disks
    command, *words = COMMANDS[name]
    for size in SIZES:
        out = disks / name / size / ("t.tare" if command == "trace" else "r")
        done = process.run([command, "-o", str(out), *words], classes)
        said = done.stdout + done.stderr
        assert "Traceback" not in said
        assert "SIGBUS" not in said
        assert done.returncode in (0, 1, 4), (size, said)
        if done.returncode == 0:
            break
        assert any(word in said for word in ("disk", "No space", "full", "room")), (size, said)
    assert size != SIZES[0], "the disk was never full"
