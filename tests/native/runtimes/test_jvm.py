"""Programs under the collectors of a JVM: real runs, and what they must not be taken for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.memory_managers.manager import resolve
from tare.memory_managers.runtimes.jvm.collectors import COLLECTORS, MMTK, OWN
from tare.observers import runner
from tare.programs import java_command
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.conftest import Completed
from tests.support.java import java_since

JAVA = shutil.which("java")
JAVAC = shutil.which("javac")
needs_java = pytest.mark.skipif(
    JAVA is None or JAVAC is None, reason="no JDK (package default-jdk-headless)"
)
CHURN = """
import java.lang.management.*;
import java.nio.file.*;

/** Allocates so many MiB in small arrays and keeps so many; tells what the JVM itself counted. */
public class Churn {
    public static void main(String[] words) throws Exception {
        byte[][] kept = new byte[Integer.parseInt(words[1]) * 1024][];
        long digest = 0;
        for (int i = 0; i < Integer.parseInt(words[0]) * 1024; ++i) {
            byte[] piece = new byte[1008];
            piece[i % 1008] = (byte) i;
            kept[(int) ((i * 2654435761L >>> 7) % kept.length)] = piece;
            digest = digest * 31 + piece[i % 1008];
        }
        System.out.println(digest);
        if (words.length > 2) {
            StringBuilder told = new StringBuilder();
            for (var bean : ManagementFactory.getGarbageCollectorMXBeans())
                told.append(bean.getName() + ":" + bean.getCollectionCount() + ":"
                    + bean.getCollectionTime() + "\\n");
            Files.writeString(Path.of(words[2]), told);
        }
        if (words.length > 3) System.exit(Integer.parseInt(words[3]));
    }
}
"""
Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled program."""
    assert JAVAC is not None
    folder = tmp_path_factory.mktemp("classes")
    (folder / "Churn.java").write_text(CHURN)
    subprocess.run([JAVAC, "-d", folder, folder / "Churn.java"], check=True)
    return folder


@pytest.fixture
def run(tmp_path: Path, classes: Path) -> Run:
    """One run of the program, or of the command ``argv``, under a manager."""

    def run_once(
        manager: str,
        *words: object,
        argv: tuple[str, ...] = (),
        timeout: float | None = None,
        **more: Any,
    ) -> Outcome:
        command = argv or ("java", "-cp", str(classes), *map(str, words))
        program = Program("test", command, **more)
        return runner.run_once(program, resolve(manager), Limits(timeout), tmp_path)

    return run_once


@needs_java
@pytest.mark.parametrize("collector", [c for c in COLLECTORS if c not in (MMTK, OWN)])
def test_a_collector_serves_and_shows_itself(run: Run, collector: str) -> None:
    outcome = run(f"jvm.{collector}(heap=256MiB)", "Churn", 100, 4)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    values = outcome.values
    assert values["heap_bytes"] == 256 << 20
    assert values["mutator_seconds"] == pytest.approx(
        values["wall_seconds"] - values["collector_seconds"]
    )
    assert 0 <= values["collector_seconds"] < values["wall_seconds"]
    (process,) = outcome.details["jvm"]["processes"]
    assert process["collector"] == collector
    assert process["observer_cpu_seconds"] > 0
    if COLLECTORS[collector].stops:
        assert 99 << 20 <= values["heap_allocated_bytes"] <= 110 << 20
    if collector == "epsilon":
        assert values["collections"] == 0


def counted_by(told: Path) -> list[tuple[str, int, int]]:
    """By each bean of the JVM its name, its collections and their milliseconds."""
    lines = [line.split(":") for line in told.read_text().splitlines()]
    return [(name, int(count), int(milliseconds)) for name, count, milliseconds in lines]


