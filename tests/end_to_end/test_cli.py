"""The command line as users type it, wrong input included."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import tare as tare_package
from tare.__main__ import tare_group
from tests.conftest import TARE, Completed
from tests.native.test_runner import PASS_ON
from tests.support.namespaces import unshare

Tare = Callable[..., Completed]
FAST = ("-n", "2", "--warmup", "0", "--no-page", "-m", "glibc", "-o", "r")


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    # A shell's background job ignores SIGINT, and tests may run in one.
    return subprocess.Popen(
        [*TARE, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 900
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)  # another process must get on; there is a deadline


def test_version_and_help(tare: Tare) -> None:
    assert tare_package.__version__ in tare("--version").stdout
    assert Path(tare("--kits").stdout.strip(), "cmake", "TareChecks.cmake").is_file()
    shown = tare("--help").stdout
    for title in ("Start here:", "Find the code:", "Compare and keep watch:", "Research:"):
        assert title in shown
    listing = shown.partition("Start here:")[2]
    listed = dict(re.findall(r"^  ([a-z]+) {2,}(\w.*)$", listing, re.M))
    assert sorted(listed) == tare_group.list_commands(click.Context(tare_group))
    assert all(len(summary.split()) >= 3 for summary in listed.values())
    assert not re.search(r"^ {3,}", listing, re.M), "a summary takes more than its line"
    for command in ("weigh", "compare", "managers", "doctor", "report", "diff", "export", "suite"):
        assert command in shown
        text = tare(command, "--help").stdout
        assert "Example" in text, f"tare {command} --help shows no example"


def test_a_comparison_from_end_to_end(
    tare: Tare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    done = tare("compare", "-n", "3", "-m", "glibc", "-m", "glibc(tcache=0)", "-o", "r",
                "--json", "out.json", "--csv", "out.csv", "--", "echo", "hello")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "glibc(tcache=0)" in done.stdout
    assert str(Path("r") / "report.html") in done.stdout
    out = json.loads((tmp_path / "out.json").read_text())
    assert out["schema"] == 1
    assert out["study"] == "compare"
    assert {row["manager"] for row in out["summary"]} == {"glibc", "glibc(tcache=0)"}
    assert (tmp_path / "out.csv").read_text().count("wall_seconds") == 9
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    assert run["seed"] >= 0
    assert run["programs"][0]["executable_sha256"]
    assert run["environment"]["values"]["PATH"] == os.environ["PATH"]
    assert "secret" not in json.dumps(run)
    assert "API_TOKEN" in run["environment"]["other_names"]
    assert not (tmp_path / "r" / ".work").exists()


def test_the_dashes_before_the_program_may_be_left_out(tare: Tare, tmp_path: Path) -> None:
    done = tare("compare", *FAST, "sh", "-c", 'printf %s "$0"', "-n")
    assert done.returncode == 0, done.stderr
    assert {r["output_bytes"] for r in lines_of(tmp_path / "r" / "runs.jsonl")} == {2}


def test_only_the_data_asked_for_goes_to_a_pipe(tare: Tare) -> None:
    done = tare("compare", *FAST, "--json", "-", "--", "true")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["study"] == "compare"
    quiet = tare("compare", "-n", "1", "--no-page", "-m", "glibc", "--quiet", "--", "true")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("compare",), 2, "Missing argument"),
        (("compare", "--", "no-such-program"), 2, "not found"),
        (("compare", "--", "./nothing"), 2, "does not exist"),
        (("compare", "--", "/etc"), 2, "is a folder"),
        (("compare", "--", "/etc/passwd"), 2, "not executable"),
        (("compare", "-m", "nosuch", "--", "true"), 2, "no manager 'nosuch'"),
        (("compare", "-m", "./nosuch.so", "--", "true"), 2, "does not exist"),
        (("compare", "-m", "a(", "--", "true"), 2, "not a manager name"),
        (("compare", "-i", "missing.txt", "--", "cat"), 2, "does not exist"),
        (("compare", "-i", "/etc", "--", "cat"), 2, "cannot be read"),
        (("compare", "--json", "no/such/x", "--", "true"), 2, "does not exist"),
        (("compare", "-n", "0", "--", "true"), 2, "0 runs"),
        (("compare", "-n", "x", "--", "true"), 2, "Invalid value"),
        (("compare", "--memory-limit", "5 bananas", "--", "true"), 2, "not a size"),
        (("compare", "--precision", "x", "--", "true"), 2, "like 2%"),
        (("weigh", "--", "no-such-program"), 2, "not found"),
        (("weigh", "--time", "soon", "--", "true"), 2, "write it like 90s, 5min or 1h30min"),
        (("weigh", "--only", "dragg", "--", "true"), 2, "did you mean drag?"),
        (("weigh", "-m", "jemaloc", "--", "true"), 2, "did you mean jemalloc?"),
        (("weigh", "--no-page", "--", "ls", "|", "wc"), 1, "sh -c 'ls | wc'"),
        (("report", "/nowhere"), 2, "/nowhere is not a folder"),
        (("diff", "/nowhere", "/nowhere"), 2, "not a results folder"),
        (("export", "-f", "json", "/nowhere"), 2, "not a results folder"),
        (("suite", "run", "no-such-suite"), 2, "no suite"),
        (("managers", "install", "nosuch"), 2, "no manager"),
        (("frobnicate",), 2, "No such command"),
    ],
)  # fmt: skip
def test_wrong_input_gives_a_message(
    tare: Tare, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = tare(*arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_immune_program_is_refused(tare: Tare, compile_c: Callable[..., Path]) -> None:
    static = compile_c("int main(void) { return 0; }", "-static")
    done = tare("compare", *FAST, "--", static)
    assert done.returncode == 3
    assert "statically linked" in done.stderr


def test_a_failing_program_is_a_status_and_exit_code_1(tare: Tare, tmp_path: Path) -> None:
    done = tare("compare", *FAST, "--", "sh", "-c", "echo why >&2; exit 3")
    assert done.returncode == 1
    assert "exit status 3" in done.stdout
    assert "why" in done.stdout
    assert {r["status"] for r in lines_of(tmp_path / "r" / "runs.jsonl")} == {"failed"}


def test_failures_in_the_warm_up_are_failures(tare: Tare) -> None:
    done = tare("compare", "-n", "3", "--warmup", "2", "--no-page", "-m", "glibc", "--", "false")
    assert done.returncode == 1
    assert "failed" in done.stdout


def test_output_that_differs_is_wrong(tare: Tare, tmp_path: Path) -> None:
    script = 'test -n "$GLIBC_TUNABLES" && echo other || echo same'
    done = tare("compare", "-n", "2", "-o", "r", "--no-page", "-m", "glibc",
                "-m", "glibc(tcache=0)", "--", "sh", "-c", script)  # fmt: skip
    assert done.returncode == 1
    assert "wrong-output" in done.stdout
    ignoring = tare("compare", "-n", "2", "--ignore-output", "--no-page", "-m", "glibc",
                    "-m", "glibc(tcache=0)", "--", "sh", "-c", script)  # fmt: skip
    assert ignoring.returncode == 0


def test_a_timeout_is_a_status(tare: Tare) -> None:
    done = tare("compare", *FAST, "--timeout", "0.2", "--", "sleep", "60")
    assert done.returncode == 1
    assert "timeout" in done.stdout


HOSTILE = ["a b", "it's", 'say "hi"', "new\nline", "<script>alert(1)</script>", "\x1b[31mred", "-n"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_any_kind(tare: Tare, tmp_path: Path, name: str) -> None:
    program = tmp_path / f"p {name.replace('/', '_')}"
    program.write_text("#!/bin/sh\nprintf '%s' \"$1\"\n")
    program.chmod(0o755)
    done = tare("compare", "-n", "2", "-m", "glibc", "--json", "o.json", "--", program, name)
    assert done.returncode == 0, done.stderr
    assert "\x1b[31m" not in done.stdout
    recorded = json.loads((tmp_path / "o.json").read_text())["measurements"][0]["program"]
    assert name.replace("/", "_").split("\n")[0].strip("'\"")[:3] in recorded
    (page,) = tmp_path.glob("tare-results/*/report.html")
    assert "<script>alert(1)" not in page.read_text()


def test_ctrl_c_keeps_what_was_measured_and_the_study_resumes(tare: Tare, tmp_path: Path) -> None:
    arguments = ("compare", "-n", "8", "--warmup", "0", "--no-page", "-m", "glibc", "-o", "r",
                 "--seed", "3", "--", "sleep", "0.1234567")  # fmt: skip
    log = tmp_path / "r" / "runs.jsonl"
    running = start(*arguments, cwd=tmp_path)
    wait_until(lambda: log.exists() and len(log.read_text().splitlines()) >= 3, "three runs")
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130
    assert "to resume: the same command with -o" in errors
    assert "Traceback" not in errors
    kept = len(lines_of(log))
    assert 3 <= kept < 16
    assert (tmp_path / "r" / "measurements.parquet").exists()
    assert not (tmp_path / "r" / ".work").exists()
    still = subprocess.run(["pgrep", "-f", "sleep 0.1234567"], capture_output=True, text=True)
    assert still.stdout == ""
    assert tare("report", "r").returncode == 0
    again = tare(*arguments)
    assert again.returncode == 0, again.stderr
    assert len(lines_of(log)) == 16


def test_a_second_question_is_not_mixed_into_a_folder(tare: Tare) -> None:
    assert tare("compare", *FAST, "--", "true").returncode == 0
    other = tare("compare", *FAST, "--", "false")
    assert other.returncode == 2
    assert "a different command" in other.stderr


def test_runs_on_a_part_of_the_machine(tare: Tare, tmp_path: Path) -> None:
    one = min(os.sched_getaffinity(0))
    part = ("--cpus", str(one), "--hugepages", "never")
    shown = ("-m", f"machine(glibc, cpus={one}, hugepages=as-is)")
    program = ("--", "grep", "-E", "Cpus_allowed_list|THP_enabled", "/proc/self/status")
    first = tare("compare", *FAST, *shown, *part, *program)
    assert first.returncode == 1, first.stderr  # it prints something else under the other
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    assert run["request"]["machine"] == {"cpus": str(one), "hugepages": "never"}
    printed = {
        path.name: path.read_text().split() for path in (tmp_path / "r" / "outputs").iterdir()
    }
    assert all(words[3] == str(one) for words in printed.values())
    assert sorted(words[1] for words in printed.values()) == ["0", "1"]
    assert "steal" in (tmp_path / "r" / "runs.jsonl").read_text()
    again = tare("report", "r")
    assert again.returncode == 0
    assert f"cpus={one}, hugepages=never" in (tmp_path / "r" / "report.html").read_text()
    assert tare("compare", *FAST, *shown, *part, *program).returncode == 1
    for other in (("--cpus", str(one)), ()):
        refused = tare("compare", *FAST, *shown, *other, *program)
        assert refused.returncode == 2
        assert "a different command" in refused.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--cpus", "first"), "not a list of processors"),
        (("--cpus", "1000"), "there is no processor 1000"),
        (("--hugepages", "some"), "--hugepages"),
        (("-m", "machine(glibc, cpus=1000)"), "there is no processor 1000"),
        (("-m", "machine(glibc)"), "write it like machine(glibc, cpus=0)"),
    ],
)
def test_a_part_that_the_machine_does_not_have(
    tare: Tare, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    for command in (("compare", "-n", "1"), ("weigh",)):
        refused = tare(*command, *words, "-o", "r", "--", "true")
        assert refused.returncode == 2
        assert why in refused.stderr
        assert not (tmp_path / "r").exists()


def test_two_commands_at_once(tmp_path: Path) -> None:
    arguments = ("compare", "-n", "10", "-m", "glibc", "--", "sh", "-c", "echo x; sleep 0.02")
    pair = [start(*arguments, cwd=tmp_path) for _ in range(2)]
    for process in pair:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    folders = list((tmp_path / "tare-results").iterdir())
    assert len(folders) == 2
    for folder in folders:
        assert len(lines_of(folder / "runs.jsonl")) == 21


def test_a_full_disk_keeps_what_was_measured(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=1m tare {disk} && cd {disk} && "
        f"{sys.executable} -m tare compare -n 200 -m glibc -o r --no-page -- "
        "head -c 20000 /dev/zero & "
        "pid=$!; "
        f"for i in $(seq 600); do [ -s {disk}/r/runs.jsonl ] && break; sleep 0.05; done; "
        f"head -c 2m /dev/zero > {disk}/filler 2>/dev/null; wait $pid; echo code $?; "
        f"echo lines $(wc -l < {disk}/r/runs.jsonl)"
    )
    done = subprocess.run(
        [unshare("no right to make a small file system here"), "-rm", "sh", "-c", script],
        capture_output=True,
        text=True,
        cwd=os.getcwd(),
    )
    assert "code 4" in done.stdout, done.stdout + done.stderr
    assert "full" in done.stderr or "No space" in done.stderr
    assert "Traceback" not in done.stderr
    assert int(done.stdout.split("lines ")[1]) >= 1


def test_a_folder_that_cannot_be_written(tare: Tare, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = tare("compare", "-n", "1", "-m", "glibc", "-o", "file/r", "--", "true")
    assert done.returncode == 4
    assert "cannot write" in done.stderr


def test_a_reader_that_stops_reading(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m tare managers | head -n 1"],
        cwd=os.getcwd(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_weigh_gives_a_verdict_in_words(tare: Tare, tmp_path: Path) -> None:
    done = tare("weigh", "--quick", "-o", "r", "--", "sh", "-c", "sleep 0.02; echo x")
    assert done.returncode == 0, done.stderr
    assert "Peak memory: " in done.stdout
    assert "runs under each manager" in done.stdout
    assert "How sure:" not in done.stdout
    assert len(done.stdout.splitlines()) <= 25
    assert "How sure:" in tare("report", "-v", "--no-page", "r").stdout
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    cost = run["sections"]["time-and-memory"]
    assert cost["took_seconds"] > 0
    assert cost["expected_seconds"] > 0
    assert (tmp_path / "r" / "report.html").stat().st_size < 3 << 20


def test_weigh_has_the_sections_and_runs_that_were_asked_for(tare: Tare, tmp_path: Path) -> None:
    words = ("--only", "time,drag", "--skip", "drag", "--runs", "2", "--time", "1min")
    done = tare("weigh", *words, "-m", "glibc", "-m", "jemalloc", "-o", "r", "--", "true")
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    assert run["sections"].keys() == {"time-and-memory"}
    assert run["section_runs"] == {"time-and-memory": 2 + 2 * 2 + 2}
    assert "there were 2 runs under each manager" in " ".join(done.stdout.split())
    assert "Left out" not in done.stdout


def test_weigh_opens_the_page(tare: Tare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text('#!/bin/sh\necho "$@" > opened\n[ ! -e fails ]\n')
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", f"{opener.parent}:{os.environ['PATH']}")
    words = ("weigh", "--quick", "--only", "time", "-n", "1", "-m", "glibc", "--open")
    done = tare(*words, "-o", "r", "--", "true")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "opened").read_text().strip() == str(tmp_path / "r" / "report.html")
    assert "could not be opened" not in done.stderr
    (tmp_path / "fails").touch()
    done = tare(*words, "-o", "s", "--", "true")
    assert done.returncode == 0
    assert "could not be opened: no browser was found" in done.stderr


def test_weigh_of_a_program_with_its_own_allocator(
    tare: Tare, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    compile_c(PASS_ON, "-shared", "-fPIC", name="libtheirs.so")
    source = "#include <stdlib.h>\nint main(void) { return malloc(10) == 0; }"
    program = compile_c(source, "-L.", f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}",
                        f"{tmp_path}/libtheirs.so")  # fmt: skip
    done = tare("weigh", "--quick", "-o", "r", "--", program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "links an allocator of its own" in done.stderr
    run = json.loads((tmp_path / "r" / "run.json").read_text())
    assert run["baseline"] == "own"
    assert "glibc" in run["managers"]


SUITE = """
schema = 1
name = "mine"
description = "three programs"
[[program]]
name = "first"
description = "x"
command = ["sh", "-c", "sleep 0.1; echo first"]
[[program]]
name = "absent"
description = "x"
packages = ["no-such-package"]
command = ["no-such-program"]
[[program]]
name = "second"
description = "x"
command = ["sh", "-c", "sleep 0.1; echo second"]
output_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""


