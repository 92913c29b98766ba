"""The explorer, its data and its page in headless Chromium."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tare
from tare.answers.explorer import collecting, page
from tare.answers.explorer.collecting import collect
from tare.answers.explorer.document import Detail, document
from tare.answers.explorer.page import EXPLORER_FILE, render_explorer
from tare.answers.exports.traces import to_collapsed
from tare.base.errors import UsageError
from tare.base.units import format_value
from tare.heap_traces.trace import open_trace
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run
from tare.report.figures.marks import ratio_text
from tests.end_to_end.test_page import PHONE, WIDE, Visit, contrast, texts
from tests.support.campaigns import write_campaign
from tests.support.reports import PAYLOADS
from tests.support.traces import many_objects, write_trace_folder
from tests.unit.answers.test_explorer import (
    COUNT,
    COUNTED,
    all_recorded,
    call_report,
    details_kept,
    note,
)

MANAGERS = (
    *("glibc", "jemalloc", "mimalloc", "tcmalloc", "snmalloc", "hoard", "bdwgc", "reap"),
    "delay(mimalloc, size=64KiB)",
    "marksweep(tcmalloc, every=64KiB, reclaim=16)",
)
PROGRAMS = tuple(f"{name}-{n}" for n in range(4) for name in "gawk perl lua jq bc".split())
RUNS = 11
FAILING = ("jq-1", "bdwgc")
WITH_TREES = "gawk-0"
ALL = Detail(runs=True, nodes=4000, rows=1 << 30)
Opener = Callable[..., Visit]


def traced_run(folder: Path, program: str = WITH_TREES) -> Record:
    """The record of a run of `tare drag` whose trace is kept in ``folder``."""
    write_trace_folder(folder / "traces" / "0.tare", many_objects(3000), end_instructions=1 << 40)
    details = details_kept("results-0.1/drag") | {"trace": "traces/0.tare", "sites": []}
    return Record(
        Run("drag", program, "glibc", 0, 1, observer="drag"),
        Outcome(Status.OK, values={"peak_free_bytes": 1.0}, details=details),
    )


def write_drag(folder: Path, program: str = WITH_TREES) -> Path:
    metrics = {"peak_free_bytes": ("B", 1e6), "peak_last_use_bytes": ("B", 4e5)}
    write_campaign(folder, [program], ["glibc"], 1, study="drag", metrics=metrics)
    (folder / "runs.jsonl").write_text(traced_run(folder, program).to_line() + "\n")
    os.utime(folder / "measurements.parquet")
    return folder


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Over 10,000 measurements of a campaign, and one trace of one of its programs."""
    root = tmp_path_factory.mktemp("explored")
    write_campaign(root / "campaign", PROGRAMS, MANAGERS, RUNS, failing=FAILING)
    write_drag(root / "drag")
    tare.explore(root)
    return root


@pytest.fixture(scope="module")
def summary(campaign: Path) -> pl.DataFrame:
    return tare.summary(tare.load(campaign / "campaign"))


@pytest.fixture
def visit(browser: Any) -> Iterator[Opener]:
    contexts: list[Any] = []

    def open_page(path: Path, address: str = "", width: int = WIDE, theme: str = "light") -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, has_touch=width == PHONE
        )
        contexts.append(context)
        visited = Visit(context.new_page())
        visited.page.on("console", lambda message: visited.troubles.append(message.text))
        visited.page.on("pageerror", lambda error: visited.troubles.append(str(error)))
        visited.page.on("request", lambda request: visited.requests.append(request.url))
        visited.page.goto(path.as_uri() + address)
        return visited

    yield open_page
    for context in contexts:
        context.close()


def matrix(shown: Any) -> dict[str, list[str]]:
    """The table of programs by managers, by program."""
    return {name: cells for name, *cells in table_of(shown, "#matrix tbody tr:not(.mean-row)")}


def await_way(shown: Any, program: str) -> None:
    shown.locator("#way", has_text=re.compile(f"{re.escape(program)}$")).wait_for()


def table_of(shown: Any, rows: str) -> list[list[str]]:
    return list(
        shown.locator(rows).evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
    )