@needs_java
@pytest.mark.parametrize(
    ("collector", "options"),
    [
        ("shenandoah", ["-XX:ShenandoahGCMode=generational", "-XX:+UseCompactObjectHeaders"]),
        ("zgc", ["-XX:+UseCompactObjectHeaders"]),
    ],
)
def test_generations_beside_the_program_are_those_that_the_jvm_counts(
    run: Run, classes: Path, tmp_path: Path, collector: str, options: list[str]
) -> None:
    java, told = java_since(25), tmp_path / "told"
    words = ("-cp", str(classes), "Churn", "400", "8", str(told))
    outcome = run(f"jvm.{collector}(heap=64MiB)", argv=(java, *options, *words))
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    for metric, beans in (("collections", "Cycles"), ("pauses", "Pauses")):
        counted = sum(count for name, count, _ in counted_by(told) if name.endswith(beans))
        # Some come after the JVM was asked, of which a busy machine makes any number.
        # ZGC was seen to count one stop of 97 more than the log and the agent saw.
        assert 0 < 0.95 * counted <= outcome.values[metric], metric


@needs_java
@pytest.mark.parametrize("collector", ["serial", "parallel", "g1"])
def test_collections_and_pauses_are_those_that_the_jvm_counts(
    run: Run, tmp_path: Path, collector: str
) -> None:
    told = tmp_path / "told"
    outcome = run(f"jvm.{collector}(heap=24MiB)", "Churn", 200, 4, told)
    assert outcome.status is Status.OK
    beans = [bean for bean in counted_by(told) if "Concurrent" not in bean[0]]  # from JDK 20 on
    counted = sum(count for _, count, _ in beans)
    milliseconds = sum(each for _, _, each in beans)
    assert counted > 5
    # G1's beans do not count its concurrent cycles, and it may collect once more at the end.
    concurrent = outcome.values["collections"] - counted
    assert 0 <= concurrent <= (0.2 * counted + 2 if collector == "g1" else 1)
    # Their time begins when the program stands still, ours with the wish that it should.
    assert outcome.values["collector_seconds"] >= (milliseconds - counted) / 1e3
    if collector == "serial":
        assert outcome.values["pause_cpu_seconds"] <= outcome.values["collector_seconds"] * 1.05


@needs_java
@pytest.mark.parametrize("collector", ["g1", "shenandoah", "zgc"])
def test_the_collectors_processor_time_is_what_the_jvm_counts(
    run: Run, classes: Path, tmp_path: Path, collector: str
) -> None:
    """At its end it counts less by what its thread for operations did for others than the
    collector, and Tare less by what came after its last look."""
    java, log = java_since(26), tmp_path / "cpu.log"
    command = (java, f"-Xlog:cpu:file={log}", "-cp", str(classes), "Churn", "3000", "24")
    outcome = run(f"jvm.{collector}(heap=64MiB)", argv=command)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    counted = re.search(r"Garbage Collection +([\d.]+)", log.read_text())
    assert counted is not None
    seconds = pytest.approx(float(counted[1]), rel=0.05, abs=0.1)
    assert outcome.values["collector_cpu_seconds"] == seconds


@needs_java
def test_memory_time_and_a_crash_are_told_apart(run: Run) -> None:
    def status(manager: str, *words: object, timeout: float | None = None) -> Status:
        return run(manager, *words, timeout=timeout).status

    assert status("jvm.serial(heap=8MiB)", "Churn", 50, 20) is Status.OUT_OF_MEMORY
    assert status("jvm.g1(heap=8MiB)", "Churn", 50, 20) is Status.OUT_OF_MEMORY
    assert status("jvm.epsilon(heap=32MiB)", "Churn", 50, 1) is Status.OUT_OF_MEMORY
    assert status("jvm.g1", "Churn", 1_000_000, 1, timeout=0.7) is Status.TIMEOUT
    # The program's own exit status 3 is not the JVM's for want of memory.
    assert status("jvm.g1", "Churn", 1, 1, "/dev/null", 3) is Status.FAILED
    assert status("jvm.g1", "NoSuchClass") is Status.FAILED
    too_small = run("jvm.serial(heap=1KiB)", "Churn", 1, 1)
    assert too_small.status is Status.OUT_OF_MEMORY
    assert "too small" in too_small.reason
    unknown = run("jvm.g1", "-XX:+NoSuchOption", "Churn")
    assert unknown.status is Status.NOT_LOADED
    assert "NoSuchOption" in unknown.reason


