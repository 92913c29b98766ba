"""Runs that other tools did, held against those tools."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.answers.building import build_report
from tare.studies.imported.report import section
from tests.unit.importing.test_runs import imported, values

Compile = Callable[..., Path]
# ---- running-ng ----

STAND_IN = """#!/bin/sh
case "$*" in *UseSerialGC*) echo "java.lang.OutOfMemoryError: Java heap space"; exit 1;; esac
count=$(cat COUNT 2>/dev/null || echo 0)
count=$((count + 1))
echo $count > COUNT
echo "===== DaCapo 23.11 lusearch starting warmup 1 ====="
echo "===== DaCapo 23.11 lusearch completed warmup 1 in 900 msec ====="
echo "===== DaCapo 23.11 lusearch starting ====="
echo "===== DaCapo 23.11 lusearch PASSED in $((500 + count)) msec ====="
echo "===== DaCapo simple tail latency: 50% 10 usec, 90% 20 usec, 99% 30 usec, 99.9% 40 usec,\
 99.99% 50 usec, max 60 usec, measured over 1000 events ====="
echo "============================ MMTk Statistics Totals ============================"
printf 'GC\\ttime.other\\ttime.stw\\n12\\t480.50\\t20.25\\n'
echo "Total time: 500.75 ms"
echo "------------------------------ End MMTk Statistics -----------------------------"
"""
CONFIGURATION = """
invocations: 2
minheap_multiplier: 1.0
heap_range: 6
spread_factor: 1
remote_host: null
suites:
  dacapo:
    type: DaCapo
    release: "23.11"
    path: HERE/dacapo.jar
    minheap: least
    minheap_values: {least: {lusearch: 10}}
    timing_iteration: 2
benchmarks: {dacapo: [lusearch]}
runtimes: {jdk: {type: OpenJDK, release: 17, home: HERE/jdk}}
modifiers:
  g1: {type: JVMArg, val: "-XX:+UseG1GC"}
  serial: {type: JVMArg, val: "-XX:+UseSerialGC"}
configs: ["jdk|g1", "jdk|serial"]
"""


@pytest.mark.skipif(
    importlib.util.find_spec("running") is None, reason="the Python package running-ng is missing"
)
def test_a_folder_that_running_ng_wrote(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(STAND_IN.replace("COUNT", str(tmp_path / "count")))
    java.chmod(0o755)
    (tmp_path / "dacapo.jar").touch()
    (tmp_path / "plan.yml").write_text(CONFIGURATION.replace("HERE", str(tmp_path)))
    tool = "from running.__main__ import main; main()"
    subprocess.run(
        [sys.executable, "-c", tool, "runbms", "logs", "plan.yml", "8", "4"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    (logs,) = (tmp_path / "logs").iterdir()
    results = imported(logs, tmp_path / "results")
    assert re.fullmatch(r"running-ng v\d\S+", results.document["imported"]["tool"])
    assert results.document["imported"]["missing"] == []
    g1, serial = results.run.managers
    assert re.fullmatch(r"jdk\.g1 \(heap=3(\.\d+)?x\)", g1)
    assert results.run.baseline == g1
    found = values(results, program="lusearch", manager=g1)
    assert found.pop("iteration_seconds") == [0.501, 0.502]
    assert found.pop("collections") == [12, 12]
    assert found.pop("collector_seconds") == [0.02025, 0.02025]
    assert [found[f"latency_{point}_seconds"][0] for point in ("50", "9999", "max")] == [
        10e-6, 50e-6, 60e-6,
    ]  # fmt: skip
    status = results.measurements.filter(manager=serial)["status"].to_list()
    assert status == ["out-of-memory"] * 2
    (shown,) = build_report(results).sections
    assert len(shown.tables) == 2


# ---- DHAT ----

ALLOCATES = """
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static char *make(size_t n) { return memset(malloc(n), 1, n); }
int main(void) {
  for (size_t i = 0; i < 1000; ++i) { char *p = make(100 + i); if (i % 10) free(p); }
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="Debian's package valgrind is missing")
def test_sums_are_those_that_dhat_prints(tmp_path: Path, compile_c: Compile) -> None:
    program, out = compile_c(ALLOCATES, "-g", "-fno-builtin"), tmp_path / "dhat.out.1"
    said = subprocess.run(
        ["valgrind", "--tool=dhat", f"--dhat-out-file={out}", program],
        capture_output=True, text=True, check=True,
    ).stderr.replace(",", "")  # fmt: skip
    results = imported(out, tmp_path / "results")
    found = {name: int(value[0]) for name, value in values(results).items()}

    def told(title: str) -> tuple[int, int]:
        match = re.search(rf"{title}: +(\d+) bytes in (\d+) blocks", said)
        assert match, said
        return int(match[1]), int(match[2])

    assert told("Total") == (found["allocated_bytes"], found["objects"]) == (599_500, 1000)
    assert told("At t-gmax") == (found["max_live_bytes"], found["max_live_objects"])
    assert found["instructions"] > 100_000
    (table,) = (t for t in section(results).tables if t.identifier == "table-places-1")
    assert table.rows[0][0].text.startswith("make")
