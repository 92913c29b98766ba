"""`import tare`: the same as the command line, as functions that give frames."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import tare
from tare.base.errors import MissingError, UsageError
from tare.programs.program import Program
from tare.studykit.budget import Effort


def test_compare_gives_frames(tmp_path: Path) -> None:
    results = tare.compare(
        ["sh", "-c", "echo hello"],
        ["glibc", "glibc(tcache=0)"],
        runs=3,
        folder=tmp_path / "r",
        seed=4,
    )
    walls = results.measurements.filter(pl.col("metric") == "wall_seconds")
    assert walls.height == 9
    assert results.run.seed == 4
    summary = tare.summary(results)
    assert set(summary["manager"]) == {"glibc", "glibc(tcache=0)"}
    pandas_frame = summary.to_pandas()
    assert list(pandas_frame.columns) == summary.columns
    again = tare.load(tmp_path / "r")
    assert again.measurements.equals(results.measurements)
    assert tare.write_page(again).read_text().startswith("<!")


def test_several_programs(tmp_path: Path) -> None:
    programs = [Program("one", ("true",)), Program("two", ("echo", "2"))]
    results = tare.compare(programs, ["glibc"], runs=2, folder=tmp_path / "r")
    assert set(results.measurements["program"]) == {"one", "two"}
    with pytest.raises(UsageError, match="same name"):
        tare.compare([programs[0], programs[0]], ["glibc"], folder=tmp_path / "s")


def test_weigh(tmp_path: Path) -> None:
    results = tare.weigh(["true"], ["glibc"], effort=Effort.QUICK, folder=tmp_path / "r")
    assert results.run.study == "weigh"
    assert results.measurements.height > 0


def test_a_default_baseline_joins_a_lone_manager(tmp_path: Path) -> None:
    results = tare.compare(["true"], ["glibc(tcache=0)"], runs=1, folder=tmp_path / "r")
    assert results.run.baseline == "glibc"


def test_a_string_is_not_a_command() -> None:
    with pytest.raises(UsageError, match="list of words"):
        tare.compare("gawk -f x.awk")


def test_managers_frame() -> None:
    frame = tare.managers()
    assert frame.filter(pl.col("name") == "glibc")["installed"].to_list() == [True]
    assert {"jemalloc", "mimalloc", "bdwgc"} <= set(frame["name"])


def test_importing_is_light() -> None:
    code = "import tare, sys; print([m for m in ('polars', 'numpy', 'rich') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_command_starts_without_what_only_reports_need() -> None:
    code = """
import sys
from tare.__main__ import tare_group
for name in tare_group.list_commands(None):
    tare_group.get_command(None, name)
    print([m for m in ("polars", "numpy", "pyarrow") if m in sys.modules])
"""
    said = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert len(said) > 20
    assert set(said) == {"[]"}


def test_a_comparison_loads_no_other_study(tmp_path: Path) -> None:
    code = f"""
import sys
from tare.__main__ import run
words = ["compare", "-m", "glibc", "-n", "1", "--quiet", "--no-page", "-o", {str(tmp_path / "r")!r}]
assert run([*words, "--", "true"]) == 0
print(*sys.modules)
"""
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    heavy = {
        *("vl_convert", "jinja2", "duckdb", "pyarrow", "scipy", "distributed", "optuna", "rich"),
        *("tare.heap_traces.conversion", "tare.report.page", "tare.answers.explorer"),
        *("tare.weighing", "tare.gating.report", "tare.observers.memory_system"),
        *("tare.studykit.least_heap.executed", "tare.memory_managers.runtimes.jvm"),
    }
    assert not heavy & {*loaded}
    reports = {name for name in loaded if name.startswith("tare.studies.") and "report" in name}
    assert reports == {"tare.studies.compare.report", "tare.studies.latency.report"}


def test_a_recording_does_not_load_pandas(tmp_path: Path) -> None:
    code = f"""
import sys
from tare.__main__ import main
try:
    main(["trace", "-o", {str(tmp_path / "t.tare")!r}, "--", "true"])
except SystemExit as end:
    assert end.code == 0
print("pyarrow" in sys.modules, "pandas" in sys.modules)
"""
    said = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert said[-1] == "True False"


def test_the_programs_of_a_suite(tmp_path: Path) -> None:
    suite = tmp_path / "mine.toml"
    suite.write_text(
        """
        schema = 1
        name = "mine"
        description = "two programs, one of which is nowhere to be had"
        [[program]]
        name = "here"
        description = "x"
        command = ["echo", "hello"]
        [[program]]
        name = "nowhere"
        description = "x"
        packages = ["no-such-package"]
        command = ["no-such-program"]
        """
    )
    told: list[str] = []
    (program,) = tare.suite_programs(str(suite), report=told.append)
    assert program.name == "here"
    assert any(line.startswith("SKIPPED nowhere") for line in told)
    assert any("apt-get install no-such-package" in line for line in told)
    with pytest.raises(UsageError, match="no program absent"):
        tare.suite_programs(str(suite), ["absent"])
    with pytest.raises(MissingError):
        tare.suite_programs(str(suite), ["nowhere"], told.append)


def test_differences_and_exports(tmp_path: Path) -> None:
    old = tare.compare(["true"], ["glibc"], runs=3, folder=tmp_path / "old")
    change = tare.difference(old, tare.load(tmp_path / "old"))
    assert not change.regressed
    assert change.rows.height > 0
    assert tare.export_text(old, "json").startswith("{")
    with pytest.raises(UsageError, match="no format"):
        tare.export_text(old, "cuneiform")


def test_the_examination_is_a_frame() -> None:
    frame = tare.examination()
    assert "a measured run" in frame["subject"].to_list()


def test_the_names_of_modules_that_were_documented_are_found() -> None:
    code = """
from tare.api import Watcher, breakdown, drag_of_trace, memsys, space_of_traces, trace
from tare.drag_run import How
from tare.errors import MissingError, TareError, UsageError
from tare.limits import judged
from tare.program import Program
from tare.runner import Limits
from tare.trace import open_trace
from tare.tracing import Asked
from tare.weighing import Effort
import tare
assert (tare.Program, tare.Limits, tare.Effort) == (Program, Limits, Effort)
assert tare.__spec__.name == "tare"
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_each_name_that_is_offered_is_there() -> None:
    for name in dir(tare):
        assert getattr(tare, name) is not None
    assert {"compare", "count", "weigh", "drag", "lbo", "minheap", "replay", "trace"} <= {
        *dir(tare)
    }
