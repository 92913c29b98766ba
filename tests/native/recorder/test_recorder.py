"""The recorder, on real programs, beside the instrument, heaptrack and the C library's unwinder."""

from __future__ import annotations

import random
import re
import shutil
import signal
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tare.base.errors import MissingError, TareError
from tare.base.native import native_file
from tare.heap_traces.recording import read_processes
from tare.heap_traces.trace import sample_weight
from tare.memory_managers.manager import resolve
from tare.observers import instrument, recorder
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tests.native.recorder import recorder_programs
from tests.native.recorder.recorder_programs import compile_cpp, record, record_raw

PLAIN = ("-O0", "-fno-builtin")  # nothing is optimised away


def programs(folder: Path) -> dict[str, list[str]]:
    """Some that always allocate the same, whatever their environment."""
    return {
        "family": [str(compile_cpp(folder, recorder_programs.FAMILY, *PLAIN, name="family"))],
        "churn": [str(compile_cpp(folder, recorder_programs.CHURN, name="churn"))],
        "sqlite3": ["sqlite3", ":memory:", "create table t(a); insert into t values (1), (2);"],
        "lua": ["lua5.4", "-e", "local t = {} for i = 1, 9999 do t[i % 99] = tostring(i) end"],
    }


@pytest.mark.parametrize("name", ["family", "churn", "sqlite3", "lua"])
@pytest.mark.parametrize("manager", ["glibc", "mimalloc"])
def test_counts_and_bytes_are_those_of_the_instrument(
    tmp_path: Path, name: str, manager: str
) -> None:
    argv = programs(tmp_path)[name]
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    program = Program("test", tuple(argv))
    counted = instrument.run_once(program, resolve(manager), Limits(), workspace)
    outcome, trace = record(tmp_path, *argv, manager=manager)
    assert counted.status is outcome.status is Status.OK
    objects = trace.objects().collect()
    assert trace.meta["complete"] is True
    assert objects["resized_from"].null_count() == counted.values["objects"]
    assert trace.meta["allocated_bytes"] == counted.values["allocated_bytes"]
    assert trace.meta["max_live_bytes"] == counted.values["max_live_bytes"]
    assert objects["birth_bytes"][-1] == counted.values["allocated_bytes"]
    operations = counted.details["operations"]
    for operation in ("malloc", "calloc", "aligned", "new"):
        calls = operations.get(operation, {"calls": 0, "no_object": 0})
        made = objects.filter(pl.col("operation") == operation).height
        assert made == calls["calls"] - calls["no_object"], operation
    assert trace.processes[0]["unknown_frees"] == 0


def test_counts_and_bytes_are_those_of_heaptrack(tmp_path: Path) -> None:
    if shutil.which("heaptrack") is None:
        pytest.skip("heaptrack is not installed (package heaptrack)")
    program = compile_cpp(tmp_path, recorder_programs.CHURN)
    _, trace = record(tmp_path, program)
    data = tmp_path / "heap"
    subprocess.run(["heaptrack", "-o", data, program], check=True, capture_output=True)
    (file,) = tmp_path.glob("heap.*")
    printed = subprocess.run(
        ["heaptrack_print", "-f", file], check=True, capture_output=True, text=True
    ).stdout
    found = re.search(r"calls to allocation functions: (\d+)", printed)
    assert found is not None
    assert trace.meta["objects"] == int(found[1])


def test_each_function_of_the_family(tmp_path: Path) -> None:
    outcome, trace = record(tmp_path, compile_cpp(tmp_path, recorder_programs.FAMILY, *PLAIN))
    assert outcome.status is Status.OK
    rows = {row["size"]: row for row in trace.objects().collect().to_dicts()}
    mine = {size: row for size, row in rows.items() if 1000 < size < 3000 or size == 90001}
    assert {size: row["operation"] for size, row in mine.items()} == {
        1001: "malloc",
        1002: "calloc",
        1003: "realloc",
        **dict.fromkeys((1004, 1005, 1006, 1012), "aligned"),
        1007: "realloc",
        **dict.fromkeys((1008, 1009, 1010, 1011, 1280, 2560), "new"),
        90001: "realloc",
    }
    alignments = {size: row["alignment"] for size, row in mine.items() if row["alignment"]}
    assert alignments == {1004: 64, 1005: 4096, 1006: 4096, 1012: 256, 1280: 128, 2560: 128}
    for row in mine.values():
        assert row["usable_size"] >= row["size"]
        assert row["free_nanoseconds"] >= row["birth_nanoseconds"] > 0
        assert row["address"] % (row["alignment"] or 16) == 0
        assert row["thread"] == row["free_thread"] == 1
        innermost = trace.frames_of(0, row["site"])[0]
        assert innermost["function"] == "main"
    assert mine[90001]["resized_from"] == mine[1001]["id"]
    assert mine[90001]["birth_bytes"] - mine[1012]["birth_bytes"] == 90001 - 1001