def settle(shown: Any) -> None:
    """Waits for what is drawn with the next frame. A step to another address is drawn when the
    browser gets to it: wait for what it shows, or for the end of ``#way``."""
    shown.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


# ---- figures ----


def test_the_table_holds_the_numbers(visit: Opener, campaign: Path, summary: pl.DataFrame) -> None:
    walls = {
        (row["program"], row["manager"]): row
        for row in summary.iter_rows(named=True)
        if row["metric"] == "wall_seconds"
    }
    assert tare.load(campaign / "campaign").measurements.height > 10_000
    address = "#result=campaign"
    shown = matrix(visit(campaign / EXPLORER_FILE, address).page)
    assert set(shown) == set(PROGRAMS)
    signs = {"lower": "▼", "higher": "▲", "baseline": "", "no difference seen": ""}
    for program, cells in shown.items():
        expected = [
            f"{RUNS} timeout"
            if (program, manager) == FAILING
            else signs[walls[program, manager]["verdict"]]
            + ratio_text(walls[program, manager]["ratio"])
            for manager in MANAGERS
        ]
        assert cells == expected
    values = matrix(visit(campaign / EXPLORER_FILE, address + "&show=values").page)
    for program, cells in values.items():
        medians = [walls[program, manager]["median"] for manager in MANAGERS]
        assert cells == [
            f"{RUNS} timeout" if median is None else format_value(float(f"{median:.6g}"), "s")
            for median in medians
        ]


def test_means_are_over_the_programs_that_all_managers_ran(
    visit: Opener, campaign: Path, summary: pl.DataFrame
) -> None:
    ratios: dict[str, list[float]] = {manager: [] for manager in MANAGERS}
    for row in summary.iter_rows(named=True):
        if row["metric"] == "wall_seconds" and row["program"] != FAILING[0]:
            ratios[row["manager"]].append(row["ratio"])
    shown = visit(campaign / EXPLORER_FILE, "#result=campaign").page
    cells = texts(shown, "#matrix .mean-row td")
    assert "mean of 19 programs" in shown.locator(".mean-row th").inner_text()
    for manager, cell in zip(MANAGERS, cells, strict=True):
        mean = math.exp(sum(map(math.log, ratios[manager])) / len(ratios[manager]))
        assert float(cell.removesuffix("×")) == pytest.approx(mean, abs=0.002)


def test_marks_lie_where_their_figures_are(
    visit: Opener, campaign: Path, summary: pl.DataFrame
) -> None:
    of_program = summary.filter(summary["program"] == "perl-2")
    ratio = {(r["manager"], r["metric"]): r["ratio"] for r in of_program.iter_rows(named=True)}
    shown = visit(campaign / EXPLORER_FILE, "#program=perl-2&result=campaign").page
    at = shown.evaluate(
        """() => [...document.querySelectorAll('#plane .mark')].map(mark => {
            const box = mark.getBBox();
            return [box.x + box.width / 2, box.y + box.height / 2]; })"""
    )
    ones = shown.evaluate(
        """() => [...document.querySelectorAll('#plane .one')].map(line =>
            [Number(line.getAttribute('x1')), Number(line.getAttribute('y1'))])"""
    )
    assert len(at) == len(MANAGERS)
    for axis, metric, one in (
        (0, "wall_seconds", ones[0][0]),
        (1, "peak_resident_bytes", ones[1][1]),
    ):
        distances = [
            (place[axis] - one, ratio[manager, metric] - 1)
            for place, manager in zip(at, MANAGERS, strict=True)
        ]
        far = max(distances, key=lambda pair: abs(pair[1]))
        scale = far[0] / far[1]
        assert (scale > 0) == (axis == 0)
        for pixels, difference in distances:
            # The middle of a triangle is not quite where its mark is.
            assert pixels == pytest.approx(difference * scale, abs=3)


# ---- filters ----


