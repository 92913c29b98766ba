"""The recorder in processes that ran before it came, and go on after it left."""

from __future__ import annotations

import ctypes.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from tare.__main__ import run as tare_command
from tare.base.errors import UsageError
from tare.base.native import native_file
from tare.heap_traces.trace import Trace, open_trace
from tare.observers import attaching
from tare.observers.asked import Asked
from tests.native.recorder.recorder_programs import compile_cpp

SERVES = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
static std::vector<char *> kept;
__attribute__((noinline)) static void make(int count, int size) {
  for (int i = 0; i < count; ++i) kept.push_back(static_cast<char *>(malloc(size)));
}
/* Commands, each answered by a line. */
int main() {
  char line[256], what[32];
  kept.reserve(1 << 20);
  while (fgets(line, sizeof line, stdin)) {
    int count = 0, size = 0;
    sscanf(line, "%31s %d %d", what, &count, &size);
    const std::string word = what;
    if (word == "make") make(count, size);
    if (word == "free") for (int i = 0; i < count; ++i) { free(kept.back()); kept.pop_back(); }
    char *volatile made;
    if (word == "new") for (int i = 0; i < count; ++i) { made = new char[size]; delete[] made; }
    static char text[2000];
    if (word == "dup") memset(text, 'x', size - 1);
    if (word == "dup") for (int i = 0; i < count; ++i) free(strdup(text));
    if (word == "thread") std::thread([=] { make(count, size); }).join();
    if (word == "fork" && fork() == 0) { make(count, size); _exit(0); }
    if (word == "fork") wait(nullptr);
    if (word == "daemon") {
      if (fork() != 0) continue;
      make(count, size);
      puts("done");
      fflush(stdout);
      pause();
    }
    if (word == "spin") { puts("spins"); fflush(stdout); for (volatile long i = 0;; i = i + 1) {} }
    puts("done");
    fflush(stdout);
  }
}
"""
PLAIN = ("-O1", "-g", "-fno-builtin", "-pthread")


class Serving:
    """A program that does what it is told, before, while and after it is recorded."""

    def __init__(self, program: Path, **more: str) -> None:
        self.process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **more},
        )
        self.pid = self.process.pid

    def do(self, *commands: str, answer: str = "done") -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for command in commands:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline().strip() == answer

    def recorded(self, folder: Path, *commands: str, what: Asked | None = None) -> Trace:
        """The trace of what it does meanwhile."""

        def note(text: str) -> None:
            if text.startswith("recording "):
                self.do(*commands)

        target = attaching.target_of(self.pid)
        attaching.trace_of(target, folder, what or Asked(), 1e-3, note)
        return open_trace(folder)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_cpp(tmp_path, SERVES, *PLAIN)


@contextmanager
def serving(program: Path, **more: str) -> Iterator[Serving]:
    served = Serving(program, **more)
    try:
        served.do("make 10 900")
        yield served
        served.do("make 10 901", "free 10")  # it is as well as before
        assert served.process.stdin is not None
        served.process.stdin.close()
        assert served.process.wait() == 0
    finally:
        served.process.kill()
        served.process.wait()


def sizes(trace: Trace) -> dict[int, int]:
    """How many objects there are of each size that the program was told."""
    found = trace.objects().filter(pl.col("size").is_between(900, 1999)).group_by("size").len()
    return dict(found.collect().sort("size").rows())


def test_what_happens_meanwhile_is_recorded(program: Path, tmp_path: Path) -> None:
    with serving(program) as served:
        trace = served.recorded(
            tmp_path / "t", "make 200 1001", "free 150", "new 30 1002", "dup 40 1003",
            "thread 25 1004",
        )  # fmt: skip
        served.do("make 5 1005")
    assert sizes(trace)[1001] == 200
    assert sizes(trace)[1002] == 30
    assert sizes(trace)[1003] == 40  # the C library's copies of a string
    assert sizes(trace)[1004] == 25
    assert not sizes(trace).keys() & {900, 901, 1005}
    objects = trace.objects().collect()
    alive = objects.filter(pl.col("free_bytes").is_null() & (pl.col("size") == 1001))
    assert len(alive) == 50
    frames = [frame["function"] for frame in trace.frames_of(0, alive["site"][0])]
    assert [name for name in frames if name in ("make(int, int)", "main")] == ["make(int, int)",
                                                                              "main"]  # fmt: skip
    assert trace.meta["attached"] == served.pid
    assert trace.meta["complete"] is True
    assert [process["end"] for process in trace.processes] == ["left"]


def test_frees_of_older_objects_are_no_faults(program: Path, tmp_path: Path) -> None:
    with serving(program) as served:
        trace = served.recorded(tmp_path / "t", "free 10", "make 3 1001")
    assert trace.processes[0]["unknown_frees"] == 0
    assert trace.processes[0]["inherited_frees"] == 10
    assert sizes(trace) == {1001: 3}


def test_it_comes_and_goes_again(program: Path, tmp_path: Path) -> None:
    with serving(program) as served:
        for number in range(4):
            trace = served.recorded(tmp_path / f"t{number}", f"make {20 + number} 1001")
            assert sizes(trace) == {1001: 20 + number}
            served.do("make 7 1002")


def test_a_sample(program: Path, tmp_path: Path) -> None:
    with serving(program) as served:
        what = Asked(sample_bytes=1)
        trace = served.recorded(tmp_path / "t", "make 200 1001", "free 150", what=what)
    assert sizes(trace) == {1001: 200}
    frees = trace.objects().filter(pl.col("size") == 1001).collect()["free_bytes"]
    assert frees.null_count() == 50


def test_a_child_is_recorded(program: Path, tmp_path: Path) -> None:
    with serving(program) as served:
        trace = served.recorded(tmp_path / "t", "make 3 1001", "fork 4 1002")
    assert sizes(trace) == {1001: 3, 1002: 4}
    assert [process["end"] for process in trace.processes] == ["left", "exit"]


def test_a_child_that_lives_on(program: Path, tmp_path: Path) -> None:
    with serving(program) as served:
        trace = served.recorded(tmp_path / "t", "daemon 4 1002")
        assert sizes(trace) == {1002: 4}
        parent, child = trace.processes
        try:
            assert [parent["end"], child["end"]] == ["left", "left"]
            assert trace.meta["complete"] is True
        finally:
            os.kill(child["pid"], signal.SIGKILL)


@pytest.mark.skipif(
    ctypes.util.find_library("jemalloc") is None, reason="Debian's package libjemalloc2 is missing"
)
def test_another_allocator_serves(program: Path, tmp_path: Path) -> None:
    with serving(program, LD_PRELOAD="libjemalloc.so.2") as served:
        trace = served.recorded(tmp_path / "t", "make 30 1001", "new 20 1002")
    assert "libjemalloc" in trace.meta["server"]
    assert sizes(trace) == {1001: 30, 1002: 20}


def test_a_process_that_never_waits(program: Path, tmp_path: Path) -> None:
    served = Serving(program)
    try:
        served.do("spin", answer="spins")
        trace = served.recorded(tmp_path / "t")
        assert trace.meta["complete"] is True
        assert served.process.poll() is None
    finally:
        served.process.kill()
        served.process.wait()


def test_a_process_that_ends_meanwhile(program: Path, tmp_path: Path) -> None:
    served = Serving(program)
    served.do("make 1 900")  # so that it has its libraries

    def note(text: str) -> None:
        if text.startswith("recording "):
            served.do("make 9 1001")
            assert served.process.stdin is not None
            served.process.stdin.close()
            served.process.wait()

    attaching.trace_of(attaching.target_of(served.pid), tmp_path / "t", Asked(), None, note)
    trace = open_trace(tmp_path / "t")
    assert sizes(trace) == {1001: 9}
    assert [process["end"] for process in trace.processes] == ["exit"]


# ---- the end of Tare ----

KILLED = """
import os, signal, sys
from pathlib import Path
from tare.observers import attaching
from tare.observers.asked import Asked
def note(text):
    if text.startswith("recording "):
        os.kill(os.getpid(), signal.SIGKILL)