@pytest.mark.parametrize(
    "flags", [("-O0",), ("-O2",), ("-O2", "-fno-omit-frame-pointer"), ("-O3", "-static-libstdc++")]
)
def test_stacks_are_those_of_the_c_library(tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = compile_cpp(tmp_path, recorder_programs.STACKS, "-pthread", *flags)
    outcome, trace = record(tmp_path, program, tmp_path / "expected")
    assert outcome.status is Status.OK
    expected = {}
    for line in (tmp_path / "expected").read_text().splitlines():
        size, *calls = map(int, line.split())
        expected[size] = [call - 1 for call in calls]
    assert len(expected) > 1500
    sites = trace.sites().collect()
    caller = dict(zip(sites["site"], sites["caller"], strict=True))
    address = dict(zip(sites["site"], sites["address"], strict=True))

    def stack(site: int | None) -> list[int]:
        found = []
        while site is not None:
            found.append(address[site])
            site = caller[site]
        return found

    checked = 0
    for row in trace.objects().filter(pl.col("size") >= 100000).collect().to_dicts():
        if row["size"] not in expected:
            continue
        outer = expected[row["size"]]
        for site in (row["site"], row["free_site"]):
            found = stack(site)[1:]  # the innermost is in mark() itself
            if row["size"] >= 500000:  # an interrupted instruction is no call, and may be inlined
                outer = [call + 1 if call + 1 in found else call for call in outer]
                found = list(dict.fromkeys(found))
            assert found == outer
            checked += 1
    assert checked == 2 * len(expected)


def test_objects_that_another_thread_frees(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    program = compile_c(recorder_programs.HANDED_OVER, "-pthread")
    outcome, trace = record(tmp_path, program)
    assert outcome.status is Status.OK
    assert trace.meta["complete"] is True
    handed = trace.objects().filter(pl.col("size") == 48).collect()
    handed = handed.filter(pl.col("free_thread") != pl.col("thread"))
    assert handed.height == 4 * 20000
    assert handed["thread"].n_unique() == handed["free_thread"].n_unique() == 4
    assert handed["free_nanoseconds"].null_count() == 0
    assert trace.processes[0]["unknown_frees"] == 0


@pytest.mark.parametrize(
    ("word", "objects", "ends"),
    [
        ("t", [1000 + 300 * 20], ["exit"]),
        ("f", [1100, 500], ["exit", "exit"]),
        ("c", [1000, 500], ["exit", "exit"]),
        ("v", [1100], ["exit"]),
        ("s", [1000, 1000], ["exit", "exit"]),
        ("e", [1000, 1000], ["exec", "exit"]),
        ("_", [1000], ["exit"]),
        ("a", [1000], ["running"]),
        ("k", [1000], ["running"]),
    ],
)
def test_threads_processes_and_their_ends(
    tmp_path: Path, compile_c: Callable[..., Path], word: str, objects: list[int], ends: list[str]
) -> None:
    program = compile_c(recorder_programs.ENDS, "-pthread")
    outcome, trace = record(tmp_path, program, word)
    assert [process["end"] for process in trace.processes] == ends
    mine = trace.objects().filter(pl.col("size") == 1001).collect()
    assert mine.group_by("process").len().sort("process")["len"].to_list() == objects
    freed = mine.filter(pl.col("free_bytes").is_not_null())
    assert freed.height == sum(objects) // 2
    assert mine["site"].null_count() == 0
    killed = word in "ak"
    assert outcome.status is (Status.FAILED if killed else Status.OK)
    assert trace.meta["complete"] is not killed
    if word == "t":
        assert mine["thread"].n_unique() == 301
    if word == "k":
        assert outcome.signal == signal.SIGKILL


def test_code_that_goes_away_and_other_code_in_its_place(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    names = ("first", "second")
    for name in names:
        source = f"#include <stdlib.h>\nvoid *{name}(void) {{ return malloc(1001); }}"
        compile_c(source, "-shared", "-fPIC", "-O0", name=f"lib{name}.so")
    program = compile_c(
        """
        #include <dlfcn.h>
        #include <stdlib.h>
        int main(int count, char **words) {
          for (int turn = 0; turn < 6; ++turn) {
            void *library = dlopen(words[1 + turn % 2], RTLD_NOW);
            void *(*make)(void) = dlsym(library, words[3 + turn % 2]);
            free(make());
            dlclose(library);
          }
        }
        """
    )
    outcome, trace = record(tmp_path, program, *(tmp_path / f"lib{n}.so" for n in names), *names)
    assert outcome.status is Status.OK
    mine = trace.objects().filter(pl.col("size") == 1001).collect()
    made_in = [trace.frames_of(0, site)[0]["function"] for site in mine["site"]]
    assert made_in == [*names] * 3


def test_a_manager_in_a_folder_with_a_space(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    program = compile_c("int main(void) { return 0; }")
    copy = tmp_path / "a folder" / "copy.so"
    copy.parent.mkdir()
    copy.write_bytes(native_file("managers/mimalloc/libtare-mimalloc.so").read_bytes())
    outcome, trace = record(tmp_path, program, manager=str(copy))
    assert outcome.status is Status.OK, outcome.reason
    assert trace.meta["server"] == str(copy)


def test_the_manager_behind_the_recorder_is_proved(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    program = compile_c("int main(void) { return 0; }")
    outcome, trace = record(tmp_path, program, manager="mimalloc")
    assert "mimalloc" in trace.meta["server"]
    outcome, trace = record(tmp_path, program, manager="delay(glibc)")
    assert outcome.status is Status.OK
    assert "libtare-delay" in trace.meta["server"]
    own = compile_c(
        """
        #include <stddef.h>
        static char room[1 << 16]; static size_t used;
        void *malloc(size_t n) { used += (n + 15) & ~15ul; return room + used - n; }
        void free(void *p) { (void)p; }
        int main(void) { return malloc(8) == 0; }
        """,
        "-fno-builtin",
        name="own",
    )
    outcome, trace = record(tmp_path, own)
    assert outcome.status is Status.NOT_LOADED
    assert trace.meta["complete"] is False


@pytest.mark.parametrize("how", ["unmapped", "protected", "remapped", "covered"])
def test_a_stack_that_has_gone_is_not_read(
    tmp_path: Path, compile_c: Callable[..., Path], how: str
) -> None:
    program = compile_c(
        recorder_programs.GONE_STACK, *PLAIN, "-fno-omit-frame-pointer", "-mno-red-zone"
    )
    outcome, trace = record(tmp_path, program, how)
    assert outcome.status is Status.OK, outcome.reason
    assert set(range(50, 60)) | {77} <= set(trace.objects().collect()["size"])


def test_damaged_files_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    events = record_raw(folder, compile_cpp(tmp_path, recorder_programs.CHURN))
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    chance = random.Random(1)
    found, damaged = [], 0
    for turn in range(30):
        for name, content in whole.items():
            data = bytearray(content)
            if turn % 2:
                data = data[: chance.randrange(len(data))]
            for _ in range(turn):
                if data:
                    data[chance.randrange(len(data))] = chance.randrange(256)
            (folder / name).write_bytes(data)
        try:
            recorder.merge(folder, lambda _: None)
        except TareError as error:
            pytest.fail(f"turn {turn}: {error.message}")
        (process,) = read_processes(folder)
        found.append(process.numbers["allocated_bytes"])
        damaged += bool(process.damage)
        for path in folder.iterdir():
            path.unlink()
    assert events.name in whole
    assert min(found) < found[0]
    assert damaged > 0


def test_a_file_size_limit_stops_the_recording_and_not_the_program(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    program = compile_cpp(tmp_path, recorder_programs.CHURN)
    limited = f"ulimit -f 300; exec {program}"
    outcome, trace = record(tmp_path, "sh", "-c", limited)
    assert outcome.status is Status.OK
    assert trace.meta["complete"] is False
    assert "no room" in trace.meta["reason"]
    assert 1000 < trace.meta["objects"] < 40000


def test_samples_stand_for_all_objects(tmp_path: Path) -> None:
    program = compile_cpp(tmp_path, recorder_programs.CHURN)
    _, whole = record(tmp_path, program)
    everything = whole.objects().select(pl.len(), pl.col("size").sum()).collect().row(0)
    estimates = []
    for _ in range(8):
        outcome, trace = record(tmp_path, program, sample_bytes=1 << 10)
        assert outcome.status is Status.OK
        # The bytes between the samples are counted, too.
        assert trace.meta["allocated_bytes"] == whole.meta["allocated_bytes"]
        assert 100 < trace.meta["objects"] < everything[0] / 5
        weight = sample_weight(trace.sample_bytes)
        estimates.append(
            trace.objects()
            .select(n=weight.sum(), b=(weight * pl.col("size")).sum())
            .collect()
            .row(0)
        )
        freed = trace.objects().collect()["free_bytes"].is_not_null().mean()
        assert freed is not None
        assert float(str(freed)) > 0.8
    for each, truth in zip(zip(*estimates, strict=True), everything, strict=True):
        # Some 1,200 samples a run: the mean of eight is within 5% but for one time in a million.
        assert abs(statistics.mean(each) / truth - 1) < 0.05


def test_sizes_that_cannot_be_had_do_not_end_the_recording(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    program = compile_c(
        """
        #include <stdlib.h>
        int main(void) {
          for (int i = 0; i < 100; ++i) if (malloc((size_t)-1 >> (1 + i % 3)) != 0) return 1;
          free(malloc(1001));
          return 0;
        }
        """,
        *PLAIN,
    )
    outcome, trace = record(tmp_path, program)
    assert outcome.status is Status.OK
    assert 1001 in trace.objects().collect()["size"]


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MERGER", "bin/nothing")
    with pytest.raises(MissingError):
        recorder.require()
    assert recorder.read_headers(tmp_path) == []
