"""The instrument sees regions as regions: against programs that know what they do, and against what
the recorder sees of the same programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tare.base.native import native_file
from tare.heap_traces.conversion import convert
from tare.heap_traces.invariants import violations
from tare.heap_traces.trace import FREE_OPERATIONS, Trace, open_trace
from tare.memory_managers.manager import resolve
from tare.observers import asked, instrument, tracing
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tests.native.instrument.recordings.recorded import Completed, Recording, check, tool
from tests.native.managers.test_regions import compiled, flags_of
from tests.native.recorder.recorder_programs import compile_cpp
from tests.native.recorder.test_recorder_regions import HEADERS
from tests.native.recorder.test_recorder_regions import program as told_regions
from tests.support import SUPPORT
from tests.support.recordings import numbers, write_process

pytestmark = pytest.mark.usefixtures("needs_instrument")

FIRST_MARK, BYTES = 60_000, 1000
"""As in region_uses.c."""
KINDS = {"apr": ("apr-1", []), "talloc": ("talloc", ["-DTALLOC"]), "obstack": ("", ["-DOBSTACK"])}


@pytest.fixture(scope="module")
def needs_instrument() -> None:
    instrument.launcher()


def trace_of(
    folder: Path, *argv: str | Path, manager: str = "glibc", last_use: bool = True
) -> Trace:
    """A trace of the instrument, or of the recorder, which contradicts itself nowhere."""
    target = folder / ("instrument.tare" if last_use else "recorder.tare")
    outcome = tracing.run_once(
        Program("test", tuple(map(str, argv))),
        resolve(manager),
        Limits(),
        wanted=tracing.Wanted(target, asked.Asked(last_use=last_use)),
    )
    assert outcome.reason == ""
    assert outcome.status is Status.OK
    trace = open_trace(target)
    assert trace.meta["complete"] is True
    assert violations(trace) == trace.meta["violations"] == {}
    return trace


def uses_program(folder: Path, kind: str) -> Path:
    package, flags = KINDS[kind]
    libraries = flags_of(package) if package else []
    return compiled(folder, str(SUPPORT / "programs" / "region_uses.c"), *flags, *libraries)


# ---- when objects are used, and when they end ----


@pytest.mark.parametrize(
    ("kind", "route"),
    [
        *(("apr", route) for route in ("original", "emulation", "region", "reap")),
        *(("obstack", route) for route in ("emulation", "reap")),
        ("talloc", "reap"),
    ],
)
def test_uses_and_ends_are_where_the_program_knows_them(
    kind: str, route: str, tmp_path: Path
) -> None:
    program = uses_program(tmp_path, kind)
    trace = trace_of(tmp_path, program, manager=f"regions(glibc, as={route})")
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    known = np.array([line.split() for line in printed.splitlines()], np.int64)
    objects = trace.objects().collect()
    marks = objects.filter(pl.col("size") >= FIRST_MARK)["birth_instructions"].to_numpy()
    found = objects.filter(
        (pl.col("operation") == "region") & pl.col("size").is_between(BYTES, BYTES + 200)
    )

    def seen(moment: str) -> list[int]:
        times = found[f"{moment}_instructions"]
        return [-1 if t is None else int(np.searchsorted(marks, t, side="right")) for t in times]

    assert found.height == len(known)
    if kind == "talloc":
        # libtalloc uses what lies before each object when others come and go around it, and when
        # it is freed: what is left is those that are never freed.
        assert seen("last_use")[-2:] == known[-2:, 1].tolist()
        assert seen("free")[-2:] == [-1, -1]
        return
    assert seen("first_use") == known[:, 0].tolist()
    assert seen("last_use") == known[:, 1].tolist()
    assert seen("free") == known[:, 2].tolist()
    ended = found.filter(pl.col("free_bytes").is_not_null())
    assert set(ended["free_operation"]) == {"region"}


# ---- against the recorder ----

ALIKE = ("operation", "region", "size", "alignment", "free_operation", "birth_bytes", "region")


def same_lives(one: Trace, other: Trace) -> None:
    """Holds two traces of one program against each other, row by row."""
    assert len(one.processes) == len(other.processes)
    keys = ["process", "id"]
    rows = [t.objects().sort(keys).collect() for t in (one, other)]
    assert rows[0].height == rows[1].height
    for column in (*keys, *ALIKE):
        assert rows[0][column].equals(rows[1][column]), column
    in_region = pl.col("region").is_not_null()
    for column in ("usable_size", "free_bytes"):
        assert rows[0].filter(in_region)[column].equals(rows[1].filter(in_region)[column]), column
    regions = [
        t.regions().sort("process", "region").drop("site", "created_nanoseconds",
                                                   "destroyed_nanoseconds").collect()
        for t in (one, other)
    ]  # fmt: skip
    assert regions[0].equals(regions[1])
    stacks = [stacks_of(t, table) for t, table in zip((one, other), rows, strict=True)]
    assert stacks[0] == stacks[1]
    stacks = [stacks_of(t, t.regions().sort("process", "region").collect()) for t in (one, other)]
    assert stacks[0] == stacks[1]


def stacks_of(trace: Trace, rows: pl.DataFrame) -> list[tuple[str, ...]]:
    """The functions that led to each row, up to main: outside of that the two name them
    differently."""
    frames = {
        (process, site): tuple(frame["function"] for frame in stack)
        for process, site, stack in trace.site_frames().rows()
    }
    stacks = [frames.get(key, ()) for key in rows.select("process", "site").rows()]
    return [s[: s.index("main") + 1] if "main" in s else () for s in stacks]


@pytest.mark.parametrize(
    ("kind", "route"), [("apr", "original"), ("talloc", "region"), ("obstack", "reap")]
)
def test_the_recorder_sees_the_same_regions(kind: str, route: str, tmp_path: Path) -> None:
    program = uses_program(tmp_path, kind)
    if kind != "apr":  # that has threads, whose order is not the same in two runs
        package, _ = KINDS[kind]
        libraries = flags_of(package) if package else []
        program = compiled(tmp_path, f"regions_{kind}.c", *libraries)
    manager = f"regions(glibc, as={route})"
    found = trace_of(tmp_path, program, manager=manager)
    same_lives(found, trace_of(tmp_path, program, manager=manager, last_use=False))
    assert found.objects().filter(pl.col("region").is_not_null()).collect().height > 20


def test_the_recorder_sees_the_same_of_threads_and_a_fork(tmp_path: Path) -> None:
    """The order of what threads do is not the same in two runs."""
    libraries = [*flags_of("apr-1"), "-lpthread", "-ldl"]
    program = compiled(tmp_path, "regions_apr.c", *libraries)
    lives, regions = [], []
    for last_use in (True, False):
        trace = trace_of(
            tmp_path, program, manager="regions(glibc, as=original)", last_use=last_use
        )
        in_region = trace.objects().filter(pl.col("operation") == "region")
        keys = ("process", "size", "free_operation")
        lives.append(in_region.group_by(keys).len().sort(keys).collect())
        of_process = trace.regions().group_by("process")
        counted = of_process.agg(
            pl.len(), pl.col("clears").sum(), pl.col("destroyed_bytes").count()
        )
        regions.append(counted.sort("process").collect())
    only = [a.join(b, on=a.columns, how="anti").rows() for a, b in (lives, lives[::-1])]
    assert only == [[], []]
    assert regions[0].equals(regions[1])
    assert min(regions[0]["len"].to_list()) > 10
    assert lives[0]["len"].sum() > 40_000


def test_the_recorder_sees_the_same_of_a_library_that_tells(tmp_path: Path) -> None:
    """With frees one by one, chunks of the library's own, regions inside others, and a fork."""
    program = told_regions(tmp_path)
    found = trace_of(tmp_path, program)
    same_lives(found, trace_of(tmp_path, program, last_use=False))
    assert len(found.processes) == 2
    assert found.regions().collect().height == 15
    assert all(process["unknown_frees"] == 0 for process in found.processes)


