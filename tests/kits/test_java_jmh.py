"""kits/jmh, as a project uses it: built by Maven, run by JMH in a fork."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tare.base.native import kits_folder
from tests.support.java import skip_without_network

PROJECT = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>example</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.source>17</maven.compiler.source>
    <maven.compiler.target>17</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>org.openjdk.jmh</groupId>
      <artifactId>jmh-core</artifactId>
      <version>1.37</version>
    </dependency>
    <dependency>
      <groupId>org.openjdk.jmh</groupId>
      <artifactId>jmh-generator-annprocess</artifactId>
      <version>1.37</version>
    </dependency>
  </dependencies>
</project>
"""
BENCHMARKS = """
package example;

import org.openjdk.jmh.annotations.*;

@BenchmarkMode(Mode.SingleShotTime)
@Fork(value = 1, jvmArgs = {"-XX:+UseSerialGC", "-Xms64m", "-Xmx64m"})
@Warmup(iterations = 1)
@Measurement(iterations = 3)
public class Benchmarks {
  static volatile byte[] kept;

  @Benchmark
  public void collecting() {
    for (int i = 0; i < 10; i++) kept = new byte[1_000_000];
    System.gc();
    System.gc();
  }

  @Benchmark
  public void nothing() {}
}
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[float]]]:
    """By benchmark, what each iteration cost, by metric."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (packages default-jdk-headless, maven)")
    folder = tmp_path_factory.mktemp("jmh")
    source = folder / "src" / "main" / "java"
    (source / "example").mkdir(parents=True)
    (folder / "pom.xml").write_text(PROJECT)
    (source / "example" / "Benchmarks.java").write_text(BENCHMARKS)
    shutil.copytree(kits_folder() / "jmh" / "tare", source / "tare")
    build = ["mvn", "-q", "-B", "compile", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    done = _run(folder, build)
    skip_without_network(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    # Another may run on the machine: no time is measured here.
    jmh = [
        "java",
        "-Djmh.ignoreLock=true",
        "-cp",
        "target/classes:lib/*",
        "org.openjdk.jmh.Main",
        "-prof",
    ]
    done = _run(folder, [*jmh, "tare.TareProfiler", "-rf", "json", "-rff", "found.json"])
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        row["benchmark"].rpartition(".")[2]: {
            name: metric["rawData"][0] for name, metric in row["secondaryMetrics"].items()
        }
        for row in json.loads((folder / "found.json").read_text())
    }


def _run(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


def test_each_iteration_has_its_bytes_and_collections(
    figures: dict[str, dict[str, list[float]]],
) -> None:
    collecting, nothing = figures["collecting"], figures["nothing"]
    assert len(collecting["tare.allocated"]) == 3
    assert all(10e6 <= allocated < 11e6 for allocated in collecting["tare.allocated"])
    assert collecting["tare.collections"] == [2, 2, 2]
    assert all(allocated < 1e6 for allocated in nothing["tare.allocated"])
    assert nothing["tare.collections"] == [0, 0, 0]
    assert nothing["tare.pauses"] == [0, 0, 0]


def test_the_collectors_threads_take_processor_time(
    figures: dict[str, dict[str, list[float]]],
) -> None:
    collecting = figures["collecting"]
    if "tare.collector" not in collecting:
        pytest.skip("the system does not tell the processor time of threads (schedstat)")
    assert all(nanoseconds > 0 for nanoseconds in collecting["tare.collector"])
    assert sum(collecting["tare.collector"]) > sum(figures["nothing"]["tare.collector"])