def test_filters_narrow_what_is_shown(visit: Opener, campaign: Path) -> None:
    shown = visit(campaign / EXPLORER_FILE).page
    shown.locator("#result").select_option("campaign")
    shown.locator("#find").fill("jq 2")
    settle(shown)
    assert set(matrix(shown)) == {"jq-2"}
    assert "Shows 1 of 20 programs, 10 of 10 managers" in shown.locator("#status").inner_text()
    shown.locator("#find").fill("")
    settle(shown)
    shown.locator("#managers button", has_text="hoard").click()
    assert all(len(cells) == len(MANAGERS) - 1 for cells in matrix(shown).values())
    assert "9 of 10 managers" in shown.locator("#status").inner_text()
    shown.locator("#metric").select_option("minor_faults")
    assert shown.locator("#metric-title").inner_text().startswith("Minor faults by program")
    shown.reload()
    assert shown.locator("#metric").input_value() == "minor_faults"
    assert shown.locator("#managers [aria-pressed=false]").all_inner_texts() == ["hoard"]
    shown.locator("#reset").click()
    assert shown.locator("#metric").input_value() == "wall_seconds"
    assert shown.locator("#managers [aria-pressed=false]").count() == 0
    shown.locator("#find").fill("nothing has this name")
    settle(shown)
    assert matrix(shown) == {}


def test_a_heading_sorts_and_keeps_the_focus(visit: Opener, campaign: Path) -> None:
    shown = visit(campaign / EXPLORER_FILE, "#result=campaign").page
    head = shown.locator("#matrix th button", has_text="bdwgc")
    head.focus()
    shown.keyboard.press("Enter")
    column = MANAGERS.index("bdwgc")
    cells = [row[column] for row in matrix(shown).values()]
    assert cells[-1] == f"{RUNS} timeout"
    rising = [float(cell.strip("▼▲?×")) for cell in cells[:-1]]
    assert rising == sorted(rising)
    shown.keyboard.press("Enter")
    falling = [row[column] for row in matrix(shown).values()]
    assert [float(cell.strip("▼▲?×")) for cell in falling[:-1]] == rising[::-1]
    assert falling[-1] == f"{RUNS} timeout"


def test_many_programs_come_in_portions(visit: Opener, tmp_path: Path) -> None:
    metrics = {"wall_seconds": ("s", 1.0)}
    names = [f"p{number}" for number in range(130)]
    write_campaign(tmp_path / "r", names, ["glibc"], 1, metrics=metrics)
    shown = visit(tare.explore(tmp_path / "r")).page
    assert len(matrix(shown)) == 100
    shown.locator(".more").click()
    assert list(matrix(shown)) == sorted(names, key=lambda name: int(name[1:]))
    assert shown.locator(".more").count() == 0


# ---- from the suite to the call sites ----


def test_from_the_suite_to_a_program_and_back(visit: Opener, campaign: Path) -> None:
    shown = visit(campaign / EXPLORER_FILE, "#result=campaign").page
    shown.locator("#matrix tbody button", has_text="lua-3").click()
    await_way(shown, "lua-3")
    rows = table_of(shown, "table.managers tbody tr")
    assert [row[0] for row in rows] == list(MANAGERS)
    assert all(row[-1] == str(RUNS) for row in rows)
    marks = shown.locator("#program path.run").evaluate_all(
        "paths => paths.map(path => path.getAttribute('d').split('Z').length - 1)"
    )
    assert marks == [RUNS] * len(MANAGERS)
    shown.locator("#program summary").click()
    assert shown.locator("#program details tbody tr").count() == 5
    shown.go_back()
    shown.locator("#matrix").wait_for()
    assert len(matrix(shown)) == len(PROGRAMS)
    shown.go_forward()
    await_way(shown, "lua-3")
    assert shown.locator("table.managers").count() == 1
    shown.locator("#way button").click()
    shown.locator("#matrix").wait_for()


def flame(shown: Any) -> list[dict[str, Any]]:
    return list(
        shown.evaluate(
            """() => [...document.querySelectorAll('#tree [data-node]')].map(group => {
                const rect = group.firstElementChild;
                const number = name => Number(rect.getAttribute(name));
                return { node: Number(group.dataset.node), x: number('x'), y: number('y'),
                         width: number('width'), text: group.textContent }; })"""
        )
    )


