"""The page, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.base.errors import TareError
from tare.report.model import Cell, Column, Figure, Report, Section, Table
from tare.report.page import MOST_BYTES, MOST_TABLE_ROWS, render_page, write_page


def big_table(rows: int, number: int = 0) -> Table:
    columns = tuple(Column(f"Column {n}", "Explained in a sentence.") for n in range(10))
    lines = [
        [Cell(f"{row * n / 7:.6f} <&>", row * n / 7) for n in range(10)] for row in range(rows)
    ]
    return Table(f"big-{number}", f"Big {number}", columns, lines)


def test_a_page_stays_small_and_says_what_was_cut() -> None:
    report = Report("Big", sections=(Section("s", "Big", tables=(big_table(5000),)),))
    page = render_page(report)
    assert len(page.encode()) < MOST_BYTES
    assert f"The first {MOST_TABLE_ROWS:,} of 5,000 rows" in page
    assert page.count("<tr>") == 1 + MOST_TABLE_ROWS


def test_what_to_know_of_a_program_stands_before_the_verdict_with_its_command() -> None:
    about = Section("own-heap", "", ["It maps <its> heap."], commands=[("", "tare x -- 'a b'")])
    page = render_page(Report("r", about=about, verdict=["Keep glibc."]))
    assert page.index("It maps &lt;its&gt; heap.") < page.index("Keep glibc.")
    assert "<code>tare x -- &#39;a b&#39;</code>" in page
    assert 'class="about"' not in render_page(Report("r", verdict=["Keep glibc."]))


@pytest.mark.thorough
@pytest.mark.parametrize("count", [8, 400])
def test_many_large_tables_stay_small_together(count: int) -> None:
    tables = tuple(big_table(5000 if count < 10 else 100, number) for number in range(count))
    sections = tuple(Section(f"s{n}", f"S {n}", ("Found.",), (t,)) for n, t in enumerate(tables))
    page = render_page(Report("Big", sections=sections))
    assert len(page.encode()) < MOST_BYTES


@pytest.mark.thorough
def test_too_large_a_figure_is_left_out_with_a_word() -> None:
    values = [{"x": number, "y": number % 97} for number in range(12_000)]
    axis = {"type": "quantitative"}
    spec = {
        "data": {"values": values},
        "mark": "circle",
        "encoding": {"x": {"field": "x", **axis}, "y": {"field": "y", **axis}},
    }
    figure = Figure("f", "Dots", "Too many.", spec)
    page = render_page(Report("r", sections=(Section("s", "s", figures=(figure,)),)))
    assert len(page.encode()) < MOST_BYTES
    assert "Too large for a page" in page


def test_a_page_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    write_page(Report("First"), path)

    def full_disk(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full_disk)
        with pytest.raises(TareError, match="No space left"):
            write_page(Report("Second"), path)
    assert "First" in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