attaching.trace_of(attaching.target_of(int(sys.argv[1])), Path(sys.argv[2]), Asked(), None, note)
"""


def test_tare_may_be_killed(program: Path, tmp_path: Path) -> None:
    with serving(program) as served:
        words = [sys.executable, "-c", KILLED, str(served.pid), str(tmp_path / "killed")]
        assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
        served.do("make 100 1001")
        trace = served.recorded(tmp_path / "t", "make 11 1002", "new 5 1003")
        assert sizes(trace) == {1002: 11, 1003: 5}


def test_it_leaves_by_itself_where_nobody_waits(program: Path, tmp_path: Path) -> None:
    kind, ending = 20, 2  # of format.hpp: where the header has the kind of end, and the one of this
    with serving(program) as served:
        attached = attaching.Attached(attaching.target_of(served.pid), tmp_path, Asked())
        attached.__enter__()
        attached._switch.until(1e-9)
        served.do("make 200000 1001")  # more than the block at hand has room for
        (events,) = tmp_path.glob("*.events")
        assert int.from_bytes(events.read_bytes()[kind : kind + 4], "little") == ending
        attached._leave()


# ---- what is refused ----


def refused(pid: int) -> str:
    with pytest.raises(UsageError) as error:
        attaching.target_of(pid)
    return error.value.message


def test_what_is_no_process() -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # a zombie until the next line but one
    assert refused(ended.pid) == f"there is no process {ended.pid}"
    ended.wait()
    assert refused(ended.pid) == f"there is no process {ended.pid}"
    assert "Tare itself" in refused(os.getpid())


def test_a_static_program(tmp_path: Path) -> None:
    program = compile_cpp(tmp_path, SERVES, *PLAIN, "-static")
    with serving(program) as served:
        assert "is statically linked or without glibc" in refused(served.pid)


def test_a_process_that_is_watched(program: Path, tmp_path: Path) -> None:
    with serving(program) as served:
        target = attaching.target_of(served.pid)
        with attaching.Attached(target, tmp_path, Asked()):
            other = tmp_path / "other"
            other.mkdir()
            with pytest.raises(UsageError, match="watched already: another tare"):
                attaching.Attached(target, other, Asked()).__enter__()
    with serving(program, LD_PRELOAD=str(native_file("lib/libtare-recorder.so"))) as served:
        assert "watched already: it runs under Tare's recorder" in refused(served.pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start programs of other users")
def test_a_process_of_another_user(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "600"], user=65534)
    try:
        assert refused(process.pid) == f"process {process.pid} is of another user (uid 65534)"
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make containers")
def test_a_process_in_a_container() -> None:
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", "echo in; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"in\n":
            pytest.skip("unshare cannot make a mount namespace here")
        assert "runs in a container" in refused(process.pid)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--attach", "PID", "--", "ls"], "instead of a PROGRAM"),
        (["--attach", "PID", "--last-use"], "births and frees are recorded"),
        (["--for", "1s", "ls"], "--for goes with --attach"),
        (["--attach", "0"], "Invalid value for '--attach'"),
    ],
)
def test_options_that_do_not_go_together(
    words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [str(os.getppid()) if word == "PID" else word for word in words]
    assert tare_command(["trace", *given]) == 2
    assert said in capfd.readouterr().err


def test_the_command(program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(program) as served:
        words = ["trace", "--attach", str(served.pid), "--for", "1s", "--sample", "4KiB"]
        assert tare_command([*words, "-o", str(tmp_path / "t.tare")]) == 0
        said = capfd.readouterr().out
        assert f"The recorder was put into process {served.pid} while it ran." in said
        assert "It was recorded for" in said
