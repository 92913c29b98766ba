"""Objects of Tare in a notebook, and the notebooks of the documentation."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tare
from tare.heap_traces.trace import open_trace
from tare.report.model import Cell, Column, Figure, Report, Section, Table
from tare.report.notebook import MOST_BYTES, as_html
from tests.docs.test_pages import LINK, anchors
from tests.end_to_end.test_page import VARIABLES, contrast
from tests.support import ROOT
from tests.support.campaigns import write_campaign
from tests.support.reports import MANAGERS, PAYLOADS, make_report
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


def executed(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The notebook, run in a folder. It is committed without outputs."""
    nbformat = pytest.importorskip("nbformat", reason="the Python package nbformat")
    book = nbformat.read(path, as_version=4)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    run_book(book, folder, monkeypatch)
    return book


def run_book(book: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the Python package nbclient")
    pytest.importorskip("ipykernel", reason="the Python package ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(book, kernel_name="python3", resources=where).execute()


def shown_pages(book: Any) -> list[str]:
    """The HTML that its cells show."""
    return [
        output["data"]["text/html"]
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]


@pytest.mark.parametrize("path", runs_of_notebooks())
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("gawk") is None:
        pytest.skip("gawk is not installed (package gawk)")
    pages = shown_pages(executed(path, tmp_path, monkeypatch))
    ours = [page for page in pages if page.startswith('<div class="tare">')]
    assert ours
    assert len(pages) > len(ours)
    assert all(len(page.encode()) < MOST_BYTES for page in ours)
    assert list(tmp_path.rglob("*.html"))


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["allocators", "drag", "weigh"]


def test_a_figure_shows_a_frame(browser: Any) -> None:
    frame = pl.DataFrame({"manager": ["b", "a", "a"], "ratio": [1.5, 1.0, 2.0], "of": [*"ppq"]})
    figure = tare.figure(frame, "Ratios", "All.", x="ratio", y="manager", row="of")
    assert figure.spec["encoding"]["y"]["sort"] == ["b", "a"]
    page = shown_in(browser, figure._repr_html_() or "")
    assert page.locator(".tare h3, .tare h4").count() == 0
    assert page.locator(".tare figure svg .mark-rect, .tare figure svg path").count() >= 3
    text = page.locator(".tare figure").inner_text()
    assert "Ratios" in text
    assert "A figure cannot be drawn" not in text
    page.close()
    with pytest.raises(tare.UsageError, match="no column 'ratios'"):
        tare.figure(frame, "Ratios", x="ratios")
    with pytest.raises(tare.UsageError, match="logarithmic"):
        tare.figure(frame, "Ratios", x={"field": "ratio", "scale": {"type": "log"}})
    with pytest.raises(tare.UsageError, match="at most"):
        tare.figure(pl.DataFrame({"x": range(9000)}), "Many", x="x")


def test_an_error_in_a_notebook_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the Python package nbformat")
    v4 = nbformat.v4
    cell = v4.new_code_cell("import tare\ntare.require(['semispace'], commands=['no-such-word'])")
    cell.metadata["tags"] = ["raises-exception"]
    book = v4.new_notebook(cells=[cell])
    run_book(book, tmp_path, monkeypatch)
    (output,) = (each for each in cell.outputs if each.output_type == "error")
    assert "\n".join(output.traceback).startswith("MissingError: ")
    assert "no-such-word" in output.evalue
    assert "Traceback" not in "\n".join(output.traceback)


Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Lesson:
    """``parameters`` are put in place of those of the notebook, so that it takes seconds;
    ``frames`` are those that hold what the lesson is about."""

    parameters: str
    frames: tuple[str, ...]
    check: Callable[..., None]
    needs: str = ""


def of_detlefs(beside: Rows, heaps: Rows) -> None:
    of = {(row["program"], row["manager"]): row for row in beside}
    assert set(of) == {(p, m) for p in ("Gawk", "Perl", "Cfrac") for m in ("Ultrix", "BW2.6")}
    for program in ("Gawk", "Perl", "Cfrac"):
        for year in ("1994", "today"):
            column = f"an object, {year}"
            assert of[program, "BW2.6"][column] > of[program, "Ultrix"][column] > 10
    assert len(heaps) == 2 * len(of)
    assert all(row["heap / live bytes"] > 1 for row in heaps)


def of_berger(classes: Rows, instructions: Rows, peaks: Rows) -> None:
    assert {"perclass", "dlmalloc27", "windowsxp"} < {row["manager"] for row in classes}
    more = {row["objects come from"]: row["% more instructions"] for row in instructions}
    assert more["its own regions"] == 0
    assert max(more["plain regions"], more["reaps"]) < more["glibc"]
    assert {row["year"] for row in peaks} == {"2002", "today"}
    assert all(row["% higher"] >= 0 for row in peaks)


def of_tarditi(table: Rows, by_room: Rows) -> None:
    assert len({(row["program"], row["year"]) for row in table}) == len(table) == 8
    assert all(0 < row["all, %"] < 100 for row in table)
    small, large = (row["collector, %"] for row in by_room)
    assert small > large > 0


def of_sareen_2022(both: Rows, costs: Rows) -> None:
    for what in ("time", "memory"):
        programs = {row["program"] for row in both if row["what"] == what and row["value"]}
        assert {"mimalloc-bench", "cfrac", "bc-cfrac"} <= programs
    assert [row["size"] for row in costs] == ["1B", "64KiB", "2MiB"]
    assert costs[2]["time over 1B"] > costs[0]["time over 1B"] == 1


def of_sareen_2021(both: Rows, sizes: Rows) -> None:
    over = {(row["manager"], row["of"]): row["heap over mark-sweep"] for row in both}
    assert len(over) == len(both) == 8
    for year in ("2021", "today"):
        assert over["SemiSpace", year] > over["Immix", year] > 0
    assert len(sizes) == 4 * 6
    assert all(row["KiB"] > 0 for row in sizes)


LESSONS = {
    "berger2002": Lesson(
        "names = ['dpkg-query']; scale = 0.01",
        ("classes", "instructions", "peaks"),
        of_berger,
        "dpkg-query",
    ),
    "detlefs1994": Lesson(
        "size = 0.02; allocators = {'kingsley': 'Ultrix', 'bdwgc': 'BW2.6'}",
        ("beside", "heaps"),
        of_detlefs,
        "gawk perl bc",
    ),
    "sareen2021": Lesson(
        "size = 0.1", ("both", "sizes"), of_sareen_2021, "gawk lua5.4 perl sqlite3"
    ),
    "sareen2022": Lesson(
        "numbers = 1; runs = 1; allocators = {'tcmalloc': 'TCMalloc'}",
        ("both", "costs"),
        of_sareen_2022,
        "bc",
    ),
    "tarditi1994": Lesson(
        "size = 0.02; room = ['32k', '256k']", ("table", "by_room"), of_tarditi, "ocamlopt"
    ),
}
PAPERS = ROOT / "docs" / "notebooks" / "papers"


def test_each_paper_has_a_lesson() -> None:
    assert {path.stem for path in PAPERS.glob("*.ipynb")} == set(LESSONS)
    for path in PAPERS.glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        words = "".join(line for cell in cells for line in cell["source"])
        for link in LINK.finditer(words):
            target, _, anchor = link["target"].partition("#")
            assert not anchor or anchor in anchors(path.parent / target), link["target"]
            assert (path.parent / target).is_file(), link["target"]


@pytest.mark.native
@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_repeats_what_it_is_about(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the Python package nbformat")
    lesson = LESSONS[name]
    if absent := [word for word in lesson.needs.split() if shutil.which(word) is None]:
        pytest.skip(f"not installed: {', '.join(absent)}")
    book = nbformat.read(PAPERS / f"{name}.ipynb", as_version=4)
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in book.cells)
    (parameters,) = (cell for cell in book.cells if "parameters" in cell.metadata.get("tags", ()))
    given = {target.id for target in names_set(lesson.parameters)}
    assert given <= {target.id for target in names_set(parameters.source)}
    parameters.source += f"\n{lesson.parameters}"
    told = "".join(f"print({frame}.write_json())\n" for frame in lesson.frames)
    book.cells.append(nbformat.v4.new_code_cell(told))
    run_book(book, tmp_path, monkeypatch)
    text = "".join(each.text for each in book.cells[-1].outputs if each.name == "stdout")
    lesson.check(*map(json.loads, text.splitlines()))
    figures = [page for page in shown_pages(book) if page.startswith('<div class="tare">')]
    assert figures
    assert all("<svg" in page and len(page.encode()) < MOST_BYTES for page in figures)


def names_set(source: str) -> list[ast.Name]:
    found = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    return [target for node in found for target in node.targets if isinstance(target, ast.Name)]
