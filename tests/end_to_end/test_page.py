"""The page in a real browser: headless Chromium, driven by Playwright."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.records.summary import summarise
from tare.report.model import Figure, Report, Section
from tare.report.page import render_page
from tests.support.reports import (
    MANAGERS,
    PAYLOADS,
    PROGRAMS,
    RUNS,
    make_bill,
    make_report,
    sample,
    table_of,
)

WIDE, PHONE = 1280, 390


@dataclass
class Visit:
    """A page that is open, and what it did that it should not have."""

    page: Any
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Opener = Callable[..., Visit]
_pages: list[tuple[Report, str]] = []


def page_of(report: Report) -> str:
    """Drawn once for all tests that look at the same report: its figures take seconds."""
    for drawn, page in _pages:
        if drawn is report:
            return page
    _pages.append((report, render_page(report)))
    return _pages[-1][1]


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    contexts: list[Any] = []

    def open_page(report: Report, width: int = WIDE, theme: str = "light") -> Visit:
        path = tmp_path / "report.html"
        path.write_text(page_of(report), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, has_touch=width == PHONE
        )
        contexts.append(context)
        visited = Visit(context.new_page())
        visited.page.on("console", lambda message: visited.troubles.append(message.text))
        visited.page.on("pageerror", lambda error: visited.troubles.append(str(error)))
        visited.page.on("request", lambda request: visited.requests.append(request.url))
        visited.page.goto(path.as_uri())
        return visited

    yield open_page
    for context in contexts:
        context.close()


def texts(page: Any, selector: str) -> list[str]:
    return [str(text) for text in page.locator(selector).all_text_contents()]


def unfold(page: Any) -> None:
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")


def test_tables_hold_the_numbers(visit: Opener) -> None:
    page = visit(make_report()).page
    summary = summarise(sample(), "glibc", 1).filter(pl.col("metric") == "wall_seconds")
    shown = [texts(row, "td") for row in page.locator("table").first.locator("tbody tr").all()]
    assert shown == [
        [r["program"], r["manager"], f"{r['median']:.3f} s", f"{r['ratio']:.3f}", r["verdict"]]
        for r in summary.iter_rows(named=True)
    ]
    keys = page.locator("table").first.locator("td:nth-child(3)")
    medians = [float(value) for value in keys.evaluate_all("cells => cells.map(c => c.dataset.k)")]
    assert medians == pytest.approx(summary["median"].to_list())


def test_a_click_sorts_by_number_with_nothing_last(visit: Opener) -> None:
    page = visit(make_report()).page
    table = page.locator("table").nth(1)
    header = table.locator("th").nth(1)
    rising = ["-2.5", "0.001", "9", "10", "1e+09"]
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert texts(table, "td:nth-child(2)") == [*rising, "none", "none"]
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert texts(table, "td:nth-child(2)") == [*reversed(rising), "none", "none"]
    name = table.locator("th").first
    name.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert name.get_attribute("aria-sort") == "ascending"
    assert header.get_attribute("aria-sort") is None
    assert texts(table, "td:nth-child(1)") == [f"row {number}" for number in range(7)]


def test_numbers_stand_to_the_right_in_even_digits(visit: Opener) -> None:
    style = (
        visit(make_report())
        .page.locator("td.n")
        .first.evaluate(
            "cell => [getComputedStyle(cell).textAlign, getComputedStyle(cell).fontVariantNumeric]"
        )
    )
    assert style[0] == "right"
    assert "tabular-nums" in style[1]


def test_columns_are_explained_once_in_the_page_and_at_their_headings(visit: Opener) -> None:
    page = visit(make_report()).page
    glossary = page.locator(".glossary dl")
    assert not glossary.is_visible()
    page.locator(".glossary summary").click()
    tip = page.locator("#tip")
    for column in table_of(summarise(sample(), "glibc", 1)).columns:
        assert column.explanation in glossary.inner_text()
        button = page.locator("th button", has_text=column.title).first
        assert button.get_attribute("aria-description") == column.explanation
        button.focus()
        assert tip.inner_text() == column.explanation
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        button.hover()
        assert tip.inner_text() == column.explanation
    page.mouse.move(2, 2)
    assert not tip.is_visible()


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_figures_draw_and_nothing_leaves_the_page(visit: Opener, width: int) -> None:
    page = visit(make_report(), width).page
    unfold(page)
    shown = [svg for svg in page.locator("figure svg").all() if svg.is_visible()]
    assert len(shown) == page.locator("figure").count() == 6
    for svg in shown:
        box = svg.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 60
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    points = shown[0].locator(".mark-symbol path")
    assert points.count() == len(MANAGERS) * len(PROGRAMS)
    assert all(point.bounding_box()["width"] > 3 for point in points.all())
    runs = shown[3].locator(".mark-symbol path")
    assert runs.count() == len(MANAGERS) * len(PROGRAMS) * RUNS
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    clipped = page.evaluate(
        """() => [...document.querySelectorAll('figure svg text')].filter(text => {
            const box = text.getBoundingClientRect();
            const svg = text.ownerSVGElement.getBoundingClientRect();
            return box.width > 0 && (box.left < svg.left - 1 || box.right > svg.right + 1);
        }).map(text => text.textContent)"""
    )
    assert clipped == []


def test_labels_of_a_figure_do_not_cover_one_another(visit: Opener) -> None:
    for width in (WIDE, PHONE):
        page = visit(make_report(), width).page
        unfold(page)
        covered = page.evaluate(
            """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
                const boxes = [...svg.querySelectorAll('text')]
                    .map(text => [text.textContent, text.getBoundingClientRect()])
                    .filter(([, box]) => box.width > 0);
                return boxes.flatMap(([name, a], i) => boxes.slice(0, i)
                    .filter(([, b]) => a.left < b.right - 2 && b.left < a.right - 2
                        && a.top < b.bottom - 4 && b.top < a.bottom - 4)
                    .map(([other]) => `${name} over ${other}`));
            })"""
        )
        assert covered == []


def luminance(colour: str) -> float:
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


COLOURS = """() => {
    const of = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
    return { back: of('body', 'backgroundColor'), text: of('body', 'color'),
             svg: of('figure svg text', 'fill'), point: of('.mark-symbol path', 'fill') };
}"""
VARIABLES = """names => names.map(name => {
    const probe = document.createElement('i');
    document.body.append(probe);
    probe.style.color = `var(--${name})`;
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
})"""


def test_light_and_dark_reach_the_figures_and_the_button_switches(visit: Opener) -> None:
    light = visit(make_report(), theme="light").page.evaluate(COLOURS)
    page = visit(make_report(), theme="dark").page
    dark = page.evaluate(COLOURS)
    assert all(light[part] != dark[part] for part in light)
    page.locator("#theme").click()
    assert page.evaluate(COLOURS) == light
    page.reload()
    assert page.evaluate(COLOURS) == light
    page.locator("#theme").click()
    assert page.evaluate(COLOURS) == dark
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light["back"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_is_enough(visit: Opener, theme: str) -> None:
    page = visit(make_report(), theme=theme).page
    words = ["ink", "muted", "accent", "good", "bad"]
    marks = ["lower", "higher", "same", *(f"series-{number}" for number in range(1, 9))]
    back, panel, warn, band = page.evaluate(VARIABLES, ["page", "panel", "warn-back", "band"])
    for name, colour in zip(words, page.evaluate(VARIABLES, words), strict=True):
        assert contrast(colour, back) >= 4.5, name
        assert contrast(colour, panel) >= 4.5, name
    assert contrast(page.evaluate(VARIABLES, ["ink"])[0], warn) >= 4.5
    for name, colour in zip(marks, page.evaluate(VARIABLES, marks), strict=True):
        assert contrast(colour, back) >= 3, name
        assert contrast(colour, band) >= 3, name


def test_a_mark_tells_what_it_is(visit: Opener) -> None:
    page = visit(make_report()).page
    point = page.locator("svg.wide .mark-symbol path[aria-label^='jemalloc']").first
    point.scroll_into_view_if_needed()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2)
    tip = page.locator("#tip")
    assert tip.is_visible()
    assert re.search(r"jemalloc: 0\.9\d\d.*95% interval", tip.inner_text())
    page.mouse.move(2, 2)
    assert not tip.is_visible()


def test_the_verdict_comes_first_and_the_rest_is_there(visit: Opener) -> None:
    page = visit(make_report()).page
    verdicts = page.locator(".verdicts")
    assert "jemalloc is 6% faster." in verdicts.inner_text()
    assert verdicts.bounding_box()["y"] < page.locator("section").first.bounding_box()["y"]
    assert texts(page, ".obtained") == ["simulated"], "what is usual needs no badge"
    assert "turbo on" in page.locator(".warnings").inner_text()
    facts = page.locator(".facts dl")
    assert not facts.is_visible()
    page.locator(".facts summary").click()
    assert "two cores" in facts.inner_text()
    assert texts(page, ".cost") == ["expected 20 s, took 1 min 15 s"]
    page.locator(".verdicts a").nth(1).click()
    assert page.url.endswith("#section-2")


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_console_stays_empty_and_no_request_leaves(
    visit: Opener, width: int, theme: str
) -> None:
    visited = visit(make_report(), width, theme)
    page = visited.page
    page.locator("th button").first.click()
    page.locator("#theme").click()
    page.emulate_media(media="print")
    page.pdf()
    page.wait_for_timeout(100)
    assert visited.troubles == []
    assert len(visited.requests) == 1
    assert visited.requests[0].startswith("file:")


def test_printing_unfolds_the_facts(visit: Opener) -> None:
    page = visit(make_report()).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".facts dl").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator(".facts dl").is_visible()


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_no_script_comes_from_a_name(visit: Opener, width: int) -> None:
    for payload in PAYLOADS:
        visited = visit(make_report(("glibc", "plain", payload), ("gawk", payload)), width)
        page = visited.page
        for element in page.locator("svg [aria-label]").all()[:5]:
            element.dispatch_event("pointermove", {"clientX": 5, "clientY": 5})
        page.wait_for_timeout(50)
        assert page.evaluate("window.__pwned") is None, payload
        assert visited.troubles == [], payload
        assert page.locator("script").count() == 1
        assert page.locator("main img, main a[href^=javascript], main iframe").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shown = "".join(texts(page, "main"))
        assert payload.split("\n")[0].lstrip("\u202e") in shown
        assert not set("\u202e\x07\x00") & set(shown)


def test_a_hostile_figure_of_another_study_stays_harmless(visit: Opener) -> None:
    values = [{"x": 1, "u": "javascript:window.__pwned=1", "t": PAYLOADS[0]}]
    encoding = {"x": {"field": "x"}, "href": {"field": "u"}, "text": {"field": "t"}}
    good = Figure(
        "a",
        PAYLOADS[0],
        PAYLOADS[1],
        {"data": {"values": values}, "mark": "text", "encoding": encoding},
    )
    broken = Figure("b", "broken", "", {"mark": PAYLOADS[0]})
    visited = visit(Report("r", sections=(Section("s", "s", figures=(good, broken, good)),)))
    assert visited.page.evaluate("window.__pwned") is None
    assert visited.page.locator("figure a").count() == 0
    assert visited.page.locator("figure svg.wide").count() == 2
    assert "cannot be drawn" in visited.page.locator("figure").nth(1).inner_text()
    assert visited.troubles == []


FOR_HUMANS = "wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("folded", [True, False])
def test_nobody_is_kept_out(visit: Opener, width: int, theme: str, folded: bool) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for report in (make_bill(), make_report()):
        page = visit(report, width, theme).page
        if not folded:
            unfold(page)
        options = {"runOnly": {"type": "tag", "values": list(FOR_HUMANS)}}
        found = axe.Axe().run(page, options=options)
        assert len(found.response["passes"]) > 20
        assert found.response["violations"] == [], found.generate_report()


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.textContent"))


def test_a_bill_is_read_with_the_keyboard_alone(visit: Opener) -> None:
    page = visit(make_bill()).page
    stops = []
    while page.keyboard.press("Tab") or page.evaluate("document.activeElement !== document.body"):
        stops.append(focused(page))
        outlined = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outlined) == "solid", f"nobody sees that {stops[-1]} has the focus"
    order = ["copy", "", "Verdict", "Its section", "Research", "Data", "Verify it"]
    places = [stops.index(stop) for stop in order]
    assert places == sorted(places), stops

    page.locator(".verify summary").first.focus()
    verify = page.locator(".verify .command").first
    assert not verify.is_visible()
    page.keyboard.press("Enter")
    assert verify.is_visible()
    page.keyboard.press("Tab")
    page.evaluate(
        """() => {
          window.said = []; // by the button, which says so for a moment only
          const hear = () => window.said.push(document.activeElement.textContent);
          new MutationObserver(hear).observe(document, {subtree: true, childList: true});
        }"""
    )
    page.keyboard.press("Enter")
    # Not by wait_for_function: the page's policy lets nobody evaluate text once it has waited.
    assert page.evaluate(
        """() => new Promise((done) => {
          const end = Date.now() + 30000;
          const look = () => {
            const heard = said.includes("copied") || said.includes("selected");
            if (heard || Date.now() > end) done(heard);
            else setTimeout(look, 20);
          };
          look();
        })"""
    )

    page.locator(".places a", has_text="Research").focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("#research")
    assert page.evaluate("scrollY") > 0


def test_a_bill_begins_with_what_to_do(visit: Opener) -> None:
    report = make_bill()
    visited = visit(report)
    page = visited.page
    assert page.locator("h1").inner_text() == "hold"
    assert page.locator(".top code").inner_text() == report.command
    card = page.locator("#verdict")
    text = card.inner_text()
    for word in ("−22.0 MiB (25%)", "20.0 MiB to 23.0 MiB", "predicted", "hold.cpp:32", "88.0 MiB"):
        assert word in text
    assert texts(page, ".do code") == ["orders"]
    assert texts(page, ".rank") == ["1", "2"]
    bottom = page.locator(".trust").bounding_box()
    assert bottom["y"] + bottom["height"] < 900, "the first screen has all of it"
    assert "warn" in page.locator(".trust").get_attribute("class")
    left = page.locator(".left-out")
    assert left.count() == 1
    assert "tare drag -- ./hold" in left.inner_text()
    assert left.bounding_box()["y"] > page.locator("#research").bounding_box()["y"]
    assert not page.locator("#research .findings").is_visible()
    assert texts(page, ".places a") == ["Verdict", "Its section", "Research", "Data"]
    assert visited.troubles == []


def test_rows_of_sites_are_cards_on_a_phone(visit: Opener) -> None:
    for width in (WIDE, PHONE):
        page = visit(make_bill(), width).page
        row = page.locator(".sites tbody tr").first
        boxes = [cell.bounding_box() for cell in row.locator("td").all()[1:]]
        assert row.locator("a").inner_text() == "① free earlier"
        assert page.locator(".sites small").first.inner_text() == "← read_all (read.cpp:14) ← main"
        if width == WIDE:
            assert len({round(box["y"]) for box in boxes}) == 1
        else:
            assert boxes[0]["y"] < boxes[1]["y"]
            assert row.bounding_box()["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_small_rows_come_when_they_are_asked_for(visit: Opener, width: int) -> None:
    visited = visit(make_bill(), width)
    page = visited.page
    table = page.locator(".table").filter(has=page.locator(".sites")).first
    rows, button = table.locator("tbody tr"), table.locator(".rest button")
    assert [row.is_visible() for row in rows.all()] == [True] + [False] * 7
    assert "7 more call sites" in table.inner_text()
    button.click()
    assert all(row.is_visible() for row in rows.all())
    assert button.get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    button.click()
    assert sum(row.is_visible() for row in rows.all()) == 1
    page.emulate_media(media="print")
    assert all(row.is_visible() for row in rows.all()), "on paper nobody can ask"
    assert visited.troubles == []


def test_a_row_leads_to_what_to_do(visit: Opener) -> None:
    page = visit(make_bill(), PHONE).page
    page.locator(".sites a").first.click()
    assert page.url.endswith("#action-1")
    assert page.locator("#action-1").bounding_box()["y"] < 900


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_a_long_command_is_one_line_until_it_is_asked_for(visit: Opener, width: int) -> None:
    report = replace(make_bill(), command=" ".join(["./hold", *["orders.csv"] * 40]))
    page = visit(report, width).page
    command = page.locator(".top .command")
    low = command.bounding_box()["height"]
    assert low < 40
    command.locator(".expand").click()
    assert command.bounding_box()["height"] > 2 * low
    assert command.locator(".expand").get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    command.locator(".expand").click()
    assert command.bounding_box()["height"] == low


def test_a_link_opens_what_is_folded(visit: Opener) -> None:
    page = visit(make_bill()).page
    page.evaluate("location.hash = 'section-2'")
    page.locator("#research .findings").wait_for(state="visible")


def test_a_script_that_were_let_in_would_not_run(browser: Any, tmp_path: Path) -> None:
    """The second line of defence: the content security policy, with escaping undone by hand."""
    path = tmp_path / "report.html"
    injected = "<script>window.__pwned=1</script><img src=x onerror='window.__pwned=2'>"
    path.write_text(page_of(make_report()).replace("<main>", f"<main>{injected}"))
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_timeout(100)
    assert page.evaluate("window.__pwned") is None
    page.close()


def test_long_names_are_shortened_with_the_full_text_in_reach(visit: Opener) -> None:
    name = "x" * 5000
    page = visit(make_report(("glibc", name), ("gawk",)), PHONE).page
    cell = page.locator("table").first.locator("tbody tr").nth(1).locator("td").nth(1)
    assert len(cell.inner_text()) <= 120
    assert len(cell.get_attribute("title")) > 1000
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_an_empty_report_is_a_page(visit: Opener) -> None:
    visited = visit(Report("Nothing"))
    assert visited.page.title() == "Nothing · Tare"
    assert visited.troubles == []
