"""scripts/step.sh, which shows one line for each long step of the Makefile, and what it guards."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.terminal import CTRL_C, Terminal

STEP = ["scripts/step.sh", "making things", "things", "Try another day."]
DONE = r"making things: done in \d+ s\n"
DEFAULTS = {name: value for name, value in os.environ.items() if name != "TARE_STEP_LINES"}
SLEEPER = r'sh -c "echo \$\$ > sleeper; exec sleep 100000"; :'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    for name in ("step.sh", "environment.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    os.mkfifo(tmp_path / "sleeper")
    return tmp_path


def step(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STEP, *command],
        cwd=folder,
        env={**DEFAULTS, **environment},
        capture_output=True,
        text=True,
    )


def log(folder: Path) -> str:
    return (folder / "build/logs/things.log").read_text()


def interrupt(terminal: Terminal, folder: Path) -> int:
    """Presses Ctrl-C when the sleeper sleeps, and waits for its end; the exit code."""
    sleeper = os.pidfd_open(int((folder / "sleeper").read_text()))
    terminal.press(CTRL_C)
    code = terminal.end()
    select.select([sleeper], [], [])  # until it has ended, or the test runs into its time limit
    os.close(sleeper)
    return code


def test_into_a_pipe_go_a_line_at_the_beginning_and_one_at_the_end(folder: Path) -> None:
    done = step(folder, "sh", "-c", "echo said; echo complained >&2")
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(rf"making things \.\.\.\n{DONE}", done.stderr)
    assert log(folder).endswith("\nsaid\ncomplained\n")


def test_a_failure_shows_the_end_of_the_log_and_what_to_do(folder: Path) -> None:
    done = step(folder, "sh", "-c", "seq 50; exit 7")
    assert (done.returncode, done.stdout) == (7, "")
    first, *shown, empty, failed, advice = done.stderr.splitlines()
    assert (first, empty, advice) == ("making things ...", "", "Try another day.")
    assert shown == [str(number) for number in range(11, 51)]
    assert re.fullmatch(
        r"making things: failed after \d+ s with exit code 7; "
        r"the whole log is in build/logs/things\.log",
        failed,
    )
    assert "\n1\n2\n" in log(folder)


def test_continuous_integration_sees_the_whole_log(folder: Path) -> None:
    done = step(folder, "sh", "-c", "seq 50; exit 7", TARE_STEP_LINES="+1")
    assert "\n1\n2\n" in done.stderr
    assert "TARE_STEP_LINES=+1" in (ROOT / ".ci/run").read_text()


def test_a_command_that_is_not_there_fails(folder: Path) -> None:
    done = step(folder, "no-such-command")
    assert done.returncode == 127
    assert "not found" in done.stderr


def test_a_terminal_has_one_line_no_wider_than_it_is(folder: Path) -> None:
    waits = "echo '[3/7] a long, long name of a file'; until [ -e go ]; do sleep 0.1; done"
    terminal = Terminal([*STEP, "sh", "-c", waits], folder, columns=40)
    terminal.wait_for(r"making things: [1-9]\d* s  \[3/7\] a long")
    (folder / "go").touch()
    assert terminal.end() == 0
    *drawn, last = re.split(r"\r(?!\n)", terminal.drawn)
    assert re.fullmatch(rf"\x1b\[K{DONE}", last.replace("\r\n", "\n"))
    lines = [line.removesuffix("\x1b[K") for line in drawn]
    assert len(lines) > 1
    assert [line for line in lines if len(line) > 39 or not line.isprintable()] == []


def test_a_terminal_that_draws_nothing_has_the_lines_of_a_pipe(folder: Path) -> None:
    terminal = Terminal([*STEP, "true"], folder, {"TERM": "dumb"})
    assert terminal.end() == 0
    assert re.fullmatch(rf"making things \.\.\.\n{DONE}", terminal.drawn.replace("\r\n", "\n"))


def test_a_failure_on_a_terminal_leaves_no_line_of_progress(folder: Path) -> None:
    terminal = Terminal([*STEP, "sh", "-c", "echo why; exit 3"], folder)
    assert terminal.end() == 3
    shown = terminal.drawn.rsplit("\r\x1b[K", 1)[1].replace("\r\n", "\n")
    assert re.match(r"(?s).*\nwhy\n\nmaking things: failed after", shown)


@pytest.mark.parametrize("ends", [SLEEPER, f"trap 'exit 0' INT; {SLEEPER}"])
def test_ctrl_c_ends_all_that_was_started(folder: Path, ends: str) -> None:
    """The step counts as interrupted also where its command then ends as if all was well."""
    terminal = Terminal([*STEP, "sh", "-c", ends], folder)
    assert interrupt(terminal, folder) == -signal.SIGINT
    assert "making things: interrupted after" in terminal.drawn


def test_make_begins_a_step_again_that_was_interrupted(folder: Path) -> None:
    words = " ".join(f"'{word}'" for word in STEP)
    (folder / "Makefile").write_text(f"made:\n\t@{words} sh command\n\t@touch $@\n")
    (folder / "command").write_text(SLEEPER)
    terminal = Terminal(["make"], folder)
    assert interrupt(terminal, folder) != 0
    assert not (folder / "made").exists()
    (folder / "command").write_text("exit 5")
    failed = subprocess.run(["make"], cwd=folder, capture_output=True, text=True)
    assert "Error 5" in failed.stderr
    (folder / "command").write_text("true")
    assert subprocess.run(["make"], cwd=folder, capture_output=True).returncode == 0
    assert (folder / "made").exists()


def environment(folder: Path, pip: str) -> Terminal:
    """Makes an environment whose pip is that script."""
    commands = folder / "commands"
    commands.mkdir(exist_ok=True)
    python = commands / "python3"
    python.write_text('#!/bin/sh\nmkdir -p "$3/bin"\ncp pip "$3/bin"\n')
    (folder / "pip").write_text(f"#!/bin/sh\n{pip}\n")
    for script in (python, folder / "pip"):
        script.chmod(0o755)
    path = {"PATH": f"{commands}:{os.environ['PATH']}"}
    return Terminal(["scripts/environment.sh", "there"], folder, path)


def test_an_environment_is_kept_unless_it_was_interrupted(folder: Path) -> None:
    kept = folder / "there" / "installed"
    assert environment(folder, "touch there/installed").end() == 0
    assert environment(folder, "exit 9").end() == 9
    assert environment(folder, "true").end() == 0
    assert kept.exists()
    # As pip ends.
    interrupted = environment(folder, f"trap 'exit 1' INT; {SLEEPER}")
    assert interrupt(interrupted, folder) == 130
    assert kept.exists()
    assert environment(folder, "true").end() == 0
    assert not kept.exists()
    assert (folder / "there/bin/pip").exists()
