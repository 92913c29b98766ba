"""Adding a study: a folder in tare/studies/, and nothing else, is a study everywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.started import Started

Completed = subprocess.CompletedProcess[str]

STUDY = {
    "__init__.py": '"""How much a program prints."""\n',
    "metrics.csv": """\
place,name,title,unit,obtained,first_of,limit,explanation
,printed_bytes,printed,B,,printed,yes,Bytes that the program wrote to its standard output.
""",
    "observe.py": """
from dataclasses import replace

from tare.observers import runner


def run_once(program, manager, limits, workspace, keep_output=None):
    outcome = runner.run_once(program, manager, limits, workspace, keep_output)
    printed = float(outcome.output_bytes)
    values = {**outcome.values, "printed_bytes": printed}
    return replace(outcome, values=values, details={"half": printed / 2})
""",
    "report.py": """
from tare.campaign import planning
from tare.records.results import read_records
from tare.records.summary import summarise_range
from tare.report.model import Cell, Column, Section, Table

STUDY = "printed"
OBSERVER = "printed"


def next_round(plan, records):
    return planning.next_round(plan, records, STUDY, OBSERVER)


def summarise(measurements, baseline, seed):
    del seed
    return summarise_range(measurements, baseline, 0, "printed_bytes")


def section(results, identifier=STUDY, title="Printed"):
    rows = [
        [Cell(r.run.program), Cell(r.run.manager), Cell(f"{r.outcome.values['printed_bytes']:g}")]
        for r in read_records(results.folder)
        if r.run.study == STUDY
    ]
    columns = [Column("program", numeric=False), Column("under", numeric=False), Column("bytes")]
    found = [f"{row[0].text} printed {row[2].text} bytes." for row in rows]
    return Section(identifier, title, found, [Table("table-printed", title, columns, rows)])
""",
    "request.py": '''"""`tare printed`: how much a program prints."""

from dataclasses import KW_ONLY, dataclass

from tare.studykit.request import AgainstBaseline, option


@dataclass(frozen=True)
class Printed(AgainstBaseline):
    """How much PROGRAM prints."""

    ANSWERED_BY = "question.printed"
    EXAMPLES = "  tare printed -- ls"

    _: KW_ONLY
    loudly: bool = option(False, help="Say it aloud.")


REQUESTS = (Printed,)
''',
    "question.py": """
from tare.studies.printed import observe, report
from tare.studies.printed.request import Printed
from tare.studykit.request import answers
from tare.studykit.watched import Watched, watch


@answers(Printed)
def printed(request):
    watched = Watched(report, "reading what is printed", observe.run_once)
    return watch(watched, request, request.asked())
""",
    "over_programs.py": """
from tare.studies.printed import observe, report
from tare.studies.printed.question import printed
from tare.studykit.watched import OverPrograms

OVER_PROGRAMS = OverPrograms(printed, report.OBSERVER, observe.run_once)
""",
    "weigh.py": """
from tare.campaign.planning import Plan
from tare.studies.printed import observe, report

IDENTIFIER = "printed"
TITLE = "Printed"
ORDER = 1


def least_seconds(setting):
    return setting.pilot_seconds


def expected_runs(setting):
    return 1


def expected_seconds(setting):
    return setting.pilot_seconds


def next_runs(setting, records):
    return report.next_round(Plan((setting.program,), (setting.baseline,)), records)


def observers(setting):
    return {report.OBSERVER: observe.run_once}


def section(results):
    return report.section(results, IDENTIFIER, TITLE)
""",
    "call_trees.py": """
from tare.report.call_trees import Weight, grown


def call_trees(results, record, note):
    half = record.outcome.details["half"]
    stacks = [(("the first half",), [half]), (("the second half",), [half])]
    run = record.run
    return [grown(run.program, run.manager, "What was printed", [Weight("bytes", "B")], stacks)]
