"""Suites of Java that come as a jar of the user's own. A jar of ours stands in for it: it lists
benchmarks and tells of iterations in the words of the real ones."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.observers import java_suites
from tests.conftest import Completed
from tests.native.runtimes.test_jvm import JAVAC, needs_java

DACAPO = """
public class Suite {
    public static void main(String[] words) {
        if (words[0].equals("-l")) {
            System.out.println("batik broken fop");
            return;
        }
        int iterations = Integer.parseInt(words[2]);
        String start = "===== DaCapo 23.11-chopin " + words[0];
        for (int i = 1; i <= iterations; i++) {
            System.err.println(start + " starting =====");
            System.out.println("results of " + System.nanoTime());
            if (words[0].equals("broken")) {
                System.err.println(start + " FAILED  =====");
                System.exit(-2);
            }
            String end = i < iterations ? " completed warmup " + i + " in " : " PASSED in ";
            System.err.println(start + end + (i == 1 ? 9000 : 1200) + " msec =====");
        }
    }
}
"""
RENAISSANCE = """
public class Suite {
    public static void main(String[] words) {
        if (words[0].equals("--raw-list")) {
            System.out.println("als\\nfuture-genetic");
            return;
        }
        for (int i = 0; i < Integer.parseInt(words[2]); i++) {
            String start = "====== " + words[0] + " (apache-spark) [default], iteration " + i;
            System.out.println(start + " started ======");
            System.out.println(start + " completed (1234.500 ms) ======");
        }
    }
}
"""
Make = Callable[[str], Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Compiles a suite, and packs it as a jar."""

    def made(source: str) -> Path:
        assert JAVAC is not None
        (tmp_path / "Suite.java").write_text(source)
        subprocess.run([JAVAC, "-d", tmp_path, tmp_path / "Suite.java"], check=True)
        jar = tmp_path / "suite.jar"
        with zipfile.ZipFile(jar, "w") as packed:
            packed.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nMain-Class: Suite\n")
            packed.write(tmp_path / "Suite.class", "Suite.class")
        return jar

    return made


@needs_java
def test_benchmarks_of_a_jar_are_compared(
    tare: Callable[..., Completed], make: Make, tmp_path: Path
) -> None:
    done = tare(
        *("suite", "run", "dacapo", "--jar", make(DACAPO), "-p", "fop", "-p", "batik"),
        *("-m", "jvm.serial", "-m", "jvm.parallel", "-n", 2, "--warmup", 0, "--iterations", 3),
        *("-o", "r", "--json", "out.json"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())["measurements"]
    times = {r["program"]: r["value"] for r in rows if r["metric"] == "iteration_seconds"}
    assert times == {"batik": 1.2, "fop": 1.2}
    assert "time of an iteration, relative to jvm.serial" in done.stdout
    first, *_ = (tmp_path / "r" / "runs.jsonl").read_text().splitlines()
    told = json.loads(first)["details"]["iterations"]
    assert told == {"seconds": [9.0, 1.2, 1.2], "steady_from": None}


@needs_java
def test_a_benchmark_that_fails_is_no_figure(tare: Callable[..., Completed], make: Make) -> None:
    done = tare(
        *("suite", "run", "dacapo", "--jar", make(DACAPO), "-p", "broken", "-m", "jvm.serial"),
        *("-n", 1, "--warmup", 0),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED" in done.stdout


@needs_java
def test_another_suite_tells_its_iterations_elsewhere(
    tare: Callable[..., Completed], make: Make, tmp_path: Path
) -> None:
    done = tare(
        *("suite", "run", "renaissance", "--jar", make(RENAISSANCE), "-m", "jvm.serial"),
        *("-n", 1, "--warmup", 0, "--json", "out.json"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "out.json").read_text())["measurements"]
    times = {r["program"]: r["value"] for r in rows if r["metric"] == "iteration_seconds"}
    assert times == {"als": 1.2345, "future-genetic": 1.2345}


@needs_java
def test_what_is_no_jar_of_the_suite_is_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        java_suites.programs("dacapo", tmp_path / "nothing.jar", [], 3)
    with pytest.raises(UsageError, match="has no benchmark h2"):
        java_suites.programs("dacapo", make(DACAPO), ["h2"], 3)
    with pytest.raises(UsageError, match="listed no benchmarks"):
        java_suites.programs("renaissance", make(DACAPO), [], 3)
    (tmp_path / "text.jar").write_text("no archive")
    with pytest.raises(UsageError, match="listed no benchmarks"):
        java_suites.programs("dacapo", tmp_path / "text.jar", [], 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dacapo"], "does not come with Tare"),
        (["quick", "--jar", "x.jar"], "not apply to the suite quick"),
        (["quick", "--iterations", "3"], "not apply to the suite quick"),
        (["dacapo", "--jar", "x.jar", "--iterations", "0"], "is not a file"),
    ],
)
def test_wrong_usage(tare: Callable[..., Completed], arguments: list[str], said: str) -> None:
    done = tare("suite", "run", *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
