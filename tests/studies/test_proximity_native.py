"""Programs that tell their events themselves: the header, and the study."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.base.native import native_file
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import machine_libc
from tare.records.results import read_records
from tare.studies.proximity.analysis import (
    read_recorded,
)
from tare.studies.proximity.observe import EVENTS_VARIABLE
from tests.support import ROOT

INCLUDE = ROOT / "observers" / "events" / "include"
REDIS = ROOT / "workloads" / "servers" / "redis_requests.py"
MOST = 4_000_000
Compile = Callable[..., Path]
# ---- the header ----

TWO_PARTS = r"""
#include <pthread.h>
#include <sys/wait.h>
#include <tare/events.h>
void other_part(void);
#ifdef OTHER
void other_part(void) {
  tare_event_begin(7);
  tare_event_end();
}
#else
static void* work(void* key) {
  for (int i = 0; i < 1000; i++) {
    tare_event_begin((int64_t)(intptr_t)key);
    tare_event_begin(99); /* inside of another */
    tare_event_end();
    tare_event_end();
  }
  tare_event_end(); /* of none */
  return NULL;
}
int main(void) {
  pthread_t threads[3];
  int status = 0;
  for (intptr_t i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  other_part();
  const pid_t child = fork();
  if (child == 0) {
    work((void*)50);
    _exit(0);
  }
  waitpid(child, &status, 0);
  return status;
}
#endif
"""


@pytest.mark.parametrize(
    "compiler", [("cc", "-x", "c", "-std=gnu99"), ("c++", "-x", "c++", "-std=c++20")]
)
def test_the_header(tmp_path: Path, compiler: Sequence[str]) -> None:
    (tmp_path / "main.txt").write_text(TWO_PARTS)
    objects = []
    for number, part in enumerate(("-DMAIN", "-DOTHER")):
        objects.append(str(tmp_path / f"{number}.o"))
        warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
        subprocess.run(
            [*compiler, *warnings, "-O2", part, f"-I{INCLUDE}", "-c", "-o", objects[-1],
             tmp_path / "main.txt"],
            check=True,
        )  # fmt: skip
    subprocess.run([compiler[0], "-o", tmp_path / "main", *objects, "-pthread"], check=True)
    told = tmp_path / "told"
    told.mkdir()
    subprocess.run([tmp_path / "main"], env={**os.environ, EVENTS_VARIABLE: str(told)}, check=True)
    parent, child = sorted(
        (read_recorded(path, MOST) for path in told.iterdir()), key=lambda each: -len(each.events)
    )
    keys, counts = np.unique(parent.events.key, return_counts=True)
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == {
        0: 1000, 1: 1000, 2: 1000, 7: 1,
    }  # fmt: skip
    assert len(np.unique(parent.events.thread)) == 4
    assert np.unique(child.events.key).tolist() == [50]
    assert len(child.events) == 1000
    assert (parent.server, parent.methods, parent.dropped) == (0, 1, 0)
    for events in (parent.events, child.events):
        assert (events.wall > 0).all()
        assert (np.diff(events.start) >= 0).all()
    # The processor time of a quarter of them is read, in blocks of 64.
    for thread in np.unique(parent.events.thread):
        known = parent.events.cpu[parent.events.thread == thread] > 0
        assert known.tolist() == [place // 64 % 4 == 0 for place in range(known.size)]
    shutil.rmtree(told)
    subprocess.run([tmp_path / "main"], env={**os.environ, EVENTS_VARIABLE: str(told)}, check=True)
    assert not told.exists()  # the program goes on where nothing can be written


# ---- pauses that the layer puts in ----

CHURN = r"""
#include <stdlib.h>
#include <string.h>
static void* volatile sink;
int main(void) {
  for (int i = 0; i < 100000; i++) memset(sink = malloc(100), 1, 100);
  return 0;
}"""


def under_the_layer(program: Path, folder: Path, **variables: str) -> marksweep.Process:
    folder.mkdir()
    environment = {
        "LD_PRELOAD": f"{native_file(marksweep.OBJECT)} {machine_libc()}",
        "TARE_MARKSWEEP_EVERY": str(256 << 10),
        marksweep.COUNTERS_VARIABLE: str(folder),
        **variables,
    }
    subprocess.run([program], env=environment, check=True)
    (file,) = folder.iterdir()
    process = marksweep.read_process(file)
    assert process is not None
    return process


def test_pauses_are_put_in_midway(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(CHURN, "-fno-builtin")
    plain = under_the_layer(program, tmp_path / "plain")
    assert len(plain.pauses) == 0
    length = 200_000
    paused = under_the_layer(
        program, tmp_path / "paused", **{marksweep.PAUSE_VARIABLE: str(length)}
    )
    # 11 MB of objects: the same collections as without, and a pause before each.
    assert len(paused.collections) == len(plain.collections) >= 40
    assert abs(len(paused.pauses) - len(paused.collections)) <= 1
    bits = list(marksweep.PAUSES.values())
    turns = paused.pauses["kind"].tolist()
    assert turns == [bits[number % 3] for number in range(len(turns))]
    assert (paused.pauses["end"] - paused.pauses["begin"] >= length).all()
    both = np.concatenate([paused.collections, paused.pauses])
    order = np.argsort(both["begin"])
    assert (np.diff((both["kind"][order] & sum(bits)) != 0)).all()  # in turns
    assert paused.counts.collections == len(paused.collections)


def test_a_collection_says_when_and_what_it_cost(tmp_path: Path, compile_c: Compile) -> None:
    process = under_the_layer(compile_c(CHURN, "-fno-builtin"), tmp_path / "counters")
    rows = process.collections
    assert (rows["begin"] < rows["end"]).all()
    assert (rows["end"] <= rows["released"]).all()
    assert (rows["released"][:-1] <= rows["begin"][1:]).all()
    assert (rows["thread"] == process.pid).all()
    assert (rows["cpu"] > 0).all()
    assert int(rows["cpu"].sum()) == process.counts.pause_cpu_nanoseconds
    found = marksweep.values([process])
    # One thread: in a pause it cannot use more processor time than passes, but for the clocks.
    assert 0 < found["pause_cpu_seconds"] <= 1.5 * found["collector_seconds"]


# ---- the real thing ----

KNOWN = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <tare/events.h>
static volatile unsigned long sum;
static void work(int rounds) { for (int i = 0; i < rounds; i++) sum += (unsigned long)i; }
int main(void) {
  void (*collect)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "tare_marksweep_collect");
  for (int i = 0; i < 12000; i++) {
    const int since = i % 100;
    if (since == 0) collect();
    tare_event_begin(i % 2);
    work((i % 2 ? 15000 : 30000) * (since == 0 ? 3 : since == 1 ? 2 : 1));
    tare_event_end();
  }
  printf("%lu\n", sum);
  return 0;
}"""


def test_known_effects_of_a_real_program(tmp_path: Path, compile_c: Compile, tare: Any) -> None:
    program = compile_c(KNOWN, f"-I{INCLUDE}")
    manager = "marksweep(glibc, every=never)"
    done = tare("proximity", "-m", manager, "-n", "1", "--json", "r.json", "--", program)
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "r.json").read_text())
    values = {row["metric"]: row["value"] for row in made["measurements"]}
    assert values["events"] == 6000
    assert 59 <= values["pauses"] <= 60
    for rank, factor in ((1, 3.0), (2, 2.0), (5, 1.0), (20, 1.0)):
        assert values[f"after_{rank}_cpu_ratio"] == pytest.approx(factor, rel=0.2), rank
    assert "left open" in " ".join(
        done.stdout.split()
    )  # nothing was allocated, so no pauses were put in


SERVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tare/events.h>
static char* kept[1000];
int main(void) {
  unsigned long sum = 0;
  for (int event = 0; event < 12000; event++) {
    const int key = event * 31 % 16;
    tare_event_begin(key);
    for (int i = 0; i < 20 + key; i++) {
      char** const place = &kept[(i * 31 + key) % 1000];
      free(*place);
      *place = memset(malloc(300), key, 300);
      sum += (unsigned long)(*place)[i];
    }
    tare_event_end();
  }
  printf("%lu\n", sum);
  return 0;
}"""


def pairs_of(folder: Path) -> list[dict[str, Any]]:
    return [dict(record.outcome.details) for record in read_records(folder)]


def test_a_program_that_allocates(tmp_path: Path, compile_c: Compile, tare: Any) -> None:
    program = compile_c(SERVER, f"-I{INCLUDE}")
    options = ("-m", "marksweep(glibc, every=1MiB)", "-n", "1", "-o", "out", "--json", "r.json")
    done = tare("proximity", *options, "--", program)
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "r.json").read_text())
    values = {row["metric"]: row["value"] for row in made["measurements"]}
    assert values["events"] == 6000
    # 27.5 objects of 304 bytes each.
    assert values["pauses"] == pytest.approx(6000 * 27.5 * 304 / (1 << 20), rel=0.1)
    assert values["interrupted_events"] >= values["pauses"] - 1  # each is within an event
    (details,) = pairs_of(tmp_path / "out")
    length = details["pause_ns"]["collection"][0]
    for kind in ("spin", "park", "stop"):
        found, count = details["pause_ns"][kind]
        assert found >= 0.99 * length
        assert count >= 12
        assert details["curves"][kind]["wall"][0] is not None
    # An event does 20 to 35 times the same, and a stop falls to long ones a little more often.
    assert details["interrupted_ns"] == pytest.approx(details["kept_ns"], rel=0.5)
    assert "a stop of all" in (tmp_path / "out" / "report.html").read_text()


def test_as_many_collections_as_are_asked_for(
    tmp_path: Path, compile_c: Compile, tare: Any
) -> None:
    program = compile_c(SERVER, f"-I{INCLUDE}")
    done = tare("proximity", "--collections", "50,20", "-n", "1", "-o", "out", "--json", "r.json",
                "-m", "marksweep(glibc, free=honour)", "--", program)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "r.json").read_text())["measurements"]
    pauses = {row["manager"]: row["value"] for row in rows if row["metric"] == "pauses"}
    assert list(pauses.values()) == [pytest.approx(20, abs=2), pytest.approx(50, abs=4)]
    assert all(name.startswith("marksweep(glibc, free=honour, every=") for name in pauses)
    assert (tmp_path / "out-periods" / "measurements.parquet").exists()


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_redis(tmp_path: Path, tare: Any) -> None:
    options = ("-m", "marksweep(glibc, every=64KiB)", "-n", "1", "-o", "out", "--json", "r.json")
    done = tare("proximity", *options, "--", "python3", "-B", REDIS, "6000", "2")
    assert done.returncode == 0, done.stderr + done.stdout
    made = json.loads((tmp_path / "r.json").read_text())
    values = {row["metric"]: row["value"] for row in made["measurements"]}
    assert values["events"] == 3000
    assert values["pauses"] >= 5
    assert "after_1_cpu_ratio" not in values  # a client does not know it
    (details,) = pairs_of(tmp_path / "out")
    assert (details["threads"], details["keys"]) == (2, 5)
    assert all(details["pause_ns"][kind][1] > 0 for kind in ("spin", "park", "stop"))
    assert "processor time" not in (tmp_path / "out" / "report.html").read_text()


def test_a_program_without_events(tmp_path: Path, tare: Any) -> None:
    done = tare("proximity", "-n", "1", "-o", str(tmp_path / "out"), "--", "true")
    assert done.returncode == 1
    assert "the program wrote no events" in done.stdout
