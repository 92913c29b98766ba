"""Damaged results and traces are refused in words: no stack trace, no abort, no hang."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Completed
from tests.support import ROOT

Tare = Callable[..., Completed]
FEW, MANY = 70, 2000
QUIET = ("-q", "--no-page", "-o", "{out}")
ON_TRACES = (
    ("drag", *QUIET, "{}"),
    ("frequency", *QUIET, "-n", "1", "--warmup", "0", "-m", "immix", "{}"),
    ("replay", *QUIET, "-n", "1", "-m", "glibc", "{}"),
    ("tradeoff", *QUIET, "-n", "1", "-m", "glibc", "{}"),
    ("minheap", *QUIET, "-m", "semispace", "{}"),
    ("report", "{}"),
    ("export", "-f", "collapsed", "--weight", "bytes", "{}"),
    *(("export", "-f", form, "-o", "{out}", "{}") for form in ("dhat", "pprof", "speedscope")),
)
ON_RESULTS = (
    ("report", "{}"),
    *(("export", "-f", form, "{}") for form in ("json", "csv", "markdown", "latex", "bencher")),
    *(("export", "-f", form, "{}") for form in ("hyperfine", "perfetto", "collapsed")),
)
STUDIES = {
    "compare": ("-n", "2", "--warmup", "0", "-m", "glibc", "-m", "glibc(tcache=0)", "--", "true"),
    "count": ("-m", "glibc", "--sites", "--", "true"),
    "space": ("-m", "glibc", "--", "ls", "/proc/self"),
    "drag": ("TRACE",),
    "replay": ("-n", "1", "-m", "glibc", "TRACE"),
    "frequency": ("-n", "2", "--warmup", "0", "TRACE"),
    "minheap": ("-m", "semispace", "TRACE"),
}


@pytest.fixture
def jobs(tmp_path: Path, tare: Tare) -> Path:
    """What there is to damage, and what reads it."""
    listed = []
    for name, old in (("make", False), ("bc", False), ("make", True)):
        copy = tmp_path / f"{'old-' * old}{name}.tare"
        shutil.copytree(ROOT / "traces" / f"{name}.tare", copy)
        if old:  # as before there were digests
            meta = json.loads((copy / "meta.json").read_text())
            del meta["files"]
            (copy / "meta.json").write_text(json.dumps(meta))
        listed.append({"input": str(copy), "commands": ON_TRACES})
    for study, words in STUDIES.items():
        trace = str(tmp_path / "make.tare")
        words = tuple(trace if word == "TRACE" else word for word in words)
        done = tare(study, "-q", "--no-page", "-o", study, *words)
        assert done.returncode == 0, done.stderr
        whole = str(tmp_path / study)
        commands = [*ON_RESULTS, ("diff", "{}", whole), ("diff", whole, "{}")]
        listed.append({"input": whole, "commands": commands})
    log = tmp_path / "mtrace"
    pair = "@ ./a:[0x{0:x}] + 0x{0:x}0 0x20\n@ ./a:[0x{0:x}] - 0x{0:x}0\n"
    log.write_text("= Start\n" + "".join(map(pair.format, range(4096, 4296))) + "= End\n")
    listed.append({"input": str(log), "commands": [("import", "-o", "{out}", "{}")]})
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(listed))
    return path


def damaged(jobs: Path, seed: int, count: int) -> None:
    work = jobs.parent / "work"
    work.mkdir()
    command = [
        sys.executable,
        "-m",
        "tests.support.mutations",
        str(work),
        str(seed),
        str(count),
        str(jobs),
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert " 2: " in ran.stdout, "nothing was refused"


def test_damaged_input_is_refused_in_words(jobs: Path) -> None:
    damaged(jobs, 1, FEW)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_much_damaged_input_is_refused_in_words(jobs: Path) -> None:
    damaged(jobs, 2, MANY)