def test_the_recorder_sees_the_same_of_subversion(tmp_path: Path) -> None:
    if shutil.which("svnadmin") is None:
        pytest.skip("there is no svnadmin (Debian package subversion)")
    repository = tmp_path / "repository"
    subprocess.run(["svnadmin", "create", repository], check=True)
    subprocess.run(
        ["svn", "mkdir", "-q", "-m", "one", f"file://{repository}/trunk"],
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    command = ("svnadmin", "verify", "-q", repository)
    manager = "regions(glibc, as=original)"
    found = trace_of(tmp_path, *command, manager=manager)
    other = trace_of(tmp_path, *command, manager=manager, last_use=False)
    same_lives(found, other)
    objects = found.objects().filter(pl.col("operation") == "region").collect()
    assert objects.height > 500
    assert found.regions().collect().height > 50
    used = objects["last_use_instructions"].is_not_null().sum()
    assert used > objects.height / 2
    assert (objects["last_use_instructions"] <= objects["free_instructions"]).all()


# ---- the tool by itself ----


def told(folder: Path, source: str, *options: str) -> tuple[Completed, list[Recording]]:
    """What the tool records of a program that includes regions.hpp."""
    text = f'#include "regions.hpp"\n{source}'
    program = compile_cpp(folder, text, "-std=c++20", "-fno-builtin", f"-I{HEADERS}")
    preloaded = {"LD_PRELOAD": str(native_file(instrument.REGIONS_OBJECT))}
    return tool(folder, program, options=options, env=preloaded)


def test_a_killed_process_leaves_its_regions(tmp_path: Path) -> None:
    source = """
    #include <csignal>
    #include <unistd.h>
    int main() {
      const auto& recorder = tare::regions::FindRecorder();
      static char memory[10000 * 16];
      const auto outer = recorder.create(0, nullptr), inner = recorder.create(outer, nullptr);
      for (int i = 0; i < 10000; ++i) recorder.allocate(inner, memory + 16 * i, 9, 16, nullptr);
      if (fork() == 0) _exit(kill(getppid(), SIGKILL));
      for (;;) pause();
    }
    """
    done, (recording, _) = told(tmp_path, source)
    assert done.returncode == -signal.SIGKILL
    assert recording.process.end == "running"
    assert len(recording.births["size"]) == 8192
    assert np.count_nonzero(recording.births["region"] == 2) > 8000
    assert recording.regions["region"].tolist() == [1, 2]
    assert recording.regions["parent"].tolist() == [0, 1]
    assert recording.regions["destroyed_bytes"].tolist() == [0, 0]


def test_what_a_library_tells_wrongly_does_no_harm(tmp_path: Path) -> None:
    source = """
    #include <cstdlib>
    #include <initializer_list>
    int main() {
      const auto& recorder = tare::regions::FindRecorder();
      static char memory[4096];
      const auto region = recorder.create(77, nullptr);
      for (const auto address : {1ul << 45, 1ul << 46, ~0ul, ~0ul - 100, 1ul << 63})
        recorder.allocate(region, (void*)address, 50, 50, nullptr);
      for (const auto bytes : {1ul << 45, 1ul << 63, ~0ul})
        recorder.allocate(region, memory, bytes, bytes, nullptr);
      recorder.allocate(0, memory, 8, 8, nullptr);
      recorder.allocate(99, memory, 8, 8, nullptr);
      recorder.allocate(region, nullptr, 8, 8, nullptr);
      recorder.free((void*)~0ul, nullptr);
      recorder.free(nullptr, nullptr);
      recorder.clear(99, nullptr);
      recorder.destroy(99, nullptr);
      recorder.end_own();
      // One in place of another, and one in the other's midst.
      recorder.allocate(region, memory, 24, 24, (void*)8);
      recorder.allocate(region, memory, 400, 400, nullptr);
      recorder.allocate(region, memory + 80, 40, 40, nullptr);
      recorder.destroy(region, nullptr);
      recorder.destroy(region, nullptr);
      recorder.begin_own();
      void* own = realloc(malloc(70), 80);
      recorder.end_own();
      own = realloc(own, 90);
      free(own);
      return 0;
    }
    """
    done, (recording,) = told(tmp_path, source)
    assert (done.returncode, done.stderr) == (0, "")
    check(recording)
    in_region = recording.births["region"] == 1
    assert recording.births["size"][in_region].tolist() == [24, 400, 40]
    ways = [FREE_OPERATIONS[way] for way in recording.deaths["free_operation"][in_region]]
    assert ways == ["free", "region", "region"]
    assert recording.of_size(90) != []
    assert recording.of_size(70) == recording.of_size(80) == []
    # The wild address; what was told of region 99 is nothing.
    assert recording.process.numbers["unknown_frees"] == 1
    assert recording.regions["region"].tolist() == [1, 1]


def test_what_only_a_library_points_to_is_reachable(tmp_path: Path) -> None:
    source = """
    #include <cstdlib>
    #include <cstring>
    #include <sys/mman.h>
    #define HIDE(p) (~(unsigned long)(p))
    static unsigned long hidden;
    __attribute__((noinline)) static void fill(bool maps) {
      const auto& recorder = tare::regions::FindRecorder();
      recorder.begin_own();
      char* const chunk = maps ? (char*)mmap(0, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                               : (char*)malloc(8192);
      recorder.end_own();
      const auto region = recorder.create(0, nullptr);
      void** const head = (void**)chunk;
      void** const first = (void**)(chunk + 64);
      char* const second = chunk + 1064;
      void** const lost = (void**)(chunk + 2064);
      char* const of_lost = chunk + 3064;
      recorder.allocate(region, first, 501 + maps, 512, nullptr);
      recorder.allocate(region, second, 503 + maps, 512, nullptr);
      recorder.allocate(region, lost, 505 + maps, 512, nullptr);
      recorder.allocate(region, of_lost, 507 + maps, 512, nullptr);
      head[0] = first;
      first[1] = second + 40;
      lost[0] = of_lost;
      hidden = HIDE(chunk);
    }
    __attribute__((noinline)) static void wipe() { volatile char stack[20000] = {}; stack[7] = 1; }
    int main() {
      fill(false);
      fill(true);
      wipe();
      for (int i = 0; i < 40; ++i) free(malloc(50000));
      return 0;
    }
    """
    done, (recording,) = told(tmp_path, source, "--reachability=1000000")
    assert (done.returncode, done.stderr) == (0, "")
    check(recording)
    assert len(recording.marks["bytes"]) == 2
    found = {
        size: bool(recording.deaths["unreachable_bytes"][recording.only(size)])
        for size in range(501, 509)
    }
    assert found == {size: size >= 505 for size in range(501, 509)}


def test_pointers_in_the_child_of_a_fork_are_to_its_own_objects(tmp_path: Path) -> None:
    source = """
    #include <cstdlib>
    #include <sys/wait.h>
    #include <unistd.h>
    int main() {
      void* volatile* before = (void**)malloc(301);
      void* volatile other = malloc(302);
      if (fork() == 0) {
        before[0] = other;
        void* volatile* mine = (void**)malloc(303);
        mine[0] = other;
        mine[1] = (void*)mine;
        _exit(0);
      }
      wait(nullptr);
      return 0;
    }
    """
    done, recordings = told(tmp_path, source, "--pointers=yes")
    assert done.returncode == 0
    child = recordings[1]
    row = child.only(303)
    stores = set(zip(*(child.pointers[name].tolist() for name in ("source", "offset", "target")),
                     strict=True))  # fmt: skip
    assert (row + 1, 8, row + 1) in stores
    assert all(source <= row + 1 and target <= row + 1 for source, _, target in stores)


# ---- the trace of a recording ----


def test_the_last_row_of_a_region_counts(tmp_path: Path) -> None:
    recording, folder = tmp_path / "recording", tmp_path / "trace"
    folder.mkdir()
    rows = {
        "region": numbers(1, 2, 3, 2, 3),
        "parent": numbers(0, 1, 1, 1, 1),
        "created_bytes": numbers(5, 6, 7, 6, 7),
        "destroyed_bytes": numbers(0, 0, 0, 60, 70),
        "clears": numbers(0, 0, 0, 4, 0),
    }
    write_process(recording, regions=rows)
    facts = {
        "observer": "instrument", "observed": [], "program": {}, "manager": "glibc",
    }  # fmt: skip
    convert(recording, folder, facts)
    regions = open_trace(folder).regions().collect()
    assert regions.select("region", "destroyed_bytes", "clears").rows() == [
        (1, None, 0),
        (2, 60, 4),
        (3, 70, 0),
    ]
