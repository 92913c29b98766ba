"""What the explorer collects of results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tare.answers.building import build_report
from tare.answers.explorer.call_trees import call_trees
from tare.answers.explorer.collecting import collect
from tare.base.errors import UsageError
from tare.cli.commands import report
from tare.records.components import COMPONENTS
from tare.records.metrics import Status
from tare.records.results import load, read_records
from tare.records.runs import Outcome, Record, Run
from tare.report.call_trees import CallTree, Weight, grown
from tare.studies.space import call_trees as space
from tests.support import SUPPORT
from tests.support.campaigns import write_campaign


def note(_text: str) -> None:
    """Progress that nobody reads."""


def test_nothing_to_show(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results"):
        collect(tmp_path, note)
    with pytest.raises(UsageError, match="not a folder"):
        collect(tmp_path / "absent", note)


# ---- call trees ----


def paths_of(tree: CallTree, weight: int = 0) -> dict[tuple[str, ...], float]:
    paths: list[tuple[str, ...]] = []
    for parent, name in zip(tree.parents, tree.names, strict=True):
        above = paths[parent] if parent >= 0 else ()
        paths.append((*above, tree.frames[name]))
    return dict(zip(paths, tree.values[weight], strict=True))


def test_a_tree_sums_its_stacks_and_keeps_the_largest() -> None:
    stacks = [(("main", "a", "b"), [6.0]), (("main", "a"), [3.0]), (("main", "c"), [1.0])]
    stacks += [(("main", "a", f"thin{n}"), [0.0001]) for n in range(5)]
    tree = grown("p", "glibc", "t", [Weight("bytes", "B")], stacks)
    assert paths_of(tree)["p", "main", "a"] == pytest.approx(9.0005)
    seen = paths_of(tree.largest(100))
    assert seen == pytest.approx(
        {("p",): 10.0005, ("p", "main"): 10.0005, ("p", "main", "a"): 9.0005}
        | {("p", "main", "a", "b"): 6.0, ("p", "main", "c"): 1.0}
    )
    assert list(paths_of(tree.largest(3))) == [("p",), ("p", "main"), ("p", "main", "a")]


def frames(*names: str) -> list[dict[str, Any]]:
    """As records have them: the innermost first."""
    place = {"object": "/bin/p", "file": "", "line": None}
    return [{"function": name, **place} for name in reversed(names)]


def details_kept(name: str) -> dict[str, Any]:
    """Of the first run in a folder of kept results."""
    return dict(read_records(SUPPORT / name)[0].outcome.details)


def recorded(tmp_path: Path, study: str, values: dict[str, float], details: Any) -> CallTree:
    """The only tree of one run whose record is given."""
    (tree,) = all_recorded(tmp_path, study, values, details)
    return tree


def all_recorded(
    tmp_path: Path, study: str, values: dict[str, float], details: Any
) -> list[CallTree]:
    run = Run(study, "p", "glibc", 0, 1, observer=study)
    record = Record(run, Outcome(Status.OK, values=values, details=details))
    folder = tmp_path / study
    write_campaign(folder, ["p"], ["glibc"], 1, study=study, records=[record])
    os.utime(folder / "measurements.parquet")
    return call_trees(load(folder), note)


def test_instructions_of_a_count(tmp_path: Path) -> None:
    operations = {"malloc": {"instructions": 300}, "free": {"instructions": 100}}
    tree = recorded(tmp_path, "count", {"instructions": 1000}, {"operations": operations})
    manager = "the memory manager"
    assert paths_of(tree) == {
        ("p",): 1000,
        ("p", "the program itself"): 600,
        ("p", manager): 400,
        ("p", manager, "malloc"): 300,
        ("p", manager, "free"): 100,
    }


CALL_SITES = {
    "frames": frames("main", "make", "xmalloc")[::-1],
    "sites": [[0, 0], [1, 1], [2, 2]],
    "costs": [
        [3, "malloc", False, 10, 300, 640],
        [2, "free", False, 8, 80, 0],
        [0, "calloc", False, 1, 40, 16],
        [1, "malloc", True, 2, 20, 32],
    ],
    "all_costs": 7,
}
COUNT = {"instructions": 1000.0, "manager_instructions": 440.0}
COUNTED = {
    "operations": {name: {"instructions": 100} for name in ("malloc", "free", "calloc")},
    "call_sites": CALL_SITES,
}


def test_instructions_by_call_site(tmp_path: Path) -> None:
    tree, whole = all_recorded(tmp_path, "count", COUNT, COUNTED)
    assert ("p", "the program itself") in paths_of(whole)
    assert [weight.title for weight in tree.weights] == [
        "instructions in the memory manager", "calls of the memory manager", "bytes asked for",
    ]  # fmt: skip
    make = ("p", "main (p)", "make (p)")
    instructions = paths_of(tree)
    assert instructions[("p",)] == 440
    assert instructions[make] == 380
    assert instructions[(*make, "free for make (p)")] == 80
    assert instructions[(*make, "xmalloc (p)", "malloc for make (p)")] == 300
    assert instructions["p", "calloc for [unknown]"] == 40
    assert instructions["p", "main (p)", "malloc for other call sites"] == 20
    assert instructions["p", "main (p)"] == 400
    assert paths_of(tree, 1)[make] == 18
    assert paths_of(tree, 2)["p",] == 688


@pytest.mark.parametrize("sites", [[[1, 0]], [[0, 9]], [[-1, 0]], [3], "x"])
def test_call_sites_that_lead_nowhere_are_a_message(tmp_path: Path, sites: Any) -> None:
    wrong = {**CALL_SITES, "sites": sites, "costs": [[1, "malloc", False, 1, 1, 1]]}
    with pytest.raises(UsageError, match="damaged"):
        all_recorded(tmp_path, "count", COUNT, {**COUNTED, "call_sites": wrong})
    with pytest.raises(UsageError, match="damaged"):
        build_report(load(tmp_path / "count"))


def test_components_that_older_results_do_not_have_are_nothing(tmp_path: Path) -> None:
    values = {"allocation_instructions": 30.0, "other_instructions": 70.0, "instructions": 100.0}
    tree = recorded(tmp_path, "breakdown", values, {"own": 0})
    of_some = {path: value for path, value in paths_of(tree.largest(100)).items() if value}
    assert of_some == {
        ("p",): 100,
        ("p", COMPONENTS["allocation"].title): 30,
        ("p", COMPONENTS["other"].title): 70,
    }


def test_instructions_and_stalls_of_a_simulation(tmp_path: Path) -> None:
    def events(instructions: int, stalls: int) -> dict[str, int]:
        return {"instructions": instructions, "stall_cycles": stalls}

    place = {"operation": "malloc", "object": "/bin/p", "offset": 64}
    model = {
        "name": "host",
        "operations": {"program": events(700, 50), "malloc": events(300, 30)},
        "sites": [
            {**place, "function": "make", **events(200, 10)},
            {**place, "function": "", **events(60, 5)},
        ],
    }
    tree = recorded(tmp_path, "memsys", {"simulated_cycles": 1080}, {"models": [model]})
    instructions, stalls = paths_of(tree), paths_of(tree, 1)
    assert instructions["p",] == 1000
    assert stalls["p",] == 80
    malloc = ("p", "the memory manager", "malloc")
    assert (instructions[malloc], stalls[malloc]) == (300, 30)
    assert (instructions[*malloc, "make"], instructions[*malloc, "p+0x40"]) == (200, 60)


def test_call_sites_of_drag_whose_trace_is_gone(tmp_path: Path) -> None:
    site: dict[str, Any] = {
        "lag": 10.0,
        "drag_freed": 20.0,
        "drag_unfreed": 0.0,
        "void": 10.0,
        "wasted": 40.0,
        "end": 10.0,
    }
    site |= {"bytes": 500, "objects": 5, "frames": frames("main", "make")}
    details = details_kept("results-0.1/drag") | {"trace": "gone", "sites": [site]}
    tree = recorded(tmp_path, "drag", {"peak_free_bytes": 1.0}, details)
    assert tree.title == "Heap by call site, of those with most unused memory"
    assert paths_of(tree)["p", "main (p)", "make (p)"] == 4.0
    assert paths_of(tree, 1)["p", "main (p)", "make (p)"] == 500


def test_call_sites_that_keep_free_cells(tmp_path: Path) -> None:
    details = details_kept("results-0.1/space")
    first, second, *_ = details["sites"]
    first |= {"kept": 4096, "frames": frames("main", "make")}
    second |= {"kept": 1024, "frames": []}
    details["sites"] = [first, second]
    tree = recorded(tmp_path, "space", {"resident_bytes": 1.0}, details)
    assert paths_of(tree) == {
        ("p",): 5120,
        ("p", "main (p)"): 4096,
        ("p", "main (p)", "make (p)"): 4096,
        ("p", "[unknown]"): 1024,
    }


def test_who_owns_the_memory_comes_before_who_keeps_free_cells() -> None:
    results = load(SUPPORT / "results-more" / "space-owners")
    (record,) = read_records(results.folder)
    owned, kept = space.call_trees(results, record, note)
    assert kept.title.startswith("Free cells")
    totals = record.outcome.details["owners"]["totals"]
    for number, name in enumerate(("peak_bytes", "never_freed_bytes", "bytes", "objects")):
        assert owned.values[number][0] == totals[name]
    line = ("tree", "main", "index_input", "copy", "copy (tree.c:6)")
    assert paths_of(owned)[line] == 5000 * len("an entry\0")


def test_damaged_details_are_a_message(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="damaged"):
        recorded(tmp_path, "count", {"instructions": 10}, {"operations": [3]})


def call_report(folder: Path, **given: bool) -> Any:
    assert report.command.callback is not None
    flags = dict.fromkeys(("no_page", "explorer", "opens", "verbose"), False)
    return report.command.callback(folder=folder, **flags | given)


def test_report_refuses(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results"):
        call_report(tmp_path)
    with pytest.raises(UsageError, match="not a folder"):
        call_report(tmp_path / "absent")
    with pytest.raises(UsageError, match="not a results folder"):
        call_report(tmp_path, no_page=True)
    with pytest.raises(UsageError, match="--open needs the page"):
        call_report(tmp_path, no_page=True, opens=True)
    with pytest.raises(UsageError, match="--explorer needs the page"):
        call_report(tmp_path, no_page=True, explorer=True)
