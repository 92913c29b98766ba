"""Commits of a git repository, checked out beside each other and built: what a change is judged
by."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tare.base.errors import MissingError, ProgramError, UsageError
from tare.base.process_groups import run_in_group

LINES_SHOWN = 20
BUILD_LOG = "build.log"


@dataclass(frozen=True)
class Commit:
    """``name`` is its hash, ``committed`` ISO 8601 in UTC, ``summary`` its message's first line,
    ``ancestors`` how many commits it rests on, which orders those of one second."""

    name: str
    committed: str
    summary: str
    ancestors: int = 0


def described(revision: str) -> Commit:
    """A commit of the repository of the current folder. UsageError where there is none."""
    name = commit_of(revision)
    if not name:
        raise UsageError(f"{revision} is no commit of a repository here", "git log shows what is")
    told = _git(["show", "--no-patch", "--format=%ct %s", name]).stdout.strip()
    seconds, _, summary = told.partition(" ")
    committed = datetime.fromtimestamp(int(seconds), UTC).isoformat()
    return Commit(name, committed, summary, int(_git(["rev-list", "--count", name]).stdout))


def commit_of(revision: str) -> str:
    """The hash of a commit in the repository of the current folder, or empty."""
    words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    found = _git(words)
    return found.stdout.strip() if found.returncode == 0 else ""


@contextmanager
def checked_out(
    commits: dict[str, str], beside: Path, build: str, note: Callable[[str], None]
) -> Iterator[dict[str, Path]]:
    """A folder for each of ``commits``, by their names, with what the shell command ``build`` made
    in it. They lie in ``beside``, which is removed again. ProgramError where a build fails: its
    output is kept in ``beside``."""
    folders = {name: beside / name for name in commits}
    kept = False
    try:
        beside.mkdir(parents=True, exist_ok=True)
        for name, commit in commits.items():
            _remove(folders[name])
            added = _git(["worktree", "add", "--detach", "--force", str(folders[name]), commit])
            if added.returncode:
                raise UsageError(f"{commit[:12]} cannot be checked out", _last(added.stderr))
            if build:
                note(f"building {name}, {commit[:12]}")
                _build(build, folders[name], beside / f"{name}-{BUILD_LOG}")
        yield folders
    except ProgramError:
        kept = True
        raise
    finally:
        for folder in folders.values():
            _remove(folder)
        if not kept:
            for log in beside.glob(f"*-{BUILD_LOG}"):
                log.unlink()
            if beside.is_dir() and not any(beside.iterdir()):
                beside.rmdir()


def _remove(folder: Path) -> None:
    if folder.exists():
        _git(["worktree", "remove", "--force", "--force", str(folder)])


def _build(command: str, folder: Path, log: Path) -> None:
    with log.open("wb") as output:
        ended = run_in_group(
            ["sh", "-c", command], cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    if ended.returncode:
        tail = log.read_bytes()[-4096:].decode(errors="replace").splitlines()[-LINES_SHOWN:]
        raise ProgramError(
            f"`{command}` failed in {folder.name} with exit code {ended.returncode}: "
            + "\n".join(tail),
            f"its whole output is in {log}",
        )


def _git(words: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MissingError("git is not installed", "apt-get install git") from None


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
