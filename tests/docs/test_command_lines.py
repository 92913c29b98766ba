"""Every command line that the documentation shows is run, page by page and in order, as a reader
would type it; `command_lines.toml` says what they need, and which cannot be run here.

What an earlier line of a page wrote into a folder with `-o` is removed before a line that names the
same folder: examples are alternatives.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tare.base.native import native_file
from tests.docs.command_lines import PAGES, CommandLine, command_lines, relative
from tests.support import ROOT
from tests.support.java import skip_without_network

TABLE = tomllib.loads((ROOT / "tests" / "docs" / "command_lines.toml").read_text())
FIXTURES = {name: fixture["by"] for fixture in TABLE["fixture"] for name in fixture["makes"]}
LINES = {relative(page): list(command_lines(page)) for page in PAGES}
ALL_LINES = [line for lines in LINES.values() for line in lines]
LINE_SECONDS = 900
LINKED = ("docs", "managers", "platform", "replay", "suites", "traces")


def packages() -> dict[str, str]:
    """The Debian package of each command that the project uses."""
    lines = (ROOT / "packages.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[2].split(">=")[0]: row[1] for row in rows if row[2] != "-"}


def matches(entry: dict[str, Any], line: CommandLine) -> bool:
    return fnmatchcase(line.page, entry["page"]) and fnmatchcase(line.text, entry["line"])


def why_unrun(line: CommandLine) -> str | None:
    return next((entry["because"] for entry in TABLE["unrun"] if matches(entry, line)), None)


def accepted_codes(line: CommandLine) -> list[int]:
    if line.shown_code is not None:
        return [line.shown_code]
    return next((entry["codes"] for entry in TABLE["ends"] if matches(entry, line)), [0])


def words_of(text: str) -> list[str]:
    return [word.rstrip("/") for word in shlex.split(text)]


def output_of(words: list[str]) -> str | None:
    """The file or folder that the command line makes."""
    own = words[: words.index("--")] if "--" in words else words
    return own[own.index("-o") + 1] if "-o" in own else None


def run_shell(script: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code and all that was printed; no process of it is left."""
    with (folder / ".printed").open("w+") as printed:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(LINE_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
        printed.seek(0)
        return code, printed.read()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What looks like a clone of the repository, but for what the fixtures put into it."""
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "workloads").mkdir()
    for workload in (ROOT / "workloads").iterdir():
        if f"workloads/{workload.name}/" not in "".join(FIXTURES):
            (tmp_path / "workloads" / workload.name).symlink_to(workload)
    return tmp_path


def environment_in(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "BROWSER": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "PKG_CONFIG_PATH": str(folder / "P" / "lib" / "pkgconfig"),
        "LD_LIBRARY_PATH": "",
        "repository": str(ROOT),
        "documented": str(ROOT / "tests" / "docs" / "documented"),
    }


def prepare(line: CommandLine, folder: Path, environment: dict[str, str]) -> None:
    """Makes what the line names, and makes room for what it makes."""
    words = words_of(line.text)
    output = output_of(words)
    if output and (folder / output).is_dir() and "--force" not in words:
        shutil.rmtree(folder / output)
    for word in words:
        if word in FIXTURES and word != output and not (folder / word).exists():
            code, printed = run_shell(f"set -eu\n{FIXTURES[word]}", folder, environment)
            skip_without_network(printed)
            assert code == 0, f"{word}, for {line.text}\n{printed}"
            assert (folder / word).exists(), word


def runs_of_pages() -> Iterator[Any]:
    for page, lines in LINES.items():
        if any(why_unrun(line) is None for line in lines):
            marks = [] if page in TABLE["quick"] else [pytest.mark.soak, pytest.mark.timeout(3600)]
            yield pytest.param(page, id=page, marks=marks)


@pytest.mark.parametrize("page", list(runs_of_pages()))
def test_the_command_lines_of_a_page_work(page: str, folder: Path) -> None:
    environment = environment_in(folder)
    debian_packages = packages()
    for line in LINES[page]:
        if why_unrun(line) is not None:
            continue
        for word in words_of(line.text):
            if word in debian_packages and shutil.which(word) is None:
                pytest.skip(f"{word} is not installed (package {debian_packages[word]})")
        prepare(line, folder, environment)
        began = time.monotonic()
        text = line.text.replace("…/", f"{native_file('bin').parent}/")
        code, printed = run_shell(text, folder, environment)
        print(f"{time.monotonic() - began:6.1f} s  {line.text}")
        assert code in accepted_codes(line), f"{line.text}\nexit code {code}\n{printed}"
        assert "Traceback" not in printed, f"{line.text}\n{printed}"


@pytest.mark.parametrize(
    ("line", "because"),
    [
        pytest.param(line, because, id=f"{line.page}: {line.text[:60]}")
        for line in dict.fromkeys(ALL_LINES)
        if (because := why_unrun(line)) is not None
    ],
)
def test_a_line_that_is_not_run(line: CommandLine, because: str) -> None:
    pytest.skip(f"{line.page}: {line.text[:60]}: {because}")


def test_the_table_holds_nothing_that_no_page_shows() -> None:
    for entry in (*TABLE["ends"], *TABLE["unrun"]):
        assert any(matches(entry, line) for line in ALL_LINES), entry
    named = {word for line in ALL_LINES if why_unrun(line) is None for word in words_of(line.text)}
    for fixture in TABLE["fixture"]:
        assert named.intersection(fixture["makes"]), fixture["makes"]
    assert set(TABLE["quick"]) <= set(LINES)