def test_a_suite_skips_loudly_judges_outputs_and_resumes(tare: Tare, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SUITE)
    arguments = ("suite", "run", "mine.toml", "-n", "3", "-m", "glibc", "--no-page", "-o", "r")
    log = tmp_path / "r" / "runs.jsonl"
    running = start(*arguments, cwd=tmp_path)
    wait_until(lambda: log.exists() and len(log.read_text().splitlines()) >= 2, "two runs")
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode == 130
    kept = log.read_text()
    again = tare(*arguments)
    assert "SKIPPED absent" in again.stderr
    assert "apt-get install no-such-package" in again.stderr
    assert log.read_text().startswith(kept)
    assert {r["program"] for r in lines_of(log)} == {"first", "second"}
    assert len([r for r in lines_of(log) if r["program"] == "first"]) == 7
    assert again.returncode == 1, "the second program does not print what the suite expects"
    assert "wrong-output" in again.stdout


def test_doctor_finds_this_installation_working(tare: Tare) -> None:
    done = tare("doctor")
    assert done.returncode == 0, done.stdout
    assert "a measured run" in done.stdout
    assert "manager glibc" in done.stdout


def test_a_folder_beside_it_that_has_the_name_of_a_command_is_no_trace(
    tare: Tare, tmp_path: Path
) -> None:
    (tmp_path / "true").mkdir()
    done = tare("compare", "-n", "1", "-m", "glibc", "--no-page", "--", "true")
    assert done.returncode == 0, done.stderr
    recorded = tare("drag", "-m", "glibc", "--", "true")
    assert "is a folder" not in recorded.stderr
