"""`tare drag`: lag, use, drag, void and peaks against a naive model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.answers.building import build_report
from tare.base.documents import converted
from tare.base.errors import UsageError
from tare.heap_traces import residence
from tare.heap_traces.frames import frame_text, site_text
from tare.heap_traces.peak import Peak, PeakSweep
from tare.heap_traces.profile import CLASSES, PROFILE_STEPS
from tare.heap_traces.residence import analyse_objects, processes
from tare.records.metrics import Status
from tare.records.results import Results
from tare.records.runs import Outcome, Record, Run
from tare.report.page import render_page
from tare.studies.drag import report as drag
from tare.studies.drag import weigh as drag_section
from tare.studies.drag.details import Details, Peaks
from tare.studies.drag.observe import outcome_of_trace
from tare.studies.drag.question import drag_of_trace
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting
from tests.support.traces import (
    objects_frame,
    sites_frame,
    write_trace_folder,
)

END = 60
Row = dict[str, Any]

# ---- the peak ----


def naive_peak(births: list[int], ends: list[int], sizes: list[int]) -> int:
    objects = list(zip(births, ends, sizes, strict=True))
    return max((sum(s for b, e, s in objects if b <= t < e) for t in births), default=0)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 9)), min_size=1),
    st.integers(1, 7),
    st.integers(1, 6),
)
def test_the_peak_is_that_of_a_naive_model(
    objects: list[tuple[int, int, int]], batch: int, most_waiting: int
) -> None:
    objects.sort(key=lambda each: each[0])
    births = np.array([birth for birth, _, _ in objects], np.uint64)
    ends = np.array([birth + life for birth, life, _ in objects], np.uint64)
    sizes = np.array([size for _, _, size in objects], np.int64)
    starts = range(0, len(objects), batch)
    lasts = np.array([births[min(s + batch, len(births)) - 1] for s in starts], np.uint64)
    with PeakSweep(lasts, most_waiting) as sweep:
        for start in starts:
            part = slice(start, start + batch)
            sweep.add(births[part], ends[part], sizes[part])
    expected = naive_peak(births.tolist(), ends.tolist(), sizes.tolist())
    assert sweep.peak.bytes == expected
    at = sweep.peak.time
    held = sum(s for b, e, s in zip(births, ends, sizes, strict=True) if b <= at < e)
    assert held == expected


def test_what_ends_at_a_birth_is_gone_by_then() -> None:
    with PeakSweep(np.array([5], np.uint64)) as sweep:
        times = (np.array([1, 5], np.uint64), np.array([5, 9], np.uint64))
        sweep.add(*times, np.array([10, 10], np.int64))
    assert sweep.peak == Peak(10, 1)


def test_files_of_waiting_ends_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    births = np.arange(10, dtype=np.uint64)
    with PeakSweep(births, most_waiting=1) as sweep:
        for birth in births[:5]:
            each = np.array([birth], np.uint64)
            sweep.add(each, each + np.uint64(3), np.array([2], np.int64))
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    assert sweep.peak.bytes == 6


# ---- the whole analysis ----


def read_back(result: dict[str, Any]) -> Details:
    """What ``analyse_objects`` found, as a report reads it."""
    sites = [{**site, "frames": []} for site in result["sites"]]
    of_trace = {"sites": sites, "complete": True, "reason": "", "sites_known": True}
    return converted(result | of_trace, Details)


@st.composite
def objects(draw: st.DrawFn) -> Row:
    row: Row = {
        "birth": draw(st.integers(0, 40)),
        "size": draw(st.integers(0, 100)),
        "site": draw(st.sampled_from([None, 1, 2, 3])),
        "process": draw(st.sampled_from([0, 0, 1])),
    }
    at = row["birth"]
    if draw(st.booleans()):
        at = row["first"] = at + draw(st.integers(0, 5))
        at = row["last"] = at + draw(st.integers(0, 8))
        if draw(st.booleans()):
            row["torn"] = draw(st.sampled_from([row["birth"], row["first"], row["last"]]))
    if draw(st.booleans()):
        row["free"] = at + draw(st.integers(0, 6))
    if draw(st.booleans()):
        row["gone"] = min(at + draw(st.integers(0, 4)), row.get("free", END))
    return row


def described(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "process": number,
            "instructions": END,
            "allocated_bytes": frame.filter(pl.col("process") == number)["birth_bytes"].max(),
            "complete": True,
            "program": "/bin/prog",
        }
        for number in sorted(set(frame["process"]))
    ]


def moments(row: Row, clock: str, end: int) -> tuple[int, int, int, int, int]:
    """Birth, first use, last use, unreachable, end of one object, by the definitions."""
    birth = row[f"birth_{clock}"]
    final = end if row[f"free_{clock}"] is None else row[f"free_{clock}"]
    first, last = row[f"first_use_{clock}"], row[f"last_use_{clock}"]
    first, last = (birth, birth) if first is None else (first, last)
    gone = final if row[f"unreachable_{clock}"] is None else row[f"unreachable_{clock}"]
    return birth, first, last, min(gone, final), final


def needed_until(row: Row, end: int) -> int:
    """From when on an object is unused, teardown being no use."""
    birth, first, last, _, final = moments(row, "instructions", end)
    torn = row["before_teardown_instructions"]
    if row["last_use_instructions"] is None or (torn == birth and first > birth):
        return birth
    return min((last if torn is None else torn) + 1, final)


@pytest.mark.thorough
@settings(deadline=None, max_examples=60)
@given(st.lists(objects(), min_size=1, max_size=25), st.sampled_from(residence.CLOCKS))
def test_the_analysis_is_that_of_a_naive_model(rows: list[Row], clock: str) -> None:
    frame = objects_frame(rows)
    known = described(frame)
    found = processes(frame.lazy(), known)
    before, residence.BATCH_ROWS = residence.BATCH_ROWS, 4
    try:
        result = analyse_objects(frame.lazy(), found, clock, reachability=True, teardown=True)
    finally:
        residence.BATCH_ROWS = before
    peaks = dict.fromkeys(residence.CURVES, 0)
    areas = dict.fromkeys(("use", "lag", "drag", "void", "unreachable"), 0)
    for process in known:
        mine = frame.filter(pl.col("process") == process["process"]).to_dicts()
        lives = [moments(row, "instructions", END) for row in mine]
        sizes = [row["size"] for row in mine]
        births = [life[0] for life in lives]
        used = [row["last_use_instructions"] is not None for row in mine]
        back = [
            min(last + 1, end) if uses else birth
            for (birth, _, last, _, end), uses in zip(lives, used, strict=True)
        ]
        lost = [max(life[3], after) for life, after in zip(lives, back, strict=True)]
        ends = {
            "free": [life[4] for life in lives],
            "unreachable": lost,
            "last_use": back,
            "needed": [needed_until(row, END) for row in mine],
        }
        for curve, of_curve in ends.items():
            peaks[curve] += naive_peak(births, of_curve, sizes)
        final = END if clock == "instructions" else process["allocated_bytes"]
        for row in mine:
            birth, first, last, gone, end = moments(row, clock, final)
            size = row["size"]
            areas["unreachable"] += size * (end - gone)
            if row["last_use_bytes"] is None:
                areas["void"] += size * (end - birth)
                continue
            areas["lag"] += size * (first - birth)
            areas["use"] += size * (last - first)
            areas["drag"] += size * (end - last)
    assert result["peaks"] == peaks
    computed = result["areas"]
    assert computed["drag_freed"] + computed["drag_unfreed"] == areas["drag"]
    assert computed["unreachable_drag"] == areas["unreachable"]
    for name in ("use", "lag", "void"):
        assert computed[name] == areas[name]
    unused = frame.filter(pl.col("last_use_bytes").is_null())
    unfreed = frame.filter(pl.col("free_bytes").is_null())
    totals = result["totals"]
    assert totals["objects"] == frame.height
    assert totals["never_used_bytes"] == unused["size"].sum()
    assert totals["never_freed_objects"] == unfreed.height
    assert sum(site["objects"] for site in result["sites"]) <= frame.height
    profile = result["main"]["profile"]
    step = result["main"]["end"] / PROFILE_STEPS
    if len(known) == 1:
        for name in ("use", "lag", "void", "drag"):
            assert sum(profile[name]) * step == pytest.approx(areas[name], abs=END * 20)
        held = result["main"]["at_peak"]
        assert sum(held[name] for name in CLASSES) == peaks["free"]


def test_a_profile_shows_each_class_when_it_is_held() -> None:
    rows = [
        {"birth": 0, "size": 8, "first": 60, "last": 120, "free": 180},
        {"birth": 240, "size": 0},
    ]
    frame = objects_frame(rows)
    (process,) = processes(frame.lazy(), [])
    result = analyse_objects(frame.lazy(), [process], "instructions", reachability=False)
    profile = result["main"]["profile"]
    assert process.instructions == PROFILE_STEPS == 240
    assert profile["lag"] == [8.0] * 60 + [0.0] * 180
    assert profile["use"] == [0.0] * 60 + [8.0] * 60 + [0.0] * 120
    assert profile["drag"] == [0.0] * 120 + [8.0] * 60 + [0.0] * 60
    assert not any(profile["void"])


def test_what_is_alive_when_a_recording_is_cut_off_is_not_blamed() -> None:
    rows = [
        {"birth": 1, "size": 10},
        {"birth": 2, "size": 7, "first": 3, "last": 4},
        {"birth": 5, "size": 30, "free": 9},
    ]
    frame = objects_frame(rows)
    cut = [{"process": 0, "instructions": 0, "allocated_bytes": 0, "complete": False}]
    (process,) = processes(frame.lazy(), cut)
    assert (process.instructions, process.bytes) == (9, 47)
    result = analyse_objects(frame.lazy(), [process], "instructions", reachability=False)
    assert result["areas"]["use"] == 10 * (9 - 1) + 7 * (9 - 3)
    assert result["areas"]["lag"] == 7 * (3 - 2)
    assert result["areas"]["void"] == 30 * (9 - 5)
    assert result["areas"]["drag_unfreed"] == 0
    totals = result["totals"]
    assert (totals["unknown_objects"], totals["never_freed_objects"]) == (2, 0)
    assert totals["never_used_objects"] == 1
    assert result["peaks"] == {"free": 47, "last_use": 17}


def test_sites_are_ranked_by_what_they_hold_in_vain() -> None:
    rows: list[Row] = [{"birth": 0, "size": 100, "first": 0, "last": 100, "site": 1}]
    rows += [{"birth": 1, "size": 50, "site": 2}]
    rows += [{"birth": 2, "size": 4, "first": 3, "last": 4, "free": 90, "site": 3}] * 5
    rows += [{"birth": 100, "size": 0, "site": 1}]
    frame = objects_frame(rows)
    (process,) = processes(frame.lazy(), [])
    result = analyse_objects(frame.lazy(), [process], "instructions", reachability=False)
    assert [site["site"] for site in result["sites"]] == [2, 3]
    assert [drag.cause(site) for site in result["sites"]] == ["void", "drag_freed"]
    assert result["wasting_sites"] == 2
    assert result["all_sites"] == 3
    assert result["sites"][1]["lag"] == 5 * 4
    assert result["sites"][1]["drag_freed"] == 5 * 4 * (90 - 4)


@pytest.mark.parametrize(
    ("rows", "ratio"),
    [
        ([{"birth": 0, "size": 10, "first": 0, "last": 50, "free": 100}], 2.0),
        ([{"birth": 0, "size": 10, "first": 10, "last": 50, "free": 50}], 1.0),
        ([{"birth": 0, "size": 10, "free": 50}], None),
        ([{"birth": 0, "size": 0, "free": 50}], 1.0),
    ],
)
def test_total_drag(rows: list[Row], ratio: float | None) -> None:
    frame = objects_frame(rows)
    found = processes(frame.lazy(), [])
    result = analyse_objects(frame.lazy(), found, "instructions", reachability=False)
    details = read_back(result)
    assert drag.total_drag(details.areas) == ratio
    assert drag.values_of(details).get("drag_ratio") == ratio


def test_stacks_that_read_alike_are_one_site(tmp_path: Path) -> None:
    """Each third site of the chain reads alike; there are more of them than sites that are kept."""
    number = 2 * residence.MOST_SITES
    rows: list[Row] = [
        {"birth": at, "size": 10, "first": at, "last": at, "free": 900 + process, "site": 3 * at,
         "process": process}
        for process in (0, 1)
        for at in range(1, number + 1)
    ]  # fmt: skip
    rows.append({"birth": 1, "size": 7, "first": 1, "last": 2, "free": 899, "site": 2})
    folder = write_trace_folder(
        tmp_path / "t.tare", objects_frame(rows), sites_frame((0, 1), 3 * number),
        end_instructions=1000,
    )  # fmt: skip
    outcome, _ = outcome_of_trace(folder, "instructions")
    found = outcome.details_as(Details)
    texts = [site_text(site.frames) for site in found.sites]
    alike = "make (list.c:7) ← work ← main"
    assert sorted(texts) == [alike, alike, "work (prog.c:20) ← main"], "one in each process"
    assert found.wasting_sites == 3
    assert {site.objects for site in found.sites} == {number, 1}
    table = drag.sites_table("p", found, "t")
    (_, first, vain, share, *_), (_, second, *_) = table.rows
    assert (first.text, second.text) == (alike, "work (prog.c:20) ← main")
    wasted = sum(10 * (900 + process - at) for process in (0, 1) for at in range(1, number + 1))
    assert vain.key == pytest.approx(wasted / 1000)
    assert share.key == pytest.approx(wasted / (wasted + 7 * 897))
    assert "Half of the unused memory comes from 1 call site (of 2)." in drag.findings(
        [Record(Run("drag", "p", "glibc", 0, 1), outcome, "")], "glibc"
    )


# ---- traces that contradict themselves ----


def test_a_trace_without_last_uses_is_refused(tmp_path: Path) -> None:
    folder = write_trace_folder(
        tmp_path / "t.tare", objects_frame([{"birth": 1, "size": 4}]), observed=["sites"]
    )
    with pytest.raises(UsageError, match="no last uses") as caught:
        outcome_of_trace(folder, "bytes")
    assert "--last-use" in caught.value.hint


def test_births_out_of_order_are_refused() -> None:
    frame = objects_frame([{"birth": 1, "size": 4}, {"birth": 9, "size": 4}]).reverse()
    with pytest.raises(UsageError, match="order of their births"):
        analyse_objects(frame.lazy(), processes(frame.lazy(), []), "bytes", reachability=False)


def test_impossible_sizes_are_refused() -> None:
    frame = objects_frame([{"birth": 1, "size": 4}]).with_columns(
        size=pl.lit((1 << 64) - 1, pl.UInt64)
    )
    with pytest.raises(UsageError, match="more bytes"):
        analyse_objects(frame.lazy(), processes(frame.lazy(), []), "bytes", reachability=False)


def test_times_that_contradict_one_another_stay_in_order() -> None:
    rows = [{"birth": 10, "size": 7, "first": 3, "last": 90, "free": 20, "gone": 1}]
    frame = objects_frame([{"birth": 0, "size": 1, "free": 1}, *rows])
    result = analyse_objects(
        frame.lazy(), processes(frame.lazy(), []), "instructions", reachability=True
    )
    assert result["areas"]["use"] == 7 * 10
    assert result["areas"]["unreachable_drag"] == 0


# ---- what is said and shown ----


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[Row] = [
        {"birth": 10 * n, "size": 64, "first": 10 * n + 1, "last": 10 * n + 45, "site": 1 + n % 3}
        for n in range(100)
    ]
    for number, row in enumerate(rows):
        if number % 3:
            row["free"] = row["birth"] + 400
        if number % 7 == 0:
            del row["first"], row["last"]
    frame = objects_frame(rows)
    folder = tmp_path_factory.mktemp("traces") / "made.tare"
    return write_trace_folder(folder, frame, sites_frame(), end_instructions=1500)


@pytest.fixture
def of_trace(trace: Path, tmp_path: Path) -> Results:
    return drag_of_trace(trace, folder=tmp_path / "results")


@pytest.mark.parametrize(
    ("last", "needed", "said"),
    [
        (
            99,
            50,
            "after its last use, not counting reads by code that frees it, would need 50 B "
            "(50% less)",
        ),
        (60, 59, "right after its last use would need 60 B (40% less)"),
        (99, 99, "right after its last use would change little (99 B)"),
        (99, None, "right after its last use would change little (99 B)"),
    ],
)
def test_the_peak_that_could_be_is_the_least_that_is_known(
    last: int, needed: int | None, said: str
) -> None:
    peaks = Peaks(free=100, last_use=last, needed=needed)
    assert drag._peaks_sentence(peaks) == (
        f"The program holds 100 B at its peak; freeing each object {said}."
    )


def test_a_report_of_a_trace(of_trace: Results, trace: Path) -> None:
    (section,) = build_report(of_trace).sections
    assert section.findings[0].startswith("The program holds ")
    assert "right after its last use would need" in section.findings[0]
    assert any(f.startswith("Half of the unused memory comes from") for f in section.findings)
    tables = {table.identifier: table for table in section.tables}
    assert {"table-drag-1", "table-parts-1", "table-sites-1", "table-stacks-1"} <= set(tables)
    first = tables["table-sites-1"].rows[0][1].text
    assert first.startswith(("make (list.c:7)", "work (prog.c:20)", "main (prog.c:3)"))
    shares = [float(row[1].key or 0) for row in tables["table-parts-1"].rows]
    assert sum(shares) == pytest.approx(1)
    assert {figure.identifier for figure in section.figures} == {
        "figure-drag-profile",
        "figure-drag-curves",
    }
    stacks = [[cell.text for cell in row] for row in tables["table-stacks-1"].rows]
    assert len(stacks) == 1 + 2 + 3
    assert [row[0] for row in stacks if row[0]] == ["1", "2", "3"]
    assert {row[3] for row in stacks} == {"make (list.c:7)", "work (prog.c:20)", "main (prog.c:3)"}
    published = tables["table-drag-published"]
    assert [row[5].text for row in published.rows][1:] == ["–", "1.16", "–", "3.34", "1.23"]
    assert [row[4].text for row in published.rows][1:] == ["6.0%", "18%", "6.9%", "63%", "20%"]
    values = dict(of_trace.measurements.select("metric", "value").iter_rows())
    assert values["peak_free_bytes"] >= values["peak_last_use_bytes"] > 0
    assert sum(values[f"{name}_share"] for name in CLASSES) == pytest.approx(1)


def test_a_damaged_analysis_is_said_to_be_one(of_trace: Results) -> None:
    file = of_trace.folder / "runs.jsonl"
    record = json.loads(file.read_text())
    for broken in ({}, {"totals": 3}, {**record["details"], "sites": [{}]}):
        file.write_text(json.dumps(record | {"details": broken}) + "\n")
        with pytest.raises(UsageError, match="is damaged"):
            build_report(of_trace)


def test_the_page_draws_its_figures(of_trace: Results) -> None:
    page = render_page(build_report(of_trace))
    assert "cannot be drawn" not in page
    assert page.count("<figure") == 2
    assert "void, of objects that are never used" in page


def test_reachability_is_said_and_drawn(tmp_path: Path) -> None:
    rows = [
        {"birth": 10 * n, "size": 64, "first": 10 * n, "last": 10 * n + 50, "gone": 10 * n + 90}
        for n in range(50)
    ]
    folder = write_trace_folder(
        tmp_path / "t.tare", objects_frame(rows), observed=["last_use", "unreachable"]
    )
    (section,) = build_report(drag_of_trace(folder, folder=tmp_path / "r")).sections
    assert "and freeing it once it is unreachable 576 B." in section.findings[0]
    assert any("With each object freed once unreachable" in f for f in section.findings)
    assert "when unreachable" in [column.title for column in section.tables[0].columns]
    for figure in section.figures:
        assert "still reachable" in json.dumps(figure.spec)
    assert "recorded without call sites" in " ".join(section.tables[2].notes)


def test_names_from_a_trace_cannot_do_anything(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\x1b[31m"
    sites = sites_frame().with_columns(function=pl.lit(evil), file=pl.lit(evil))
    frame = objects_frame([{"birth": 1, "size": 9, "site": 2}, {"birth": 9, "size": 9}])
    folder = write_trace_folder(
        tmp_path / "e.tare", frame, sites, program={"name": evil, "argv": [evil, 3]}, manager=evil
    )
    results = drag_of_trace(folder, folder=tmp_path / "results")
    page = render_page(build_report(results))
    assert "<script>alert" not in page
    assert "\x1b" not in page


# ---- the section of `tare weigh` ----


def weigh_setting(effort: Effort, pilot: float) -> Setting:
    seconds = TOTAL_SECONDS[effort] / 3
    return Setting("p", ("glibc", "x"), "glibc", effort, pilot, seconds, seed=1)


def test_the_section_of_weigh_runs_once_under_the_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drag_section, "is_built", lambda: True)
    whole = weigh_setting(Effort.DEFAULT, 0.5)
    (run,) = drag_section.next_runs(whole, [])
    assert (run.study, run.manager, run.observer) == ("drag", "glibc", "drag")
    done = Record(run, Outcome(Status.FAILED))
    assert drag_section.next_runs(whole, [done]) == []
    assert drag_section.expected_seconds(whole) == drag_section.run_seconds(0.5)


@pytest.mark.parametrize(
    ("effort", "pilot", "runs"),
    [
        (Effort.QUICK, 0.1, 1),
        (Effort.QUICK, 1.0, 0),
        (Effort.DEFAULT, 60.0, 0),
        (Effort.THOROUGH, 600.0, 1),
    ],
)
def test_the_section_of_weigh_runs_what_fits(
    effort: Effort, pilot: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drag_section, "is_built", lambda: True)
    assert drag_section.expected_runs(weigh_setting(effort, pilot)) == runs


def test_the_section_of_weigh_says_why_it_ran_nothing(
    of_trace: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.studykit.instrumented.is_built", lambda: True)
    run = {**of_trace.document, "pilot_seconds": 10.0, "request": {"effort": "quick"}}
    results = Results(tmp_path, run, of_trace.measurements)
    (sentence,) = drag_section.section(results).findings
    assert sentence.startswith("Left out: recording one run takes about 3 min 21 s")
    assert "`tare drag` records without a limit" in sentence


def test_frames_of_allocators_are_not_the_call_site() -> None:
    def frame(function: str) -> dict[str, Any]:
        return {"function": function, "object": "/lib/x.so", "file": "", "line": None}

    names = ["operator new(unsigned long)", "std::allocator<int>::allocate", "grow", "work", "main"]
    stack = [frame(name) for name in names]
    assert site_text(stack) == "grow (x.so) ← work ← main"
    assert site_text(stack[:1]) == "operator new (x.so)"
    assert site_text([]) == "not known"
    assert frame_text(frame("f") | {"file": "a/b.c", "line": 4}) == "f (b.c:4)"
    assert frame_text(frame("") | {"offset": 0x1A2B}) == "x.so+0x1a2b"
    assert frame_text(frame("") | {"object": ""}) == "?"
