"""Where results are written to, and streams that are closed, full or of another encoding."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.memory_managers.manager import resolve
from tests.conftest import TARE, Completed

MEASURE = ("compare", "-q", "--no-page", "-n", "2", "-m", "glibc")


def is_export(text: str | bytes) -> bool:
    return bool(json.loads(text)["study"] == "compare")


@pytest.mark.parametrize("file", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_export_goes_to_standard_output(tare: Callable[..., Completed], file: str) -> None:
    done = tare(*MEASURE, "--json", file, "--", "true")
    assert done.returncode == 0, done.stderr
    assert is_export(done.stdout)


def test_an_export_goes_into_an_open_file_of_the_shell(tmp_path: Path) -> None:
    line = f"{' '.join(map(str, TARE))} {' '.join(MEASURE)} --json >(cat >out) -- true; wait $!"
    done = subprocess.run(
        ["bash", "-c", f"{line}; wait"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert is_export((tmp_path / "out").read_text())


def test_an_export_goes_into_a_pipe(tare: Callable[..., Completed], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    done = tare(*MEASURE, "--json", "pipe", "--", "true")
    reader.join()
    assert done.returncode == 0, done.stderr
    assert is_export(read[0])
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_export_follows_a_link(tare: Callable[..., Completed], tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("target.json")
    assert tare(*MEASURE, "--json", "link.json", "--", "true").returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    assert is_export((tmp_path / "target.json").read_text())


def test_a_device_stays_one(tare: Callable[..., Completed]) -> None:
    done = tare(*MEASURE, "--json", "/dev/full", "--", "true")
    assert done.returncode == 4
    assert "cannot write to /dev/full: No space left on device" in done.stderr
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("words", ["--help", "managers", "suite list"])
def test_a_full_standard_output_is_told_of_once(tmp_path: Path, words: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*TARE, *words.split()], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (4, b"tare: No space left on device\n")


def test_a_link_that_leads_to_itself_is_replaced(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    done = tare(*MEASURE, "--json", "loop", "--", "true")
    assert done.returncode == 0, done.stderr
    assert is_export((tmp_path / "loop").read_text())


@pytest.mark.parametrize("kind", ["file", "link"])
def test_results_do_not_go_into_what_is_no_folder(
    tare: Callable[..., Completed], tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "place"
    place.touch() if kind == "file" else place.symlink_to("nowhere")
    done = tare("compare", "-n", "2", "-m", "glibc", "-o", "place", "--", "true")
    assert done.returncode == 2
    assert "name another with -o" in done.stderr
    assert "space" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(tmp_path: Path, closed: str) -> None:
    command = " ".join(map(str, TARE))
    line = f"{command} compare -n 2 -m glibc -o r -- true {closed}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "<svg" in (tmp_path / "r" / "report.html").read_text()


def test_what_an_encoding_lacks_is_written_by_number(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = tare("compare", "-n", "2", "-m", "glibc", "--", "echo", "ä", env=environment)
    assert done.returncode == 0, done.stderr
    assert "\\xe4" in done.stdout


def test_a_reader_that_has_enough_is_no_fault(tmp_path: Path) -> None:
    command = " ".join(map(str, TARE))
    line = f"{command} managers | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr
    assert not done.stderr


def test_a_program_that_fails_by_itself_ends_the_bill(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    done = tare("weigh", "-o", "r", "--", "cat", "/nonexistent")
    assert done.returncode == 1
    assert "cat: /nonexistent: No such file or directory" in done.stderr
    assert len((tmp_path / "r" / "runs.jsonl").read_text().splitlines()) == 1


def test_lines_of_a_shell_and_names_that_are_nearly_right(tare: Callable[..., Completed]) -> None:
    assert "sh -c 'ls | wc -l'" in tare("weigh", "ls | wc -l").stderr
    assert "did you mean jemalloc?" in tare("compare", "-m", "jemaloc", "--", "true").stderr
    # A collector for replays cannot be put under a program, so it is not proposed for one.
    refused = tare("compare", "-m", "semispce", "--", "true").stderr
    assert "there is no manager 'semispce'" in refused
    assert "semispace" not in refused


def test_a_broken_description_of_a_manager_stops_no_other(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    folder = tmp_path / "tare" / "managers" / "mine"
    folder.mkdir(parents=True)
    (folder / "manager.toml").write_text("name = [")
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "PATH": "/nonexistent"}
    assert tare(*MEASURE, "--", "/bin/true", env=environment).returncode == 0
    asked = tare("compare", "-m", "mine", "--", "/bin/true", env=environment)
    assert (asked.returncode, "mine/manager.toml" in asked.stderr) == (4, True), asked.stderr
    examined = tare("doctor", env=environment)
    assert "manager mine" in examined.stdout, examined.stderr


NAMES = [
    *(b"J\xc3\xbcrgen", b"new\nline", b"tab\there", b"no\xffutf-8", b"cut\xe2\x82", b'a"\\b\x7f'),
    b"/".join(bytes([letter]) * 200 for letter in b"abcdefg"),
]


@pytest.mark.parametrize("name", NAMES)
def test_programs_of_any_path_are_proved(
    tare: Callable[..., Completed], tmp_path: Path, name: bytes
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    folder.mkdir(parents=True)
    program = folder / "sleep"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    done = tare("compare", "-q", "-n", "2", "-m", "glibc", "-o", "r", "--", program, "0.2")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words", ["report r", "suite list", "diff r r", "managers", "doctor", "export r -f csv -o -"]
)
def test_who_reads_no_further_sees_no_failure(
    tare: Callable[..., Completed], tmp_path: Path, words: str
) -> None:
    assert tare("compare", "-q", "-n", "2", "-m", "glibc", "-o", "r", "--", "true").returncode == 0
    reading, writing = os.pipe()
    os.close(reading)  # as `| head -1` does, but surely before the first line
    try:
        done = subprocess.run(
            [*TARE, *words.split()], cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_who_wants_no_table_learns_of_failures(tare: Callable[..., Completed]) -> None:
    asked = ("compare", "-q", "-n", "1", "-m", "glibc", "-m", "jemalloc", "-o", "r", "--", "false")
    done = tare(*asked)
    assert (done.returncode, done.stdout) == (1, "")
    told = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in told] == ["tare", "tare", "results"]
    assert "false under glibc: failed: " in told[0]
    assert "false under jemalloc: failed: " in told[1]
    differing = ("sh", "-c", "echo $LD_PRELOAD")
    done = tare("compare", "-q", "-n", "1", "-m", "glibc", "-m", "jemalloc", "--", *differing)
    assert (done.returncode, done.stdout) == (1, "")
    assert "under jemalloc: wrong-output: its standard output differs" in done.stderr


def test_what_goes_into_a_pipe_is_not_padded(tare: Callable[..., Completed]) -> None:
    measured = tare("compare", "-n", "2", "-m", "glibc", "--no-page", "-o", "r", "--", "true")
    lines = (measured.stdout + tare("report", "r", "--no-page").stdout).splitlines()
    assert len(lines) > 20
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_trace_without_uses_is_exported_by_what_it_has(tare: Callable[..., Completed]) -> None:
    recorded = tare("trace", "-q", "-o", "t.tare", "--", "ls", "/")
    assert recorded.returncode == 0, recorded.stderr
    by_default = tare("export", "-f", "collapsed", "t.tare")
    by_bytes = tare("export", "-f", "collapsed", "--weight", "bytes", "t.tare")
    assert by_default.returncode == 0, by_default.stderr
    assert by_default.stdout == by_bytes.stdout != ""
    asked = tare("export", "-f", "collapsed", "--weight", "vain", "t.tare")
    assert asked.returncode == 2
    assert "no last uses" in asked.stderr


def test_a_program_that_wants_a_terminal_is_told_of_it(tare: Callable[..., Completed]) -> None:
    words = ("sh", "-c", "echo top: failed tty get >&2; exit 1")
    done = tare("compare", "-n", "1", "-m", "glibc", "--no-page", "-o", "r", "--", *words)
    assert done.returncode == 1
    assert "A measured program has no terminal" in " ".join(done.stdout.split())
    assert "a measured program has no terminal" in tare("weigh", "--", *words).stderr


def test_what_a_killed_recording_left_is_named(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    running = subprocess.Popen(
        [*TARE, "trace", "-o", "t.tare", "--", "sleep", "600"], cwd=tmp_path, start_new_session=True
    )
    while not (left := [path for path in tmp_path.iterdir() if path.suffix == ".partial"]):
        assert running.poll() is None
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    again = tare("trace", "-o", "another.tare", "--", "true")
    assert again.returncode == 0, again.stderr
    told = " ".join(again.stderr.split())
    assert f"{left[0].name} is left from a recording that was killed: remove it" in told


def test_a_message_in_python_has_its_hint() -> None:
    with pytest.raises(UsageError, match="did you mean jemalloc"):
        resolve("jemaloc")


def test_where_nothing_can_be_written_is_said_before_a_run(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    program = ("--", "touch", "ran")
    traced = tare("trace", "-o", "link", *program)
    assert traced.returncode == 2
    assert "link is a broken link" in traced.stderr
    compared = tare("compare", "-n", "1", "--json", ".", *program)
    assert compared.returncode == 2
    assert "is a folder" in compared.stderr
    assert not (tmp_path / "ran").exists()


def test_lists_in_a_pipe_are_not_padded_and_paths_are_whole(
    tare: Callable[..., Completed],
) -> None:
    for words in (("managers",), ("managers", "show", "dlmalloc"), ("doctor",)):
        lines = tare(*words).stdout.splitlines()
        assert lines
        assert [line for line in lines if line != line.rstrip()] == []
    (path,) = re.findall(r"^object: (.+)$", tare("managers", "show", "dlmalloc").stdout, re.M)
    assert Path(path).is_file()