@needs_java
def test_another_collector_or_heap_than_asked_for_does_not_count(run: Run, classes: Path) -> None:
    """Options that Tare cannot see before: a script adds them."""
    script = classes / "other.sh"
    script.write_text(f'#!/bin/sh\nexec java "$@" -cp {classes} Churn 10 1\n')
    script.chmod(0o755)
    swapped = run("jvm.serial", argv=(str(script), "-XX:-UseSerialGC", "-XX:+UseParallelGC"))
    assert swapped.status is Status.NOT_LOADED
    assert "parallel" in swapped.reason
    larger = run("jvm.serial(heap=64MiB)", argv=(str(script), "-Xmx512m"))
    assert larger.status is Status.NOT_LOADED
    assert str(512 << 20) in larger.reason
    assert run("jvm.serial", argv=("true",)).status is Status.NOT_LOADED


@needs_java
def test_a_script_hands_the_options_on(run: Run, classes: Path, tmp_path: Path) -> None:
    script = tmp_path / "a script"
    script.write_text(f"#!/bin/sh\njava -cp {classes} Churn 20 1\njava -cp {classes} Churn 30 1\n")
    script.chmod(0o755)
    outcome = run(
        "jvm.serial(heap=64MiB)",
        argv=(str(script),),
        environment={java_command.VARIABLE: '-Dspaced="a b"'},
    )
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    assert len(outcome.details["jvm"]["processes"]) == 2
    assert 49 << 20 <= outcome.values["heap_allocated_bytes"] <= 60 << 20


@needs_java
@pytest.mark.parametrize("collector", ["serial", "parallel"])
def test_a_period_is_kept_within_two_hundredths(run: Run, collector: str) -> None:
    """The arrays are 1024 bytes with their headers; the JVM's own need is the rest."""
    outcome = run(f"jvm.{collector}(heap=128MiB, period=8MiB)", "Churn", 1000, 1)
    assert outcome.status is Status.OK
    period = outcome.values["heap_allocated_bytes"] / outcome.values["collections"]
    assert period == pytest.approx(8 << 20, rel=0.02)


@needs_java
def test_full_collections_come_with_their_period(run: Run) -> None:
    outcome = run("jvm.serial(heap=128MiB, period=8MiB, full-period=64MiB)", "Churn", 1000, 1)
    assert outcome.status is Status.OK
    young = outcome.values["collections"] - outcome.values["full_collections"]
    assert young / outcome.values["full_collections"] == pytest.approx(8, abs=0.6)


@needs_java
def test_the_thread_that_asks_for_full_collections_does_not_hold_up_the_exit(run: Run) -> None:
    """A JVM waits 300 ms for a thread in native code, and those would count as mutator time."""

    def seconds(options: str) -> float:
        outcome = run(f"jvm.serial(heap=64MiB, period=8MiB{options})", "Churn", 1, 1)
        assert outcome.status is Status.OK
        return outcome.values["wall_seconds"]

    least = min(seconds("") for _ in range(5))
    tries = 40  # a busy machine may need several; a thread that is waited for never does it
    assert any(seconds(", full-period=64MiB") < least + 0.2 for _ in range(tries))


@needs_java
def test_the_command_line_compares_collectors(
    tare: Callable[..., Completed], classes: Path, tmp_path: Path
) -> None:
    done = tare(
        *("compare", "-m", "jvm.g1", "-m", "jvm.serial(heap=64MiB)", "-n", 2, "--warmup", 0),
        *("-o", tmp_path / "a folder: with signs", "--json", "out.json"),
        *("--", "java", "-cp", classes, "Churn", 100, 2),
    )
    assert done.returncode == 0, done.stderr
    assert "Collections (medians)" in done.stdout
    written = json.loads((tmp_path / "out.json").read_text())
    assert {row["manager"] for row in written["summary"]} == {"jvm.g1", "jvm.serial(heap=64MiB)"}
    names = {row["metric"] for row in written["measurements"]}
    assert {"collections", "full_collections", "collector_cpu_seconds"} <= names


