"""The Java workloads: built once, deterministic, checked; and when a program is steady."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.programs.iterations import HEADER, Iteration, read_iterations, steady_from
from tare.programs.suite import load_suite
from tests.support.java import BUILD, workloads_jar

APPLICATIONS = [program.name for program in load_suite("java").programs]
SMALL = {
    "batik": 2,
    "biojava": 3,
    "fop": 1,
    "graph": 2,
    "h2": 2,
    "jdt": 1,
    "jython": 2,
    "lucene-index": 40,
    "lucene-search": 200,
    "pmd": 1,
    "tomcat": 20,
    "xalan": 3,
    "zxing": 4,
}
"""A size for each that takes a moment."""
SLOW = {"batik", "fop", "jython", "pmd"}
"""What takes seconds to start."""

Java = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workloads_jar(tmp_path_factory.mktemp("java"))


@pytest.fixture
def run(jar: Path) -> Java:
    def run_java(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                "java",
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-jar",
                jar,
                *map(str, arguments),
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    return run_java


def digest_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition(" ")[2].strip()


@pytest.mark.parametrize("name", APPLICATIONS)
def test_an_application_does_the_same_each_time(name: str, run: Java, tmp_path: Path) -> None:
    """Each iteration, with one thread and with two, gives the same; another seed something else.
    The harness itself holds the iterations against each other."""
    times = tmp_path / "times"
    words = (name, "--size", str(SMALL[name]))
    digest = digest_of(run(*words, "--threads", "2", "--iterations", "2", "--times", times))
    assert len(digest) == 16
    assert len(read_iterations(times)) == 2
    if name not in SLOW:  # these have a test of their own
        assert_threads_and_seeds(name, digest, run)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(SLOW))
def test_a_slow_application_does_the_same_each_time(name: str, run: Java) -> None:
    digest = digest_of(run(name, "--size", str(SMALL[name]), "--threads", "2"))
    assert_threads_and_seeds(name, digest, run)


def assert_threads_and_seeds(name: str, digest: str, run: Java) -> None:
    words = (name, "--size", str(SMALL[name]))
    assert digest_of(run(*words)) == digest
    assert digest_of(run(*words, "--seed", "2")) != digest


def test_the_index_is_made_once(run: Java, tmp_path: Path) -> None:
    words = ("lucene-search", "--size", "50", "--data", tmp_path / "data")
    made = digest_of(run(*words))
    (index,) = (tmp_path / "data").iterdir()
    before = index.stat().st_mtime_ns
    assert digest_of(run(*words)) == made
    assert index.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such"], "no such workload"),
        ([], "no workload is named"),
        (["lucene-index", "--size"], "nothing follows"),
        (["lucene-index", "--size", "0"], "out of range"),
        (["lucene-index", "--threads", "two"], "no whole number"),
        (["lucene-index", "--sizes", "2"], "no such option"),
    ],
)
def test_wrong_usage(words: list[str], said: str, run: Java) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "usage:" in done.stderr
    assert "Exception" not in done.stderr


def test_a_library_that_is_another_is_refused(jar: Path, tmp_path: Path) -> None:
    project = tmp_path / "java"
    shutil.copytree(BUILD.parent, project)
    sums = project / "checksums.sha256"
    first, *rest = sums.read_text().splitlines()
    sums.write_text("\n".join([first.replace(first[:4], "0000", 1), *rest]) + "\n")
    done = subprocess.run(
        [sys.executable, BUILD, project, tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "expected 0000" in done.stderr
    assert not (tmp_path / "out").exists()


# ---- iterations ----


@pytest.mark.parametrize(
    ("seconds", "first"),
    [
        ([1.0] * 6, 0),
        ([3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 1),  # the median of 2, 1, 1 is 1
        ([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0], None),
        ([1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0], 0),
        ([1.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0], 0),  # one slow iteration is no trend
        ([1.0] * 3 + [0.9] * 6, 2),
        ([1.0, 1.0, 1.0], None),
        ([], None),
    ],
)
def test_steady_from(seconds: Sequence[float], first: int | None) -> None:
    assert steady_from(seconds) == first


def test_iterations_are_read(tmp_path: Path) -> None:
    file = tmp_path / "times"
    file.write_text(f"{HEADER}\n0,10,1000000010,5\n1,1000000020,3000000020,6\n2,3000")
    assert read_iterations(file) == [
        Iteration(10, 1_000_000_010, 5),
        Iteration(1_000_000_020, 3_000_000_020, 6),
    ]
    assert read_iterations(file)[1].wall_seconds == 2.0


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", f"{HEADER}\n0,1\n", f"{HEADER}\n0,9,1,5\n", f"{HEADER}\n1,1,2,3\n", "\x00\xff"],
)
def test_damaged_iterations_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "times"
    file.write_text(text)
    with pytest.raises(UsageError, match="times"):
        read_iterations(file)
