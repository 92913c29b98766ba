"""`tare frequency`: a real run, and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.answers.building import build_report
from tare.records.results import Results
from tare.report.page import render_page
from tests.conftest import Completed
from tests.unit.studies.test_frequency import NEVER, collector, results

__all__ = ["results"]


def test_the_page_is_drawn(results: Results, tmp_path: Path, browser: Any) -> None:
    page_file = tmp_path / "page.html"
    page_file.write_text(render_page(build_report(results)))
    page = browser.new_page(viewport={"width": 390, "height": 800})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(page_file.as_uri())
    assert page.locator("figure svg").count() == 10
    assert page.locator("text=cannot be drawn").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not complaints
    page.close()


# ---- the whole, on a real program ----


GARBAGE = """
#include <stdio.h>
#include <stdlib.h>
struct node { struct node *next; char rest[1000]; };
int main(void) {
  struct node *kept = NULL;
  for (int i = 0; i < 4000; ++i) {
    struct node *fresh = malloc(sizeof *fresh);
    fresh->next = i % 100 == 0 ? kept : NULL;
    fresh->rest[i % 1000] = 1;
    if (i % 100 == 0) kept = fresh;
  }
  int length = 0;
  for (struct node *at = kept; at; at = at->next) ++length;
  printf("%d\\n", length);
  return 0;
}
"""


def test_a_real_program_from_end_to_end(
    tare: Callable[..., Completed], compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = compile_c(GARBAGE, "-fno-builtin")
    done = tare(
        *("frequency", "--every", "256KiB,1MiB", "--reclaim", "2", "-n", "2", "-o", "r"),
        *("--json", "out.json", "--", program),
    )
    assert done.returncode == 0, done.stderr
    assert "Mutator time and memory" in done.stdout
    out = json.loads((tmp_path / "out.json").read_text())
    medians = {(row["manager"], row["metric"]): row["median"] for row in out["summary"]}
    assert medians[NEVER, "collections"] == 0
    assert medians[collector("1MiB", 1), "collections"] in (3, 4), "of 4 MB"
    assert 13 <= medians[collector("256KiB", 0), "collections"] <= 16
    assert medians[collector("256KiB", 0), "swept_bytes"] == 0
    assert 1e6 < medians[collector("256KiB", 1), "swept_bytes"] < 4.2e6
    assert (
        medians[collector("256KiB", 1), "mutator_seconds"]
        < (medians[collector("256KiB", 1), "wall_seconds"])
    )
    assert tare("report", "r").returncode == 0
    assert tare("diff", "r", "r").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--every", "4XB"], "is not a size"),
        (["--every", "0"], "at least 1B"),
        (["--reclaim", "1,x"], "not a list of numbers"),
        (["--reclaim", "-1"], "not a list of numbers"),
        (["--reclaim", "99999999"], "give at most"),
        (["-m", "delay(glibc)"], "already has a layer"),
        (["-m", "bdwgc"], "is a collector"),
        (["-n", "0"], "0 runs"),
    ],
)
def test_wrong_usage(tare: Callable[..., Completed], arguments: list[str], complaint: str) -> None:
    done = tare("frequency", *arguments, "--", "true")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
