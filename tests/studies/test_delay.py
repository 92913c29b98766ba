"""`tare delay`: real runs, and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tare as api
import tare as tare_package
from tare.answers.building import build_report
from tare.base.errors import UsageError
from tare.records.results import Results, read_records
from tare.report.page import render_page
from tests.conftest import Completed
from tests.unit.studies.test_delay import KIB, MIB, results

__all__ = ["results"]


def test_the_page_is_drawn(results: Results, tmp_path: Path, browser: Any) -> None:
    page_file = tmp_path / "page.html"
    page_file.write_text(render_page(build_report(results)))
    page = browser.new_page(viewport={"width": 390, "height": 800})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(page_file.as_uri())
    assert page.locator("figure").count() == 5
    assert page.locator("figure svg").count() == 10
    assert page.locator("text=cannot be drawn").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not complaints
    page.close()


# ---- the whole, on a real program ----


ALLOCATES = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  char *live[64] = {0};
  for (int i = 0; i < 20000; ++i) {
    free(live[i % 64]);
    live[i % 64] = malloc(1000);
    live[i % 64][0] = (char)i;
  }
  puts("done");
  return 0;
}
"""


def test_a_real_program_from_end_to_end(
    tare: Callable[..., Completed], compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = compile_c(ALLOCATES, "-fno-builtin")
    done = tare(
        *("delay", "-m", "glibc", "-m", "mimalloc", "--sizes", "64KiB", "-n", "2", "-o", "r"),
        *("--quarantine", "--json", "out.json", "--csv", "out.csv", "--", program),
    )
    assert done.returncode == 0, done.stderr
    assert "Against no delay (1B)" in done.stdout
    assert "Temporal safety" in done.stdout
    out = json.loads((tmp_path / "out.json").read_text())
    assert out["study"] == "delay"
    by_name: dict[str, dict[str, float]] = {}
    for row in out["summary"]:
        by_name.setdefault(row["manager"], {})[row["metric"]] = row["median"]
    assert set(by_name) == {
        *("glibc", "delay(glibc, size=1B)", "delay(glibc, size=64KiB)"),
        *("mimalloc", "delay(mimalloc, size=1B)", "delay(mimalloc, size=64KiB)"),
        *(f"marksweep({allocator}, free=quarantine)" for allocator in ("glibc", "mimalloc")),
    }
    held = by_name["delay(glibc, size=64KiB)"]
    assert 250 <= held["collections"] <= 350, "20 MB in portions of 64 KiB"
    assert by_name["delay(glibc, size=1B)"]["collections"] == pytest.approx(20000, rel=0.01)
    assert held["pause_seconds"] > held["max_pause_seconds"] > 0
    assert by_name["glibc"]["max_live_bytes"] == pytest.approx(64 * 1000, abs=5000)
    assert "volume_collections" in (tmp_path / "out.csv").read_text()
    assert (tmp_path / "r" / "report.html").exists()
    again = tare("report", "r")
    assert again.returncode == 0, again.stderr
    assert tare("diff", "r", "r").returncode == 0


def test_an_interrupted_folder_goes_on_to_the_same_end(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = [str(compile_c(ALLOCATES, "-fno-builtin"))]
    whole = api.delay(program, ["glibc"], sizes=[KIB], runs=2, live=False, folder=tmp_path / "r")
    lines = (whole.folder / "runs.jsonl").read_text().splitlines(keepends=True)
    (whole.folder / "runs.jsonl").write_text("".join(lines[:5]))
    resumed = api.delay(program, ["glibc"], sizes=[KIB], runs=2, live=False, folder=tmp_path / "r")
    assert len(read_records(resumed.folder)) == len(lines)
    assert tare_package.load(tmp_path / "r").measurements.height == whole.measurements.height
    with pytest.raises(UsageError, match="a different command"):
        api.delay(program, ["glibc"], sizes=[MIB], runs=2, live=False, folder=tmp_path / "r")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sizes", "4XB"], "is not a size"),
        (["--sizes", "0"], "at least 1B"),
        (["--sizes", "2GiB"], "between 1B and 1GiB"),
        (["-m", "delay(glibc)"], "already has a layer"),
        (["-m", "bdwgc"], "is a collector"),
        (["-m", "nothing"], "no manager 'nothing'"),
        (["--scope", "none"], "--scope"),
        (["-n", "0"], "0 runs"),
    ],
)
def test_wrong_usage(tare: Callable[..., Completed], arguments: list[str], complaint: str) -> None:
    done = tare("delay", *arguments, "--", "true")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
