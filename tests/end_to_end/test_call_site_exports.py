"""Counts by call site in other tools' forms, read back by those tools where they are here."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.studies.count import export as count_export
from tests.conftest import Completed
from tests.end_to_end.test_trace_export import GO
from tests.unit.answers.test_call_site_exports import STACKS, results


def test_pprof_is_what_go_reads(tmp_path: Path) -> None:
    content = count_export.render(results(tmp_path / "r", "p"), "pprof", "instructions")
    if not Path(GO).exists():
        pytest.skip("the Go tools are not here")
    file = tmp_path / "out.pprof"
    file.write_bytes(content)
    raw = subprocess.run(
        [GO, "tool", "pprof", "-raw", file], capture_output=True, text=True, check=True
    ).stdout
    assert "alloc_space/bytes calls/count instructions/count[dflt]" in raw
    values = re.findall(r"^ +(\d+) +(\d+) +(\d+): ([\d ]+?) *$", raw, re.MULTILINE)
    assert Counter((int(i), int(c), int(b), len(ids.split())) for b, c, i, ids in values) == {
        (*sums, len(stack.split(";"))): 1 for stack, sums in STACKS.items()
    }


def test_the_command(tmp_path: Path, tare: Callable[..., Completed]) -> None:
    folder = results(tmp_path / "r", "p")
    done = tare("export", "-f", "collapsed", folder)
    assert (done.returncode, "main;make: it;free 80\n" in done.stdout) == (0, True)
    done = tare("export", "-f", "collapsed", "--weight", "calls", folder)
    assert "main;make: it;free 8\n" in done.stdout
    done = tare("export", "-f", "speedscope", "-o", tmp_path / "s.json", folder)
    assert (done.returncode, (tmp_path / "s.json").stat().st_size > 0) == (0, True)
    for words, said in (
        (("-f", "collapsed", "--weight", "vain"), "instructions, calls, bytes"),
        (("-f", "speedscope", "--weight", "calls"), "does not apply"),
        (("-f", "dhat"), "cannot be exported as dhat"),
    ):
        done = tare("export", *words, folder)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
