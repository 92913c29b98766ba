"""Objects of Tare in a notebook, and the notebooks of the documentation."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tare
from tare.heap_traces.trace import open_trace
from tare.report.model import Cell, Column, Figure, Report, Section, Table
from tare.report.notebook import MOST_BYTES, as_html
from tests.end_to_end.test_page import MANAGERS, PAYLOADS, VARIABLES, contrast, make_report
from tests.support import ROOT
from tests.support.campaigns import write_campaign
from tests.support.traces import many_objects, write_trace_folder
from tests.unit.report.test_page import big_table

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def shown_in(browser: Any, cell: str, theme: str = "light") -> Any:
    """A page that holds ``cell`` as a notebook does, in a theme of JupyterLab."""
    page = browser.new_page()
    is_light = "true" if theme == "light" else "false"
    back = "white" if theme == "light" else "#111"
    page.set_content(
        f'<body data-jp-theme-light="{is_light}"><p id="beside">x</p>{cell}'
        f"<style>body {{ background: {back}; --ink: red }}</style>"
    )
    return page


def test_results_show_findings_tables_and_figures(browser: Any) -> None:
    report = make_report()
    page = shown_in(browser, as_html(report))
    text = page.locator(".tare").inner_text()
    assert "jemalloc is 6% faster." in text
    assert "simulated" in text
    tables = page.locator(".tare table")
    assert tables.count() == 2
    assert tables.first.locator("tbody tr").count() == 2 * len(MANAGERS)
    figures = page.locator(".tare figure svg")
    assert figures.count() == sum(len(section.figures) for section in report.sections)
    for svg in figures.all():
        assert svg.bounding_box()["width"] > 300
    identifiers = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(identifiers) == len(set(identifiers))
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_cell_takes_the_theme_and_leaves_the_notebook_alone(browser: Any, theme: str) -> None:
    page = shown_in(browser, as_html(make_report()), theme)
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate("getComputedStyle(document.querySelector('.tare')).color")
    assert contrast(ink, back) >= 7
    assert page.evaluate(VARIABLES, ["ink"]) == ["rgb(255, 0, 0)"]
    beside = page.evaluate("getComputedStyle(document.querySelector('#beside')).maxWidth")
    assert beside == "none"
    page.close()


def test_no_script_comes_from_a_name(browser: Any) -> None:
    cell = as_html(make_report(("glibc", *PAYLOADS), ("gawk", PAYLOADS[0])))
    page = shown_in(browser, cell)
    page.wait_for_timeout(50)
    assert page.evaluate("window.__pwned") is None
    assert page.locator("script, img, iframe, .tare a").count() == 0
    assert PAYLOADS[0] in page.locator(".tare table").first.inner_text()
    page.close()
    assert not set("\u202e\x07\x00") & set(cell)


def test_a_cell_stays_small_and_says_so() -> None:
    table = big_table(300)
    sections = [Section(f"s{number}", "S", ("Found.",), [table]) for number in range(40)]
    cell = as_html(Report("Big", sections=sections))
    assert len(cell.encode()) < MOST_BYTES
    assert "The first 25 of 300 rows." in cell
    assert "More is in the page" in cell
    text = "x" * 900
    wide = Table("t", "T", [Column(text)] * 20, [[Cell(text)] * 20] * 10)
    huge = Report("Huge", sections=[Section(f"s{n}", text, [text] * 9, [wide]) for n in range(50)])
    assert len(as_html(huge).encode()) < MOST_BYTES
    assert "More is in" not in as_html(Report("Small"))


def test_a_figure_that_cannot_be_drawn_is_a_sentence() -> None:
    broken = Figure("b", "broken", "", {"mark": "<script>"})
    cell = as_html(Report("r", sections=[Section("s", "s", figures=[broken])]))
    assert "A figure cannot be drawn" in cell
    assert "<script" not in cell


def test_what_tare_returns_shows_itself(tmp_path: Path) -> None:
    first = tare.load(write_campaign(tmp_path / "a", ["p"], ["glibc", "mimalloc"], 5))
    shown = first._repr_html_()
    assert shown is not None
    assert shown.startswith('<div class="tare">')
    assert "tare compare: p" in shown
    change = tare.difference(first, first)
    assert "<table" in change._repr_html_()
    trace = open_trace(
        write_trace_folder(tmp_path / "t.tare", many_objects(50), allocating_sites=3)
    )
    assert "What was recorded" in (trace._repr_html_() or "")


def runs_of_notebooks() -> list[Any]:
    """That of `tare weigh` takes the seconds that a bill takes: a soak test."""
    soak = {"weigh": pytest.mark.soak}
    return [pytest.param(path, id=path.stem, marks=soak.get(path.stem, ())) for path in NOTEBOOKS]


@pytest.mark.parametrize("path", runs_of_notebooks())
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the Python package nbformat")
    nbclient = pytest.importorskip("nbclient", reason="the Python package nbclient")
    pytest.importorskip("ipykernel", reason="the Python package ipykernel")
    if shutil.which("gawk") is None:
        pytest.skip("gawk is not installed (package gawk)")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(path, as_version=4)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, kernel_name="python3", resources=where).execute()
    pages = [
        output["data"]["text/html"]
        for cell in cells
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    ours = [page for page in pages if page.startswith('<div class="tare">')]
    assert ours
    assert len(pages) > len(ours)
    assert all(len(page.encode()) < MOST_BYTES for page in ours)
    assert list(tmp_path.rglob("*.html"))


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["allocators", "drag", "weigh"]