""",
}
RUN = """
import runpy, sys
# The installation in place of the package's own folder knows where each module was.
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "ScikitBuildRedirectingFinder"]
sys.path.insert(0, {package!r})
{code}
"""
AS_ASKED = """
module = sys.argv[sys.argv.index("-m") + 1]
sys.argv[1:] = sys.argv[sys.argv.index("-m") + 2 :]
runpy.run_module(module, run_name="__main__")
"""
"""What was to be run, `python -m MODULE …`."""
Tare = Callable[..., Completed]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tare's sources with the folder of one more study."""
    folder = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("_native")  # what is compiled there stays valid
    shutil.copytree(ROOT / "tare", folder / "tare", ignore=ignored)
    for name in ("managers", "suites", "workloads", "observers"):
        (folder / name).symlink_to(ROOT / name)
    study = folder / "tare" / "studies" / "printed"
    study.mkdir()
    for name, text in STUDY.items():
        (study / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def with_study(package: Path) -> Iterator[Started]:
    code = RUN.format(package=str(package), code=AS_ASKED)
    process = Started(sys.executable, "-c", code)
    yield process
    process.end()


@pytest.fixture
def tare(with_study: Started, tmp_path: Path) -> Tare:
    return lambda *arguments: with_study.run(arguments, tmp_path)


def test_it_is_a_command_with_results(tare: Tare, tmp_path: Path) -> None:
    assert re.search(r"^  printed +how much a program prints$", tare("--help").stdout, re.M)
    done = tare(
        *("printed", "-m", "glibc", "-m", "mimalloc", "-o", "r", "--json", "out.json"),
        *("--", "echo", "hello"),
    )
    assert done.returncode == 0, done.stderr
    assert "echo hello printed 6 bytes." in done.stdout
    rows = json.loads((tmp_path / "out.json").read_text())
    printed = [row for row in rows["measurements"] if row["metric"] == "printed_bytes"]
    assert [(row["manager"], row["value"], row["unit"]) for row in printed] == [
        ("glibc", 6.0, "B"),
        ("mimalloc", 6.0, "B"),
    ]
    assert any(row["metric"] == "printed_bytes" and row["ratio"] == 1.0 for row in rows["summary"])
    assert "Printed" in (tmp_path / "r" / "report.html").read_text()
    request = json.loads((tmp_path / "r" / "run.json").read_text())["request"]
    assert request["loudly"] is False
    assert "--loudly" in tare("printed", "--help").stdout
    assert tare("report", "r").returncode == 0
    csv = tare("export", "-f", "csv", "-o", "-", "r")
    assert "printed_bytes" in csv.stdout, csv.stderr


def test_a_run_without_a_figure_is_listed_by_its_metric(tare: Tare, tmp_path: Path) -> None:
    done = tare("printed", "-m", "glibc", "--json", "out.json", "--", "false")
    assert done.returncode == 1, done.stderr
    (row,) = json.loads((tmp_path / "out.json").read_text())["measurements"]
    assert (row["metric"], row["status"], "value" in row) == ("printed_bytes", "failed", False)


def test_suites_limits_and_the_explorer_have_it(tare: Tare, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        """
        schema = 1
        name = "mine"
        description = "one program"
        [[program]]
        name = "hello"
        description = "x"
        command = ["echo", "hello"]
        limits = { printed_bytes = "5 B" }
        """
    )
    done = tare("suite", "run", "mine.toml", "--study", "printed", "-m", "glibc", "-o", "all/s")
    assert done.returncode == 0, done.stderr
    assert "hello printed 6 bytes." in done.stdout
    checked = tare("check", "mine.toml", "-o", "all/c")
    assert checked.returncode == 1, checked.stderr
    assert "over" in checked.stdout
    explored = tare("report", "all")
    assert explored.returncode == 0, explored.stderr
    page = (tmp_path / "all" / "explorer.html").read_text()
    assert "What was printed" in page
    assert "the second half" in page


def test_the_bill_has_its_section(tare: Tare, tmp_path: Path) -> None:
    done = tare("weigh", "-v", "--quick", "-m", "glibc", "-o", "bill", "--", "echo", "hello")
    assert done.returncode == 0, done.stderr
    assert "echo hello printed 6 bytes." in done.stdout


def test_python_has_its_function(package: Path, tmp_path: Path) -> None:
    code = """
import tare
import inspect
assert "printed" in dir(tare)
assert inspect.signature(tare.printed).parameters["loudly"].default is False
results = tare.printed(["echo", "hello"], ["glibc"], folder="r")
assert tare.summary(results)["metric"].to_list().count("printed_bytes") == 1
print("done")
"""
    command = [sys.executable, "-c", RUN.format(package=str(package), code=code)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr
