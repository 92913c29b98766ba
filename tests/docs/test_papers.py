"""The page of the papers: complete, made from the files beside it, and repeated step by step."""

from __future__ import annotations

import fnmatch
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs, to_builtins

import tare
from bench.papers import measured
from bench.papers.measured import Measured, merged
from bench.papers.page import PAGE, Exhibit, load_exhibits, load_published, page
from bench.papers.steps import INTERRUPTED, JAVA_SPACE, Size, Step, code_of, run_all, steps
from tare.records.components import COMPONENTS, metric
from tare.records.metrics import METRICS, Status
from tare.records.results import Store
from tare.records.runs import Outcome, Record, Run
from tare.studies.breakdown.details import ReadMisses
from tare.studies.breakdown.memory_tables import published_memory
from tare.studies.breakdown.published import published as published_breakdown
from tare.studies.minheap.replayed_report import published_heaps
from tests.support import ROOT
from tests.unit.records.test_results import asked
from tests.unit.studies.breakdown.test_memory_system import a_model

IN_THE_PAPERS = {
    "000": {f"figure {n}" for n in range(1, 11)},
    "001": {f"table {n}" for n in "I II III IV V VI VII VIII IX X".split()},
    "002": {f"table {n}" for n in range(1, 5)} | {f"figure {n}" for n in range(1, 8)},
    "003": {"table 1.1", "table 3.1", "table 5.1", "table 5.2", "figure 3.1"}
    | {f"figure 4.{n}" for n in range(1, 6)}
    | {f"figure 5.{n}" for n in range(1, 4)}
    | {f"figure 6.{n}" for n in range(1, 11)}
    | {f"figure A.{n}" for n in range(1, 25)},
    "004": {f"table {n}" for n in range(1, 13)} | {f"figure {n}" for n in range(1, 5)},
}
"""Counted in the papers themselves, but for figures that survey other people's work."""


def shown(label: str) -> set[str]:
    """What a label names: `Figures 4.3 to 4.5 and A.1` are four figures."""
    found: set[str] = set()
    kind = ""
    for part in re.split(r", | and ", label):
        if word := re.match(r"(table|figure)s? ", part, re.IGNORECASE):
            kind, part = word[1].lower(), part[word.end() :]
        first, _, last = re.sub(r"\(\w\)", "", part).partition(" to ")
        chapter, _, number = first.rpartition(".")
        numbers = range(int(number), int(last.rpartition(".")[2]) + 1) if last else [number]
        found |= {f"{kind} {chapter}{'.' if chapter else ''}{n}" for n in numbers}
    return found


def test_every_table_and_figure_is_there() -> None:
    _, exhibits = load_exhibits()
    for paper, expected in IN_THE_PAPERS.items():
        labels = [each.label for each in exhibits if each.paper == paper]
        there = set[str]().union(*(shown(label) for label in labels if "Section" not in label))
        assert there == expected


def test_an_exhibit_is_measured_or_says_what_there_is_instead() -> None:
    _, exhibits = load_exhibits()
    names = {step.name for step in steps(Size.FULL)}
    used: set[str] = set()
    for exhibit in exhibits:
        assert bool(exhibit.steps) != bool(exhibit.instead), exhibit.id
        for pattern in exhibit.steps:
            matching = set(fnmatch.filter(names, pattern))
            assert matching, f"{exhibit.id}: no step {pattern}"
            used |= matching
    assert used == names


def test_all_that_was_published_is_shown() -> None:
    _, exhibits = load_exhibits()
    by_id = {each.id: each for each in exhibits}
    unshown = {"detlefs-ii": {"allocated_bytes_per_second"}}
    for identifier, cells in load_published().items():
        exhibit = by_id[identifier]
        metrics = {metric for values in cells.values() for metric in values}
        assert metrics - {c.metric for c in exhibit.columns} == unshown.get(identifier, set())
        if not exhibit.apart:
            assert {program for program, _ in cells} >= set(exhibit.programs)


def test_what_was_published_is_what_the_studies_show() -> None:
    published = load_published()
    heaps = {program for program, _ in published["sareen21-3.1"]}
    assert heaps == set(published_heaps())
    for program, row in published_heaps().items():
        here = [
            v["min_heap_high_bytes"]
            for (p, _), v in published["sareen21-3.1"].items()
            if p == program
        ]
        assert here == [value * 1e6 for value in row if value is not None]
    for program, shares in published_breakdown().items():
        here_shares = published["tarditi-8"][(program, "")]
        assert {k: v for k, v in here_shares.items() if v} == {
            f"{k}_share": v for k, v in shares.items() if v
        } | {"storage_share": pytest.approx(sum(shares.values()))}


BOUNDS = {
    "misses_before": ("dcache_miss_before_gc", 1),
    "misses_after": ("dcache_miss_after_gc", 1),
    "spatial_locality_bound": ("spatial_locality_upper_bound_percent", 0.01),
    "cache_size_bound": ("effective_cache_size_upper_bound_percent", 0.01),
    "instruction_cache_estimate": ("instruction_cache_estimate_percent", 0.01),
}


def test_bounds_of_1994_are_those_that_the_reports_show() -> None:
    published = load_published()
    for program, row in published_memory().items():
        here = published["tarditi-9"][(program, "")]
        assert here == {
            name: pytest.approx(row[column] * unit) for name, (column, unit) in BOUNDS.items()
        }
        words = published["tarditi-7"][(program, "")]["allocated_words"]
        assert words == row["allocation_words"]


def test_measured_rows_are_of_known_steps_and_metrics() -> None:
    names = {step.name for size in Size for step in steps(size)}
    rows = measured.read()
    assert rows, "nothing was measured: python -m bench.papers run --reduced"
    assert {row.step for row in rows} <= names
    assert {row.metric for row in rows} <= set(METRICS) | measured.MEMORY
    assert {row.size for row in rows} <= set(Size)


def test_the_page_is_made_of_what_lies_beside_it() -> None:
    assert PAGE.read_text() == page(measured.read()), "python -m bench.papers write"


def test_steps_that_are_left_are_named() -> None:
    done = row("regions-drag", Size.FULL, 1)
    assert (
        "Measured in full, 2026-11-22, with Tare 1, on [a machine without record](#machines). "
        "Not measured yet: programs-drag."
    ) in page([done])
    assert "| measured in part |" in page([done])
    assert "| measured in part |" not in page([done, row("programs-drag", Size.FULL, 1)])


def test_machines_that_were_recorded_are_named() -> None:
    done = row("regions-drag", Size.FULL, 1)
    rows = [replace(done, machine=name) for name in ("EPYC, 2 cores", "Xeon, 4 cores")]
    assert "with Tare 1, on EPYC, 2 cores and Xeon, 4 cores. Not" in page(rows)


def in_html(sentence: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", sentence)


def section_of(exhibit: Exhibit, whole: str) -> str:
    _, _, rest = whole.partition(f"### {exhibit.label}: {exhibit.title}\n")
    return re.split(r"\n##+ ", rest)[0]


def test_each_exhibit_is_folded_under_a_finding_of_one_sentence() -> None:
    whole = PAGE.read_text()
    _, exhibits = load_exhibits()
    for exhibit in exhibits:
        finding, section = exhibit.finding, section_of(exhibit, whole)
        assert len(finding.split()) <= 25, exhibit.id
        assert re.fullmatch(r"[A-Z].*\.", finding), exhibit.id
        assert not re.search(r"[.!?] ", finding), exhibit.id
        fold = f'\n<details markdown="1">\n<summary>{in_html(finding)}</summary>\n\n'
        folded = bool(exhibit.word or exhibit.published or exhibit.steps or exhibit.columns)
        assert section.startswith(fold if folded else f"\n{finding}\n"), exhibit.id
        before, _, after = section.partition("\n\n</details>\n")
        assert folded == ("\n</details>\n" in section), exhibit.id
        assert "\n|" in before or not exhibit.columns, exhibit.id
        assert not re.search(r"^(\||```)", after, re.MULTILINE), exhibit.id


def test_each_measured_exhibit_says_how_to_repeat_it_and_when_it_was_measured() -> None:
    whole = PAGE.read_text()
    names = [step.name for step in steps(Size.FULL)]
    _, exhibits = load_exhibits()
    for exhibit in exhibits:
        if not exhibit.steps:
            continue
        section = section_of(exhibit, whole)
        assert re.search(r"\nMeasured .*\d{4}-\d\d-\d\d.*, with Tare .*, on .+\.", section)
        for name in (each for pattern in exhibit.steps for each in fnmatch.filter(names, pattern)):
            shown = re.search(rf"papers-results/{name} |bench.papers run .*{name}\b", section)
            assert shown or f"--least-heaps papers-results/{name}\n" in section, (exhibit.id, name)


def test_the_summary_has_at_most_twenty_lines_and_no_figure_of_its_own() -> None:
    """Each line links to one exhibit, which has every number of the line."""
    whole = PAGE.read_text()
    _, exhibits = load_exhibits()
    sections = {
        anchor_of(f"{each.label}: {each.title}"): section_of(each, whole) for each in exhibits
    }
    lines = re.findall(r"^- (.+)$", PAGE.with_name("papers-summary.md").read_text(), re.MULTILINE)
    assert 0 < len(lines) <= 20
    for line in lines:
        told = re.fullmatch(r"(?P<text>[^\[]+) \[[^\]]+\]\(papers\.md#(?P<anchor>[^)]+)\)", line)
        assert told, line
        section = sections[told["anchor"]]
        missing = set(numbers(told["text"])) - set(numbers(section))
        assert not missing, (line, missing)


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:[.,]\d+)*%?", text)


def test_the_citation_has_the_version_and_the_five_papers() -> None:
    yaml = pytest.importorskip("yaml", reason="the Python package PyYAML")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["title"] == "Tare"
    assert citation["version"] == tare.__version__
    assert citation["license"] == "Apache-2.0"
    assert citation["message"]
    assert citation["authors"] == [{"name": "The Tare authors"}]
    references = citation["references"]
    whole = PAGE.read_text()
    assert len(references) == len(load_exhibits()[0])
    for each in references:
        assert {"type", "title", "authors", "year"} <= each.keys()
        assert each["title"] in whole
        assert each.get("doi", "") in whole


def test_managers_go_down_by_the_bytes_in_their_names() -> None:
    rows = [
        replace(
            row("delay-mimalloc", Size.FULL, 1),
            program=program,
            manager=f"delay(mimalloc, size={size}, scope=global)",
            metric="wall_seconds",
            ratio=ratio,
        )
        for program, factor in (("gawk", 1.0), ("jq", 1.21))
        for size, ratio in (("64KiB", factor), ("512KiB", 2 * factor), ("4KiB", 3 * factor))
    ]
    whole = page(rows)
    assert (
        "All managers with options have `scope=global`, too.\n\n"
        "| manager | gawk | jq | *geometric mean* |\n| --- | ---: | ---: | ---: |\n"
        "| `delay(mimalloc, size=4KiB)` | 3.00 | 3.63 | 3.30 |\n"
        "| `delay(mimalloc, size=64KiB)` | 1.00 | 1.21 | 1.10 |\n"
        "| `delay(mimalloc, size=512KiB)` | 2.00 | 2.42 | 2.20 |\n\n"
        "| manager (published) | SPEC CPU2006 |"
    ) in whole


def test_times_of_1994_and_ours_are_over_the_same_allocator() -> None:
    rows = [
        replace(
            row("allocators-time", Size.FULL, seconds / 2),
            program="gawk-dictionary",
            manager=manager,
            metric=metric,
        )
        for manager, seconds in (("kingsley", 2.0), ("quickfit", 3.0))
        for metric in ("user_seconds", "system_seconds")
    ]
    whole = page(rows)
    assert "| Gawk, Qf | `gawk-dictionary`, `quickfit` | 1.50 (0.84) |" in whole
    assert "| Gawk, G++ | `gawk-dictionary`, `lea93` | – (0.95) |" in whole
    assert "| Cfrac, Qf | `bc-cfrac`, `quickfit` | – (0.96) |" in whole
    assert "Gawk, Ultrix" not in whole.split("Table VIII: ")[1].split("### ")[0]


def test_rows_survive_being_written(tmp_path: Path) -> None:
    rows = measured.read()[:50]
    measured.write(rows, tmp_path / "again.csv")
    assert measured.read(tmp_path / "again.csv") == rows


def row(step: str, size: Size, value: float) -> Measured:
    return Measured(step, size, "2026-11-22", "1", "gawk", "glibc", "instructions", 1, value)


def test_a_reduced_step_replaces_no_full_one() -> None:
    full, reduced = row("a", Size.FULL, 1), row("b", Size.REDUCED, 2)
    assert merged([full], [row("a", Size.REDUCED, 3)]) == [full]
    assert merged([full, reduced], [row("b", Size.FULL, 4)]) == [full, row("b", Size.FULL, 4)]
    assert merged([reduced], [row("b", Size.REDUCED, 5)]) == [row("b", Size.REDUCED, 5)]


def leave_results(folder: Path, records: list[Record]) -> None:
    run = asked(study=records[0].run.study, finished="2026-11-22T11:00")
    with Store(folder, run, key="request") as store:
        for record in records:
            store.append(record)
        store.finish()


def a_record(study: str, program: str, values: dict[str, float], **details: object) -> Record:
    outcome = Outcome(Status.OK, values=values, details=details)
    return Record(Run(study, program, "glibc", 0, 1, observer=study), outcome)


def done_step(name: str, results: Path) -> Step:
    step = python_step(name, "")
    run_all([step], results, print)
    return step


def test_what_the_tables_of_1994_have_is_collected(tmp_path: Path) -> None:
    model = structs.replace(
        a_model(
            other=(600, {"reads, level 1": 60}, {"reads, level 1": 20}),
            copy=(300, {"reads, level 1": 40}, {"reads, level 1": 40}),
        ),
        reads=180,
        writes=90,
        allocated_words=50,
        before=ReadMisses(100, 3),
    )
    step = done_step("storage-breakdown", tmp_path)
    values = {metric(name): 0.0 for name in COMPONENTS} | {"instructions": 900.0}
    record = a_record("breakdown", "life", values, memory=[to_builtins(model)])
    leave_results(step.folder(tmp_path), [record])
    rows = measured.collect([step], tmp_path, Size.REDUCED, print)
    found = {each.metric: each.median for each in rows}
    shares = {k: v for k, v in found.items() if v and k.removesuffix("_share") in model.components}
    assert shares == {"copy_share": pytest.approx(0.34)}
    assert {k: found[k] for k in found.keys() - {f"{c}_share" for c in model.components}} == {
        "instructions": 900,
        "reads_share": 0.2,
        "writes_share": 0.1,
        "allocated_words": 50,
        "misses_before": 0.03,
        "spatial_locality_bound": 0.03,
        "cache_size_bound": 0.04,
        "instruction_cache_estimate": 0,
        "collections_wait_share": 0.04,
        "storage_share": pytest.approx(0.34),
    }
    assert found.keys() - {"instructions", "misses_after"} <= measured.MEMORY


def test_without_a_memory_system_shares_are_of_instructions(tmp_path: Path) -> None:
    step = done_step("sml-breakdown", tmp_path)
    values = {metric(name): 0.0 for name in COMPONENTS}
    values |= {"instructions": 200.0, "other_instructions": 150.0, "copy_instructions": 50.0}
    leave_results(step.folder(tmp_path), [a_record("breakdown", "life", values)])
    rows = measured.collect([step], tmp_path, Size.FULL, print)
    assert {each.metric: each.median for each in rows if each.median} == {
        "instructions": 200,
        "copy_share": 0.25,
        "storage_share": 0.25,
    }


def test_each_java_program_has_its_row(tmp_path: Path) -> None:
    step = done_step(JAVA_SPACE, tmp_path)
    for name, heap in (("fop", 5e6), ("xalan", 3e6)):
        record = a_record("minheap", f"java -jar a.jar {name}", {"min_heap_high_bytes": heap})
        leave_results(step.folder(tmp_path) / f"{name}-minheap", [record])
    rows = measured.collect([step], tmp_path, Size.FULL, print)
    assert [(each.program, each.median) for each in rows] == [("fop", 5e6), ("xalan", 3e6)]
    assert {each.metric for each in rows} == {"min_heap_high_bytes"}


def python_step(name: str, code: str) -> Step:
    return Step(name, (sys.executable, "-c", code), 1)


def test_steps_that_are_done_are_not_repeated(tmp_path: Path) -> None:
    counted = f"open({str(tmp_path / 'runs')!r}, 'a').write('x')"
    planned = [
        python_step("good", counted),
        python_step("program-failed", f"{counted}; raise SystemExit(1)"),
        python_step("lacking", f"{counted}; raise SystemExit(3)"),
    ]
    told: list[str] = []
    results = tmp_path / "results"
    first = run_all(planned, results, told.append)
    assert first == {"good": 0, "program-failed": 1, "lacking": 3}
    assert (tmp_path / "runs").read_text() == "xxx"
    assert "step 1 of 3: good; about 3 min" in told[1]
    again = run_all(planned, results, told.append)
    assert again == first
    assert (tmp_path / "runs").read_text() == "xxxx", "only what was lacking is tried again"


def test_a_step_whose_command_changed_is_repeated(tmp_path: Path) -> None:
    run_all([python_step("step", "print(1)")], tmp_path, print)
    assert code_of(python_step("step", "print(1)"), tmp_path) == 0
    assert code_of(python_step("step", "print(2)"), tmp_path) is None
    assert json.loads((tmp_path / "step.json").read_text())["code"] == 0
    assert (tmp_path / "step.txt").read_text() == "1\n"


def test_python_is_the_one_that_tare_runs_in(tmp_path: Path) -> None:
    step = Step("step", ("python", "-c", "import sys; print(sys.executable)"), 1)
    assert run_all([step], tmp_path, print) == {"step": 0}
    assert (tmp_path / "step.txt").read_text() == f"{sys.executable}\n"


def test_an_interruption_ends_all(tmp_path: Path) -> None:
    planned = [python_step("first", f"raise SystemExit({INTERRUPTED})"), python_step("second", "")]
    assert run_all(planned, tmp_path, print) == {"first": INTERRUPTED}
    assert code_of(planned[0], tmp_path) is None


@pytest.mark.parametrize("size", list(Size))
def test_names_of_steps_are_those_of_folders(size: Size) -> None:
    names = [step.name for step in steps(size)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", name) for name in names)


def test_results_come_before_the_other_options(tmp_path: Path) -> None:
    step = Step("x", ("tare", "compare", "--", "java", "-jar", "{results}/a.jar"), 1)
    folder = str(tmp_path / "x")
    assert step.typed(tmp_path) == [
        "tare", "compare", "-o", folder, "--", "java", "-jar", f"{tmp_path}/a.jar"
    ]  # fmt: skip