@needs_java
def test_a_heap_can_be_a_multiple_of_the_least(
    tare: Callable[..., Completed], classes: Path, tmp_path: Path
) -> None:
    done = tare(
        *("compare", "-m", "jvm.serial(heap=2x)", "-n", 1, "--warmup", 0, "-o", "r", "--no-page"),
        *("--", "java", "-cp", classes, "Churn", 40, 8),
    )
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    heap = run["heaps"]["jvm.serial(heap=2x)"]
    assert 8 << 20 < heap["least_bytes"] <= 24 << 20
    assert heap["heap_bytes"] == 2 * heap["least_bytes"]
    (first, *_) = (tmp_path / "r" / "runs.jsonl").read_text().splitlines()
    assert json.loads(first)["values"]["heap_bytes"] == heap["heap_bytes"]
    assert (tmp_path / "r-least-heaps" / "runs.jsonl").exists()


@needs_java
@pytest.mark.parametrize(
    ("manager", "words"),
    [
        ("jvm.serial", ["-XX:+UseG1GC", "Churn"]),
        ("jvm.serial(heap=64MiB)", ["-Xmx64m", "Churn"]),
        ("jvm.g1(heap=64MiB)", ["-cp", "x", "-XX:MaxRAMPercentage=5", "Churn"]),
        ("jvm.g1(threads=2)", ["-XX:ConcGCThreads=1", "Churn"]),
        ("jvm.parallel(period=8MiB)", ["-Xmn8m", "Churn"]),
        ("jvm.serial", ["@options"]),
    ],
)
def test_options_that_clash_are_refused(
    tare: Callable[..., Completed], tmp_path: Path, manager: str, words: list[str]
) -> None:
    (tmp_path / "options").write_text("-Dx=y\n-XX:+UseZGC\n")
    done = tare("compare", "-m", manager, "--", "java", *words)
    assert done.returncode == 2
    assert "clashes" in done.stderr
    assert not (tmp_path / "tare-results").exists()


@needs_java
def test_the_environment_may_not_clash_either(tare: Callable[..., Completed]) -> None:
    environment = {**os.environ, "_JAVA_OPTIONS": "-Xmx64m"}
    done = tare("compare", "-m", "jvm.g1(heap=1GiB)", "--", "java", "Churn", env=environment)
    assert done.returncode == 2
    assert "-Xmx64m" in done.stderr


@pytest.mark.parametrize("command", ["count", "space", "drag", "trace"])
def test_what_looks_at_malloc_refuses_a_runtime(
    tare: Callable[..., Completed], tmp_path: Path, command: str
) -> None:
    done = tare(command, "-m", "jvm.g1", "--", "true")
    assert done.returncode in (2, 3), done.stderr
    if done.returncode == 2:  # 3: what looks is not built
        assert "malloc and free" in done.stderr
    assert not (tmp_path / "tare-results").exists()


@needs_java
def test_the_collector_that_the_command_chooses(run: Run, classes: Path) -> None:
    argv = ("java", "-XX:+UseParallelGC", "-cp", str(classes), "Churn", "100", "4")
    outcome = run("jvm.own", argv=argv)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    (process,) = outcome.details["jvm"]["processes"]
    assert process["collector"] == "parallel"


@needs_java
def test_pauses_are_told_by_their_length(run: Run) -> None:
    outcome = run("jvm.serial(heap=24MiB)", "Churn", 200, 4)
    histogram, values = outcome.details["jvm"]["pause_histogram"], outcome.values
    assert sum(count for _, _, count in histogram) == values["pauses"]
    assert all(high == 2 * low for low, high, _ in histogram)
    low, high, _ = histogram[-1]
    assert low <= values["max_pause_seconds"] * 1e9 <= high
    assert values["median_pause_seconds"] <= values["max_pause_seconds"]


# ---- a JVM with MMTk, for which another stands in ----

