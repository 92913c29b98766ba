"""The breakdown of HotSpot: what a JVM exports, and Java programs."""

from __future__ import annotations

import json
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tare.records.components import COMPONENTS, metric
from tare.studies.breakdown.descriptor import Buffer
from tare.studies.breakdown.image import Image
from tests.unit.studies.breakdown.test_hotspot import LIBRARY, descriptor_of_the_jvm, needs_java

Tare = Callable[..., subprocess.CompletedProcess[str]]

# ---- what a JVM tells of itself ----


def offsets_of_a_jvm(folder: Path) -> dict[tuple[str, str], int]:
    """Where fields lie, by type and name, in the table that a JVM has for debuggers."""
    table = Image(LIBRARY).symbols["gHotSpotVMStructs"]
    pause = folder / "pause"
    with subprocess.Popen(
        ["java", "-XX:+UnlockDiagnosticVMOptions", "-XX:+PauseAtStartup",
         f"-XX:PauseAtStartupFile={pause}", "-version"],
        stderr=subprocess.DEVNULL,
    ) as jvm:  # fmt: skip
        try:
            while not pause.exists() and jvm.poll() is None:
                time.sleep(0.02)
            assert pause.exists(), "the JVM did not pause"
            return dict(fields_of(jvm.pid, table))
        finally:
            pause.unlink(missing_ok=True)


def fields_of(pid: int, table: int) -> Iterator[tuple[tuple[str, str], int]]:
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    base = min(int(line.split("-")[0], 16) for line in maps if line.endswith(str(LIBRARY)))
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:

        def at(address: int, count: int) -> bytes:
            memory.seek(address)
            return memory.read(count)

        def text(address: int) -> str:
            return at(address, 100).split(b"\0")[0].decode() if address else ""

        (entry,) = struct.unpack("<Q", at(base + table, 8))
        while True:
            kind, field, _, _, offset, _ = struct.unpack("<6Q", at(entry, 48))
            if kind == 0:
                return
            yield (text(kind), text(field)), offset
            entry += 48


@needs_java
def test_the_buffer_lies_where_the_jvm_says(tmp_path: Path) -> None:
    offsets = offsets_of_a_jvm(tmp_path)
    buffer = offsets["Thread", "_tlab"]
    described = descriptor_of_the_jvm(Image(LIBRARY))
    how, words = described.buffer, described.words
    assert isinstance(how, Buffer)
    assert how.pointer == f"[r15 + {buffer + offsets['ThreadLocalAllocBuffer', '_top']}]"
    assert how.limit == f"[r15 + {buffer + offsets['ThreadLocalAllocBuffer', '_end']}]"
    assert offsets["oopDesc", "_mark"] == 0
    assert how.header.class_at == offsets["oopDesc", "_metadata._compressed_klass"]
    assert words["saved_pc"] == offsets["JavaThread", "_saved_exception_pc"]
    assert words["suspend_flags"] == offsets["JavaThread", "_suspend_flags"]


# ---- a program ----

CHURN = """
public class Churn {
  static final class Node { final int key; Node(int key) { this.key = key; } }
  static final Node[] keep = new Node[1024];
  static void work(int from, int n) {
    for (int i = from; i < from + n; i++) keep[i & 1023] = new Node(i);
  }
  public static void main(String[] words) {
    int n = Integer.parseInt(words[0]);
    for (int i = 0; i < n; i += 1000) work(i, 1000);
    System.out.println(keep[0].key);
  }
}
"""
OBJECTS = 3_000_000


@needs_java
@pytest.mark.parametrize(("collector", "barrier"), [("Serial", 5), ("G1", 14)])
def test_objects_of_a_java_program(
    collector: str, barrier: int, tare: Tare, tmp_path: Path
) -> None:
    (tmp_path / "Churn.java").write_text(CHURN)
    subprocess.run(["javac", "Churn.java"], cwd=tmp_path, check=True)
    done = tare("breakdown", "--quiet", "--no-page", "-o", "results", "--json", "-", "--",
                "java", f"-XX:+Use{collector}GC", "-Xbatch", "-Xmn4m", "-Xmx32m", "Churn",
                str(OBJECTS))  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {m["metric"]: m["value"] for m in json.loads(done.stdout)["measurements"]}
    assert sum(found[metric(name)] for name in COMPONENTS) == found["instructions"]
    # Of an object C2 writes two header words; C1, which compiles the loop first, computes one, but
    # not in JDK 25; the interpreter makes the first objects.
    assert 1.98 * OBJECTS <= found["record_tag_instructions"] < 2.5 * OBJECTS
    # A comparison with the limit of the buffer, and a jump.
    assert 1.9 * OBJECTS <= found["gc_check_instructions"] < 2.1 * OBJECTS
    # The pointer is read, moved and written; what is behind may be asked for in advance.
    assert 3 * OBJECTS <= found["allocation_instructions"] < 8 * OBJECTS
    # The address of the card is computed, and the card is marked; G1 asks where both objects lie.
    assert 2 * OBJECTS <= found["write_barrier_instructions"] < barrier * OBJECTS
    assert found["roots_instructions"] > 0
    assert found["copy_instructions"] > 0
    details = details_of(tmp_path / "results")
    title = descriptor_of_the_jvm(Image(LIBRARY)).title
    assert details["titles"] == [title]
    # Later JVMs, and G1, leave less of the JVM's own code compiled.
    at_least = 10 if (title, collector) == ("HotSpot 17", "Serial") else 2
    assert details["sites"]["tiled"] == details["sites"]["all"] > at_least
    assert {"Interpreter", "the compilers C1 and C2"} <= set(details["unexplained"])


def details_of(folder: Path) -> dict[str, Any]:
    """Of the run under the instrument; there is another for page faults."""
    lines = (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    details = [dict(record.get("outcome", record)["details"]) for record in map(json.loads, lines)]
    (found,) = [one for one in details if "sites" in one]
    return found
