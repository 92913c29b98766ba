"""Heap traces in other tools' forms, read back by those tools where they are here."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.answers.exports.traces import (
    to_dhat,
    to_pprof,
)
from tare.heap_traces.trace import Trace, open_trace
from tests.conftest import Completed
from tests.support.traces import many_objects, write_trace_folder
from tests.unit.answers.test_trace_export import trace

__all__ = ["trace"]


GO = shutil.which("go") or "/usr/local/go/bin/go"
DHAT_VIEWER = Path("/usr/libexec/valgrind/dh_view.html")


def test_pprof_is_what_go_reads(trace: Trace, tmp_path: Path) -> None:
    content = to_pprof(trace, "")
    assert gzip.decompress(content).startswith(b"\x0a")
    if not Path(GO).exists():
        pytest.skip("the Go tools are not here")
    file = tmp_path / "out.pprof"
    file.write_bytes(content)
    raw = subprocess.run(
        [GO, "tool", "pprof", "-raw", file], capture_output=True, text=True, check=True
    ).stdout
    assert "alloc_objects/count alloc_space/bytes held_in_vain/bytes[dflt]" in raw
    values = re.findall(r"^ +(\d+) +(\d+) +(\d+): ([\d ]+?) *$", raw, re.MULTILINE)
    assert Counter((int(o), int(b), len(ids.split())) for o, b, _, ids in values) == {
        (1, 100, 1): 1,
        (1, 30, 2): 1,
        (2, 20, 3): 1,
        (1, 5, 1): 1,
    }
    assert "make list.c:7" in raw


@pytest.mark.skipif(not DHAT_VIEWER.exists(), reason="DHAT's viewer is not here")
def test_dhat_opens_in_its_viewer(browser: Any, tmp_path: Path) -> None:
    folder = write_trace_folder(tmp_path / "t.tare", many_objects(5000))
    file = tmp_path / "dhat.json"
    file.write_bytes(to_dhat(open_trace(folder), ""))
    problems: list[str] = []
    page = browser.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(DHAT_VIEWER.as_uri())
    page.set_input_files("input[type=file]", str(file))
    page.wait_for_selector("text=in 5,000 blocks")
    text = page.inner_text("body")
    page.close()
    assert problems == []
    assert "make (list.c:7)" in text


def test_the_command(trace: Trace, tare: Callable[..., Completed], tmp_path: Path) -> None:
    done = tare("export", "-f", "collapsed", "--weight", "objects", trace.folder)
    assert done.returncode == 0, done.stderr
    assert "main;work;make 2\n" in done.stdout
    done = tare("drag", "-o", "results", trace.folder)
    assert done.returncode == 0, done.stderr
    done = tare("export", "-f", "dhat", "-o", "dhat.json", "results")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "dhat.json").read_bytes())["dhatFileVersion"] == 2
    done = tare("export", "-f", "json", "results")
    assert {row["metric"] for row in json.loads(done.stdout)["summary"]} >= {"drag_ratio"}
    done = tare("export", "-f", "json", "--weight", "bytes", "results")
    assert (done.returncode, "does not apply" in done.stderr) == (2, True)
    done = tare("export", "-f", "pprof", tmp_path)
    assert (done.returncode, "not a heap trace" in done.stderr) == (2, True)
