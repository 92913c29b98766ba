"""`tare diff` and `tare gate` of results folders of a program that was really built, measured,
changed and measured again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tare import __main__ as main

SOURCE = """
#include <stdlib.h>
#include <string.h>
static char *filled(size_t size) {{ char *p = malloc(size); memset(p, 1, size); return p; }}
{lines}
static char *parse(void) {{ return filled({parse}); }}
static char *load(void) {{ return filled({load}); }}
int main(void) {{
  for (int i = 0; i < 500; i++) {{ free(parse()); free(load()); }}
  return 0;
}}
"""
OLD, NEW = {"lines": "", "parse": 100, "load": 200}, {"lines": "\n\n\n", "parse": 300, "load": 240}


def tare(*words: object) -> int:
    return main.run([*map(str, words)])


def build(folder: Path, **values: object) -> None:
    source = folder / "prog.c"
    source.write_text(SOURCE.format(**values))
    subprocess.run(["cc", "-g", "-O1", "-fno-inline", "-o", folder / "prog", source], check=True)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``drag``, ``count`` and ``compare`` before and after the change."""
    folder = tmp_path_factory.mktemp("measured")
    quiet = ("-q", "--no-page", "-m", "glibc")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, values in (("old", OLD), ("new", NEW)):
            build(folder, **values)
            assert tare("drag", *quiet, "-o", f"drag-{name}", "--", "./prog") == 0
            assert tare("count", "--sites", *quiet, "-o", f"count-{name}", "--", "./prog") == 0
            assert tare("compare", *quiet, "-n", 2, "-o", f"time-{name}", "--", "./prog") == 0
    return folder


@pytest.mark.parametrize("study", ["drag", "count"])
def test_the_call_sites_that_changed_come_first(
    measured: Path, study: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    words = (measured / f"{study}-old", measured / f"{study}-new")
    assert tare("diff", "--json", tmp_path / "diff.json", "--page", page, *words) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "117 KiB more bytes asked for (+80%), mostly in filled (prog.c:4) ← parse ← main" in shown
    )
    document = json.loads((tmp_path / "diff.json").read_text())
    changed = {row["metric"]: row["verdict"] for row in document["changes"]}
    assert changed["allocated_bytes"] == "regression"
    assert changed["objects"] == "no difference seen"
    mallocs = [each for each in document["sites"] if each["operation"] in ("", "malloc")]
    more = [each["new"]["bytes"] - each["old"]["bytes"] for each in mallocs]
    assert sorted(more, reverse=True)[:2] == [100_000, 20_000]
    assert "Where more is asked for" in page.read_text()


def test_a_folder_beside_itself_shows_no_change(measured: Path) -> None:
    assert tare("diff", measured / "drag-old", measured / "drag-old") == 0


def test_the_gate_judges_two_folders_by_what_they_counted(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = measured / "count-old", measured / "count-new"
    words = ("-o", tmp_path / "g", "--json", tmp_path / "g.json", "--markdown", tmp_path / "g.md")
    assert tare("gate", *words, old, new) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "Regression:" in shown
    assert "80% more bytes allocated" in shown
    changes = {c["metric"]: c for c in json.loads((tmp_path / "g.json").read_text())["changes"]}
    assert changes["allocated_bytes"]["verdict"] == "regression"
    assert "| `filled (prog.c:4) ← parse ← main: malloc` |" in (tmp_path / "g.md").read_text()
    assert tare("gate", "-q", "-o", tmp_path / "back", new, old) == 0


def test_a_timed_folder_has_the_pace_of_the_machine(measured: Path) -> None:
    document = json.loads((measured / "time-old" / "run.json").read_text())
    assert set(document["canary_seconds"]) == {"start", "end"}
    assert all(each > 0 for seconds in document["canary_seconds"].values() for each in seconds)
    counted = json.loads((measured / "count-old" / "run.json").read_text())
    assert "canary_seconds" not in counted


def test_what_is_wrong_is_said(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = measured / "drag-old", measured / "drag-new"
    trace = next((old / "traces").iterdir())
    for words, said in (
        (("diff", trace, new), "is a heap trace, not a results folder"),
        (("gate", old, measured / "prog"), "the other must be one, too"),
        (("gate", old, new, "--", "./prog"), "nothing is run"),
        (("gate", old, new, "--build", "make"), "nothing is run"),
    ):
        assert tare(*words) == 2
        assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