LIKE_MMTK = r"""#!{python}
# Runs a JVM under another collector, and makes its log one of MMTk's, as real ones are in
# tests/unit/memory_managers/gc-logs/mmtk: no line of a collection, and safepoints for a
# ThirdPartyHeapOperation. It cannot print its heap, and NoGC and PageProtect end as the real ones
# do. A period is a young generation here.
import os, re, subprocess, sys
words = ["-XX:+UseSerialGC" if word == "-XX:+UseThirdPartyHeap" else word for word in sys.argv[1:]]
period = re.compile(r"-XX:ThirdPartyHeapOptions=stress_factor=([0-9]+),precise_stress=false$")
words = [period.sub(r"-Xmn\1", word) for word in words]
(log,) = [re.match("-Xlog:.*:file=([^:]*)/%p", word) for word in words if ":file=" in word]
if "+heap+" in "".join(words):
    sys.exit("guarantee(false) failed: print on not supported")
panics = {{
    "NoGC": "plan/nogc/global.rs:78:9:\n"
    "internal error: entered unreachable code: GC triggered in nogc",
    "PageProtect": "util/heap/freelistpageresource.rs:223:13:\n"
    "Failed at protecting memory (starting at 0x7f265000): "
    "Os {{ code: 12, kind: OutOfMemory, message: \"Cannot allocate memory\" }}",
}}
if (said := panics.get(os.environ["MMTK_PLAN"])) is not None:
    sys.stderr.write(
        f"\nthread '<unnamed>' (7537) panicked at mmtk-core/src/{{said}}\nstack backtrace:\n"
        "fatal runtime error: failed to initiate panic, error 5, aborting\n"
    )
    sys.stderr.flush()
    os.abort()
done = subprocess.run([{java!r}, *words])
for name in os.listdir(log[1]):
    if name.endswith(".gc.log"):
        path = os.path.join(log[1], name)
        lines = open(path).read().replace("Using Serial", "Using MMTk").splitlines()
        lines = [re.sub('"\w*Collect\w*"', '"ThirdPartyHeapOperation"', line) for line in lines]
        kept = [line for line in lines if "GC(" not in line and "Heap " not in line]
        open(path, "w").write("\n".join(kept) + "\n")
print(os.environ["MMTK_PLAN"], flush=True)
sys.exit(done.returncode)
"""


@pytest.fixture
def like_mmtk(classes: Path, tmp_path: Path) -> tuple[str, ...]:
    """A command of the program under a JVM that behaves as one with MMTk."""
    folder = tmp_path / "jdk"
    folder.mkdir()
    java = folder / "java"
    java.write_text(LIKE_MMTK.format(python=sys.executable, java=JAVA))
    java.chmod(0o755)
    return (str(java), "-cp", str(classes), "Churn", "200", "4")


@needs_java
def test_a_jvm_with_mmtk(run: Run, like_mmtk: tuple[str, ...]) -> None:
    outcome = run("jvm.mmtk(plan=Immix, heap=24MiB)", argv=like_mmtk)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    assert outcome.values["collections"] == outcome.values["pauses"] > 5
    assert 0 < outcome.values["collector_seconds"] < outcome.values["wall_seconds"]
    assert "full_collections" not in outcome.values
    assert outcome.values["collector_cpu_seconds"] > 0
    (process,) = outcome.details["jvm"]["processes"]
    assert process["collector"] == "mmtk"


@needs_java
def test_mmtk_that_never_collects_runs_out_of_memory(run: Run, like_mmtk: tuple[str, ...]) -> None:
    outcome = run("jvm.mmtk(plan=NoGC, heap=24MiB)", argv=like_mmtk)
    assert outcome.status is Status.OUT_OF_MEMORY
    assert "never collects" in outcome.reason


@needs_java
def test_mmtk_that_has_too_many_mappings_says_what_helps(
    run: Run, like_mmtk: tuple[str, ...]
) -> None:
    outcome = run("jvm.mmtk(plan=PageProtect, heap=24MiB)", argv=like_mmtk)
    assert outcome.status is Status.FAILED
    assert "vm.max_map_count" in outcome.reason


@needs_java
def test_a_jvm_without_mmtk_says_so(run: Run) -> None:
    outcome = run("jvm.mmtk(plan=Immix)", "Churn", 10, 4)
    assert outcome.status is Status.NOT_LOADED
    assert "UseThirdPartyHeap" in outcome.reason