def test_a_flame_is_as_wide_as_its_bytes(visit: Opener, campaign: Path) -> None:
    """Held against the collapsed stacks that other flame graph tools read."""
    lines = to_collapsed(open_trace(campaign / "drag/traces/0.tare"), "bytes").decode().split("\n")
    stacks = {
        tuple(line.rpartition(" ")[0].split(";")): int(line.rpartition(" ")[2])
        for line in lines[:-1]
    }
    whole = sum(stacks.values())
    shown = visit(campaign / EXPLORER_FILE, f"#program={WITH_TREES}&weight=1").page
    nodes = flame(shown)
    full = nodes[0]["width"]
    for depth in (1, 2, 3):
        drawn = {
            re.sub(r" \(.*", "", node["text"]): node["width"]
            for node in nodes
            if node["y"] == depth * 20
        }
        sums: dict[str, int] = {}
        for stack, count in stacks.items():
            if len(stack) >= depth:
                sums[stack[depth - 1]] = sums.get(stack[depth - 1], 0) + count
        assert set(drawn) == set(sums)
        for name, width in drawn.items():
            assert width / full == pytest.approx(sums[name] / whole, abs=0.002)


def test_a_flame_is_enlarged_and_searched(visit: Opener, campaign: Path) -> None:
    shown = visit(campaign / EXPLORER_FILE, f"#program={WITH_TREES}&weight=1").page
    before = flame(shown)
    deepest = max(before, key=lambda node: float(node["y"]))
    shown.locator(f"#tree [data-node='{deepest['node']}'] rect").click()
    enlarged = next(node for node in flame(shown) if node["node"] == deepest["node"])
    assert enlarged["width"] == pytest.approx(before[0]["width"], abs=1)
    shown.locator("#whole").click()
    assert flame(shown) == before
    shown.locator("#tree-find").fill("MAKE")
    settle(shown)
    assert shown.locator("#tree .found").count() == 1
    assert re.fullmatch(r"1 call, [\d.]+% of all", shown.locator("#tree-found").inner_text())
    heaviest = table_of(shown, "#heaviest tbody tr")
    shares = [float(row[2].rstrip("%")) for row in heaviest]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert shares == sorted(shares, reverse=True)


def test_the_keyboard_alone_is_enough(visit: Opener, campaign: Path) -> None:
    shown = visit(campaign / EXPLORER_FILE, "#result=campaign").page
    shown.locator("#plane svg").focus()
    shown.keyboard.press("ArrowRight")
    first = shown.locator("#tip").inner_text()
    shown.keyboard.press("ArrowRight")
    second = shown.locator("#tip").inner_text()
    time = re.compile(r"wall time ([\d.]+)×")
    assert float(time.findall(first)[0]) <= float(time.findall(second)[0])
    shown.keyboard.press("Enter")
    await_way(shown, second.split(" in ")[0])
    shown.goto((campaign / EXPLORER_FILE).as_uri() + f"#program={WITH_TREES}&weight=1")
    await_way(shown, WITH_TREES)
    shown.locator("#tree svg").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        shown.keyboard.press(key)
    assert shown.locator("#whole").is_visible()
    assert shown.evaluate("document.activeElement.closest('#tree') !== null")
    assert "% of all" in shown.locator("#tree-current").inner_text()
    shown.keyboard.press("Escape")
    assert not shown.locator("#whole").is_visible()


# ---- how it looks, prints and opens ----


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_overflows_complains_or_leaves(
    visit: Opener, campaign: Path, width: int, theme: str
) -> None:
    for address in ("", f"#program={WITH_TREES}"):
        visited = visit(campaign / EXPLORER_FILE, address, width, theme)
        shown = visited.page
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        shown.locator("#theme").click()
        shown.emulate_media(media="print")
        shown.pdf()
        assert shown.locator("#plane svg").is_visible()
        assert not shown.locator("#find").is_visible()
        assert visited.troubles == []
        assert len(visited.requests) == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_in_a_flame_can_be_read(visit: Opener, campaign: Path, theme: str) -> None:
    shown = visit(campaign / EXPLORER_FILE, f"#program={WITH_TREES}", theme=theme).page
    shown.locator("#tree-find").fill("make")
    settle(shown)
    for text, back in shown.evaluate(
        """() => [...document.querySelectorAll('#tree .node')].filter(node => node.children[1])
            .map(node => [node.children[1], node.children[0]].map(part => {
                const canvas = document.createElement('canvas').getContext('2d');
                canvas.fillStyle = getComputedStyle(part).fill;
                canvas.fillRect(0, 0, 1, 1);
                return `rgb(${canvas.getImageData(0, 0, 1, 1).data.slice(0, 3).join()})`;
            }))"""
    ):
        assert contrast(text, back) >= 4.5


