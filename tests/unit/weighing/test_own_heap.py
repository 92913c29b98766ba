"""What a bill says of a runtime that serves objects itself, of kept and of made results."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import tare as api
from tare.base.documents import converted
from tare.base.libraries import pl
from tare.memory_managers import runtimes
from tare.memory_managers.manager import Manager, resolve
from tare.observers import runner
from tare.programs.program import Program
from tare.records.header import Environment, Header, Tried
from tare.records.metrics import Status
from tare.records.results import RUN_FILE, Store, read_records
from tare.records.runs import Limits, Outcome, Record, Run
from tare.report.model import Section
from tare.weighing import own_heap
from tests.support import SUPPORT
from tests.support.campaigns import described, write_campaign

HEADER = converted(described("weigh", ["app"], ["glibc"]), Header)
PYTHON, NODE = "/usr/bin/python3.11", "/usr/bin/node"
ALL = "cpython.malloc(glibc)"
HELD = "CPython serves objects of up to 512 bytes by its own pymalloc, from arenas that it maps"
REST = "Allocators of the malloc family see only the rest"
SHOWN = "`tare weigh -m cpython.malloc -- …` shows all objects, by line of Python (3.11 to 3.14)."
MANAGERS = "Managers of CPython: cpython.malloc(M), cpython.gc(threshold=N), cpython.off."


def pilot(executable: str) -> Record:
    run = Run("pilot", "app", "own", 0, 0, warmup=True)
    return Record(run, Outcome(Status.OK, executable=executable))


def space(program: str, mapped: Mapping[str, int], manager: str = "glibc") -> Record:
    """What `tare space` keeps, with these figures; beside a process with less memory."""
    (kept,) = read_records(SUPPORT / "results-more" / "space-growing")
    details = {
        **kept.outcome.details,
        "peak": {**kept.outcome.details["peak"], "resident": 40 << 20},
        "processes": [
            {"pid": 1, "program": "/usr/bin/dash", "peak_bytes": 1 << 20},
            {"pid": 2, "program": program, "peak_bytes": 41 << 20},
        ],
        "mapped": [{"file": file, "resident": size} for file, size in mapped.items()],
    }
    run = Run("space", "app", manager, 0, 1, observer="space")
    return Record(run, Outcome(Status.OK, details=details))


def said(
    folder: Path,
    records: Sequence[Record],
    managers: Sequence[str] = ("glibc",),
    **facts: Any,
) -> Section | None:
    write_campaign(folder / "r", ["app"], managers, 1, study="weigh", records=records)
    path = folder / "r" / RUN_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))
    return own_heap.about(api.load(folder / "r"))


def words(*given: Any, **facts: Any) -> list[str]:
    found = said(*given, **facts)
    assert found is not None
    assert len(found.findings) <= 3
    return list(found.findings)


def test_python_without_a_figure(tmp_path: Path) -> None:
    found = said(tmp_path, [pilot(PYTHON)])
    assert found is not None
    assert found.findings == [f"{HELD}.", f"{REST}; {SHOWN}", MANAGERS]
    assert [line for _, line in found.commands] == ["tare weigh -m cpython.malloc -- app"]


def test_the_share_of_the_peak_is_what_the_interpreter_mapped(tmp_path: Path) -> None:
    mapped = {"/usr/lib/libpython3.11.so.1.0": 10 << 20, PYTHON: 2 << 20, "/usr/lib/x.so": 5 << 20}
    first, *_ = words(tmp_path, [pilot(PYTHON), space(PYTHON, mapped)])
    assert first == f"{HELD}: 12.0 MiB of the 40.0 MiB at the peak."


def test_a_run_under_another_manager_has_no_share_of_this_peak(tmp_path: Path) -> None:
    records = [pilot(PYTHON), space(PYTHON, {PYTHON: 2 << 20}, "jemalloc")]
    assert words(tmp_path, records, ["glibc", "jemalloc"])[0] == f"{HELD}."


def test_objects_are_those_that_only_the_manager_of_all_saw(tmp_path: Path) -> None:
    write_campaign(
        tmp_path / "r",
        ["app"],
        ["glibc", ALL],
        1,
        study="weigh",
        records=[pilot(PYTHON), space(PYTHON, {PYTHON: 10 << 20})],
    )
    results = api.load(tmp_path / "r")
    columns = ("study", "program", "manager", "metric", "value", "unit", "status")
    rows = [
        dict(zip(columns, ("count", "app", manager, "objects", value, "", "ok"), strict=True))
        for manager, value in (("glibc", 2000.0), (ALL, 500_000.0))
    ]
    counted = pl.concat([results.measurements, pl.DataFrame(rows)], how="diagonal")
    found = own_heap.about(type(results)(results.folder, results.document, counted))
    assert found is not None
    assert found.findings[0] == (
        f"{HELD}: 498 k of its 500 k objects and 10.0 MiB of the 40.0 MiB at the peak."
    )


def test_a_wrapper_is_looked_through_where_the_space_of_its_child_is_known(tmp_path: Path) -> None:
    records = [pilot("/usr/bin/timeout"), space(PYTHON, {PYTHON: 2 << 20})]
    assert words(tmp_path, records)[0] == f"{HELD}: 2.00 MiB of the 40.0 MiB at the peak."


def test_node(tmp_path: Path) -> None:
    found = said(tmp_path, [pilot(NODE), space(NODE, {NODE: 30 << 20})])
    assert found is not None
    assert found.findings == [
        "V8 keeps the objects of JavaScript in a heap that it maps itself: 30.0 MiB of the "
        "40.0 MiB at the peak.",
        f"{REST}; `tare compare -m node.v8 -m 'node.v8(semi=32MiB)' -- …` tries a larger young "
        "generation.",
        "Managers of Node: node.v8(heap=SIZE, semi=SIZE).",
    ]


def test_with_all_objects_from_malloc_nothing_is_hidden(tmp_path: Path) -> None:
    records = [pilot(PYTHON), space(PYTHON, {PYTHON: 2 << 20}, ALL)]
    first, second, third = words(tmp_path, records, [ALL])
    assert first.startswith("PYTHONMALLOC=malloc is set here, so malloc serves all objects; ")
    assert second == f"`tare compare -m own -m '{ALL}' -- …` compares the two."
    assert third == MANAGERS


@pytest.mark.parametrize("value", ["malloc", "malloc_debug"])
def test_the_users_own_setting_is_seen(tmp_path: Path, value: str) -> None:
    environment = {"values": {"PYTHONMALLOC": value}}
    found = said(tmp_path, [pilot(PYTHON)], environment=environment)
    assert found is not None
    assert found.findings[0].startswith("PYTHONMALLOC=malloc is set here")
    assert found.findings[1:] == [MANAGERS]
    assert not found.commands


def test_why_the_manager_of_all_objects_cannot_serve_is_said(tmp_path: Path) -> None:
    tried = {"manager": ALL, "fault": "with -I Python does not load it"}
    found = said(tmp_path, [pilot(PYTHON)], revealing=tried)
    assert found is not None
    assert found.findings[1] == (
        f"{REST}, and {ALL} cannot show more: with -I Python does not load it."
    )
    assert not found.commands


@pytest.mark.parametrize(
    "executable", ["", "/usr/bin/perl", "/usr/bin/python3.13t", "/usr/bin/python2.7", "/opt/nodes"]
)
def test_of_other_programs_nothing_is_said(tmp_path: Path, executable: str) -> None:
    assert said(tmp_path, [pilot(executable)]) is None


@pytest.mark.parametrize("name", ["results-0.1/weigh", "results-more/weigh-java"])
def test_of_older_bills_and_of_java_nothing_is_said(name: str) -> None:
    assert own_heap.about(api.load(SUPPORT / name)) is None


@pytest.mark.parametrize(
    ("executable", "seconds", "values", "name"),
    [
        (PYTHON, 1.0, {}, ALL),
        (PYTHON, 5.0, {}, ""),
        (PYTHON, 1.0, {"PYTHONMALLOC": "malloc"}, ""),
        (PYTHON, 1.0, {"PYTHONMALLOC": "pymalloc_debug"}, ALL),
        (NODE, 1.0, {}, ""),
        ("/usr/bin/gawk", 1.0, {}, ""),
    ],
)
def test_a_bill_tries_the_manager_of_all_objects_where_that_is_cheap(
    executable: str, seconds: float, values: dict[str, str], name: str
) -> None:
    run = structs.replace(HEADER, environment=Environment(values))
    outcome = Outcome(Status.OK, values={"wall_seconds": seconds}, executable=executable)
    assert own_heap._candidate(run, outcome, most_seconds=5.0) == name


@pytest.mark.parametrize(
    ("trial", "fault"),
    [
        (Outcome(Status.OK, output_sha256="1"), ""),
        (Outcome(Status.OK, output_sha256="2"), "the program prints something else under it"),
        (Outcome(Status.NOT_LOADED, "pymalloc serves process 7"), "pymalloc serves process 7"),
    ],
)
def test_one_run_shows_whether_it_serves_and_a_bill_that_goes_on_has_no_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trial: Outcome, fault: str
) -> None:
    trials: list[str] = []

    def run_once(_program: Program, manager: Manager, *_: object) -> Outcome:
        trials.append(manager.name)
        return trial

    monkeypatch.setattr(runner, "run_once", run_once)
    values = {"wall_seconds": 1.0}
    pilot = Outcome(Status.OK, values=values, executable=PYTHON, output_sha256="1")
    program = Program("app", ("python3", "app.py"))
    for _ in range(2):
        document = {**described("weigh", ["app"], ["glibc"]), "request": {}}
        with Store(tmp_path / "r", document, key="request") as store:
            found = own_heap.revealing(store, program, pilot, Limits(), 5.0)
            assert list(found) == ([] if fault else [ALL])
            assert store.run.revealing == Tried(ALL, fault)
    assert trials == [ALL]


@pytest.mark.parametrize("name", runtimes.names())
def test_the_words_of_a_runtime_name_managers_that_exist(name: str) -> None:
    module = runtimes.runtime(name)
    if (heap := module.OWN_HEAP) is None:
        assert not module.OVER_MALLOC, "what serves all objects needs words that say what hides"
        return
    tool, command, *rest = heap.command
    assert (tool, command in ("weigh", "compare")) == ("tare", True)
    named = [word for option, word in itertools.pairwise(rest) if option == "-m"]
    assert named
    assert all(resolve(word).runtime for word in named)
    assert bool(heap.served) == bool(module.OVER_MALLOC)
