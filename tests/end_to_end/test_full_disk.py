"""A disk that fills up while a program is observed ends no program, and is told of."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Completed

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
COMMANDS = {
    "recorder": ["trace", "-q", "--", *PROGRAM],
    "instrument": ["trace", "-q", "--last-use", "--", *PROGRAM],
    "drag": ["drag", "-q", "--", *PROGRAM],
    "count": ["count", "-q", "-m", "glibc", "--", *PROGRAM],
    "space": ["space", "-q", "-m", "glibc", "--", *PROGRAM],
    "delay": ["delay", "-q", "-n", "2", "-m", "glibc", "--", *PROGRAM],
    "marksweep": ["compare", "-q", "-n", "2", "-m", "marksweep(glibc)", "--", *PROGRAM],
    "jvm": ["compare", "-q", "-n", "2", "-m", "jvm.serial", "--", "java", "-cp", ".", "Churn"],
    "jvm-trace": ["trace", "-q", "--jvm", "--", "java", "-cp", ".", "Churn"],
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    if shutil.which("javac") is not None:
        (folder / "Churn.java").write_text(CHURN)
        subprocess.run(["javac", "-d", folder, folder / "Churn.java"], check=True)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_ends_no_program(tmp_path: Path, classes: Path, name: str) -> None:
    if name.startswith("jvm") and shutil.which("javac") is None:
        pytest.skip("javac is not installed (package default-jdk-headless)")
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"]).returncode != 0:
        pytest.skip("no right to make a small file system here (unshare -rm)")
    disk = tmp_path / "disk"
    disk.mkdir()
    command, *words = COMMANDS[name]

    def run(size: str) -> Completed:
        script = f'mount -t tmpfs -o size={size} tare {disk} && exec "$@"'
        out = disk / ("t.tare" if command == "trace" else "r")
        tare = [sys.executable, "-m", "tare", command, "-o", str(out), *words]
        return subprocess.run(
            [unshare, "-rm", "sh", "-c", script, "sh", *tare],
            capture_output=True, text=True, cwd=classes,
        )  # fmt: skip

    codes = set()
    for size in ("96k", "192k", "320k", "1m", "3m"):
        done = run(size)
        said = done.stdout + done.stderr
        assert "Traceback" not in said
        assert "SIGBUS" not in said
        assert done.returncode in (0, 1, 4), (size, said)
        if done.returncode != 0:
            assert any(word in said for word in ("disk", "No space", "full", "room")), (size, said)
        codes.add(done.returncode)
    assert codes & {1, 4}, "the disk was never full"