def test_managers_differ_in_more_than_colour(visit: Opener, tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(40)]
    write_campaign(tmp_path / "r", ["p"], names, 1, metrics={"wall_seconds": ("s", 1.0)})
    shown = visit(tare.explore(tmp_path / "r")).page
    marks = shown.locator("#managers path").evaluate_all(
        "paths => paths.map(path => [path.getAttribute('d'), path.getAttribute('fill')])"
    )
    assert len({(shape, colour) for shape, colour in marks}) == 40
    assert len({shape for shape, _ in marks[:8]}) == 8


MOST_ELEMENTS = 3_000


def test_ten_thousand_measurements_open_and_filter_at_once(visit: Opener, campaign: Path) -> None:
    """What is drawn at a time stays small. The limits of time are fifty times what a slow machine
    took: they show a mistake, not a busy machine."""
    shown = visit(campaign / EXPLORER_FILE).page
    opened = shown.evaluate(
        "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    )
    assert opened < 30_000
    assert shown.locator("*").count() < MOST_ELEMENTS
    took = shown.evaluate(
        """async () => {
            const start = performance.now();
            const find = document.getElementById('find');
            find.value = 'a';
            find.dispatchEvent(new Event('input'));
            await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
            return performance.now() - start;
        }"""
    )
    assert len(matrix(shown)) == 8
    assert took < 10_000
    assert shown.locator("*").count() < MOST_ELEMENTS


# ---- names that somebody else chose ----


def test_no_script_comes_from_a_name(visit: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=window.__pwned=1>"
    metrics = {"wall_seconds": ("s", 1.0), "peak_resident_bytes": ("B", 1e6)}
    write_campaign(folder / "a", ["p", *PAYLOADS], ["glibc", *PAYLOADS], 2, metrics=metrics)
    write_drag(folder / "b", PAYLOADS[0])
    path = tare.explore(folder)
    for address, width in (
        ("", PHONE),
        (f"#find={PAYLOADS[0]}&without={PAYLOADS[1]}", WIDE),
        (f"#program={PAYLOADS[0]}", WIDE),
        (f"#program={PAYLOADS[0]}", PHONE),
    ):
        visited = visit(path, address, width)
        shown = visited.page
        shown.wait_for_timeout(50)
        assert shown.evaluate("window.__pwned") is None
        assert visited.troubles == []
        assert shown.locator("script").count() == 2
        assert shown.locator("main img, main iframe, main a[href^=javascript]").count() == 0
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        main = "".join(texts(shown, "main"))
        assert PAYLOADS[0] in main
        assert not set("\u202e\x07\x00") & set(main)


def test_a_script_that_were_let_in_would_not_run(
    browser: Any, campaign: Path, tmp_path: Path
) -> None:
    """The second line of defence: the content security policy, with escaping undone by hand."""
    path = tmp_path / "explorer.html"
    injected = "<script>window.__pwned=1</script><img src=x onerror='window.__pwned=2'>"
    whole = (campaign / EXPLORER_FILE).read_text()
    path.write_text(whole.replace("<main>", f"<main>{injected}"))
    shown = browser.new_page()
    shown.goto(path.as_uri())
    shown.wait_for_timeout(100)
    assert shown.evaluate("window.__pwned") is None
    assert shown.locator("#matrix table").count() == 1
    shown.close()


# ---- what is collected ----


def test_what_is_too_much_is_left_out_and_named(
    visit: Opener, campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = collect(campaign, note)
    whole = len(render_explorer(collection))
    assert whole < page.MOST_BYTES
    monkeypatch.setattr(page, "MOST_BYTES", whole - 1)
    without_runs = render_explorer(collection)
    assert len(without_runs) < 0.8 * whole
    path = tmp_path / "explorer.html"
    path.write_text(without_runs)
    shown = visit(path, "#program=perl-2").page
    assert "Left out: the values of single runs." in shown.locator("#remarks").inner_text()
    assert shown.locator("table.managers").count() == 1
    assert shown.locator("#program path.run").count() == 0
    few = document(collection, Detail(runs=False, nodes=2, rows=100))
    assert len(few["rows"]["program"]) == 100
    assert [len(tree["parents"]) for tree in few["trees"]] == [2]
    rows = sum(member.summary.height for member in collection.members)
    assert few["cuts"] == [
        "the values of single runs",
        f"{rows - 100:,} of {rows:,} rows of the summary",
        "of each call tree all but its 2 largest nodes",
    ]


def test_a_damaged_folder_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    write_campaign(tmp_path / "good", ["p"], ["glibc"], 2)
    write_campaign(tmp_path / "deep" / "er" / "good", ["q"], ["glibc"], 2)
    write_campaign(tmp_path / ".hidden" / "r", ["r"], ["glibc"], 2)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    (tmp_path / "loop").symlink_to(tmp_path)
    collection = collect(tmp_path, note)
    assert [member.name for member in collection.members] == ["deep/er/good", "good"]
    (trouble,) = collection.troubles
    assert "bad/run.json cannot be read" in trouble
    assert document(collection, ALL)["troubles"] == [trouble]


def test_only_the_newest_of_too_many_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        folder = write_campaign(tmp_path / f"r{number}", ["p"], ["glibc"], 1)
        os.utime(folder / "run.json", (number, number))
    monkeypatch.setattr(collecting, "MOST_RESULTS", 2)
    collection = collect(tmp_path, note)
    assert [member.name for member in collection.members] == ["r2", "r3"]
    assert collection.troubles == ["only the newest 2 results are shown; 2 are left out"]
    monkeypatch.setattr(collecting, "MOST_FOLDERS", 3)
    with pytest.raises(UsageError, match="more than 3 folders"):
        collect(tmp_path, note)


def test_the_width_of_a_flame_is_chosen(visit: Opener, tmp_path: Path) -> None:
    all_recorded(tmp_path, "count", COUNT, COUNTED)
    tare.explore(tmp_path)
    shown = visit(tmp_path / EXPLORER_FILE, "#program=p").page
    for weight, share in (("instructions", 300 / 440), ("calls", 10 / 21), ("bytes", 640 / 688)):
        (title,) = (
            text for text in texts(shown, "#weight-choice option") if text.startswith(weight)
        )
        shown.locator("#weight-choice").select_option(label=title)
        settle(shown)
        nodes = {node["text"]: node["width"] for node in flame(shown)}
        drawn = nodes["malloc for make (p)"] / next(iter(nodes.values()))
        assert drawn == pytest.approx(share, abs=0.01)


# ---- the command ----

Tare = Callable[..., "subprocess.CompletedProcess[str]"]


def test_report_writes_and_opens_the_explorer(
    tare: Tare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_campaign(tmp_path / "all" / "one", ["p", "q"], ["glibc", "jemalloc"], 3)
    write_campaign(tmp_path / "all" / "two", ["p"], ["glibc"], 3)
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    done = tare("report", "--open", "all")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["page:", "all/explorer.html"]
    assert "reading all/one (1 of 2)" in done.stderr
    opened = (tmp_path / "opened").read_text().strip()
    assert opened == (tmp_path / "all" / EXPLORER_FILE).as_uri()
    many = tare("report", "all/one")
    pages = [line.split()[-1] for line in many.stdout.splitlines() if line.startswith("page:")]
    assert pages == ["all/one/report.html", "all/one/explorer.html"]


def test_one_program_has_no_explorer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_campaign(tmp_path / "r", ["p"], ["glibc"], 3)
    assert call_report(folder) == 0
    assert capsys.readouterr().out.rstrip().endswith("report.html")
    assert not (folder / EXPLORER_FILE).exists()
