"""Regions that their library tells the recorder of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import polars as pl
import pytest

from tare.heap_traces.trace import Trace
from tare.records.metrics import Status
from tests.native.recorder import recorder_programs
from tests.native.recorder.recorder_programs import compile_cpp, record
from tests.support import ROOT

HEADERS = ROOT / "managers" / "preload"


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    outcome, found = record(tmp_path, program(tmp_path))
    assert outcome.status is Status.OK
    assert found.meta["complete"] is True
    return found


def program(folder: Path) -> Path:
    return compile_cpp(
        folder, recorder_programs.REGIONS, "-std=c++20", "-fno-builtin", f"-I{HEADERS}"
    )


def test_each_object_has_its_region_and_its_end(trace: Trace) -> None:
    objects = trace.objects().filter((pl.col("process") == 0) & (pl.col("region") > 0)).collect()
    assert objects["operation"].unique().to_list() == ["region"]
    found = objects.group_by("region", "size", "free_operation").len()
    inner = {
        (region, 40, how): count
        for region in range(2, 12)
        for how, count in (("free", 25), ("region", 75))
    }
    # The sixth inner region, 7, has one inside, 8, so the ones after it are one more.
    expected = {
        ((region if region <= 7 else region + 1), size, how): count
        for (region, size, how), count in inner.items()
    } | {
        (1, 24, "region"): 1000,
        (7, 48, "region"): 1,
        (8, 32, "region"): 1,
        (13, 56, None): 1,
    }
    rows = {tuple(row[:3]): row[3] for row in found.rows()}
    assert rows == expected
    assert (objects["usable_size"] == (objects["size"] + 7) // 8 * 8).all()


def test_regions_are_a_tree_with_its_ends(trace: Trace) -> None:
    regions = trace.regions().filter(pl.col("process") == 0).collect().sort("region")
    assert regions["region"].to_list() == list(range(1, 14))
    parents = [None, *[1] * 6, 7, *[1] * 4, None]
    assert regions["parent"].to_list() == parents
    assert regions["clears"].to_list() == [0] * 6 + [1] + [0] * 6
    ended = regions["destroyed_nanoseconds"].is_not_null().to_list()
    assert ended == [True] * 12 + [False]
    assert (regions["created_nanoseconds"] > 0).all()
    lived = regions.filter(pl.col("destroyed_nanoseconds").is_not_null())
    assert (lived["destroyed_nanoseconds"] > lived["created_nanoseconds"]).all()
    # A region inside goes when its parent is cleared, the others with the root or by themselves.
    end = dict(regions.select("region", "destroyed_nanoseconds").rows())
    assert end[8] < end[9]
    assert end[3] == end[1]
    with_parent = trace.objects().filter((pl.col("region") == 3) & (pl.col("process") == 0))
    dead = with_parent.filter(pl.col("free_operation") == "region").collect()
    assert dead["free_nanoseconds"].unique().to_list() == [end[1]]


def test_call_sites_are_those_of_who_called_the_library(trace: Trace) -> None:
    def function(site: int) -> str:
        return str(trace.frames_of(0, site)[0]["function"])

    inner = trace.objects().filter((pl.col("process") == 0) & (pl.col("size") == 40)).collect()
    assert {function(site) for site in inner["site"].unique()} == {"fill(Pool&)"}
    by_region = inner.filter(pl.col("free_operation") == "region")
    assert {function(site) for site in by_region["free_site"].unique()} == {"main"}
    sites = trace.regions().filter(pl.col("process") == 0).collect()["site"]
    assert {function(site) for site in sites} == {"main"}


def test_chunks_of_the_library_are_no_objects(trace: Trace) -> None:
    plain = trace.objects().filter(pl.col("region").is_null()).collect()
    assert 8000 not in plain["size"].to_list()
    assert 100 in plain["size"].to_list()
    assert all(process["unknown_frees"] == 0 for process in trace.processes)


def test_a_child_knows_the_regions_of_its_parent_by_their_objects(trace: Trace) -> None:
    assert len(trace.processes) == 2
    objects = trace.objects().filter((pl.col("process") == 1) & (pl.col("region") > 0)).collect()
    assert sorted(objects["size"]) == [24, 64]
    assert objects["free_operation"].to_list() == ["region", "region"]
    regions = trace.regions().filter(pl.col("process") == 1).collect().sort("region")
    assert regions["created_nanoseconds"].null_count() == 1
    outer = regions.filter(pl.col("created_nanoseconds").is_null())["region"].item()
    assert regions.filter(pl.col("region") != outer)["parent"].to_list() == [outer]


def test_the_end_of_a_region_may_be_told_when_its_memory_is_anothers(tmp_path: Path) -> None:
    source = """
#include "regions.hpp"
int main() {
  const tare::regions::Recorder &recorder = tare::regions::FindRecorder();
  static char memory[64];
  const auto one = recorder.create(0, nullptr);
  recorder.allocate(one, memory, 24, 24, nullptr);
  recorder.allocate(one, memory + 24, 16, 16, nullptr);
  const auto other = recorder.create(0, nullptr);
  recorder.allocate(other, memory, 40, 40, nullptr);
  recorder.destroy(one, nullptr);
  recorder.destroy(other, nullptr);
}
"""
    compiled = compile_cpp(tmp_path, source, "-std=c++20", "-fno-builtin", f"-I{HEADERS}")
    outcome, found = record(tmp_path, compiled)
    assert outcome.status is Status.OK
    objects = found.objects().filter(pl.col("region").is_not_null()).collect().sort("id")
    ends = objects.select("region", "size", "free_operation").rows()
    assert ends == [(1, 24, "region"), (1, 16, "region"), (2, 40, "region")]
    moments = objects["free_nanoseconds"].to_list()
    assert moments[0] <= moments[1] <= moments[2]


def test_a_sample_of_regions_has_few_of_their_objects(tmp_path: Path) -> None:
    _, found = record(tmp_path, program(tmp_path), sample_bytes=400)
    objects = found.objects().filter((pl.col("process") == 0) & (pl.col("region") > 0)).collect()
    # Of about 64 KB one byte in 400, and few objects have two.
    assert 60 < objects.height < 260
    assert 8000 not in objects["size"].to_list()


def test_without_the_recorder_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert subprocess.run([program(tmp_path)], check=False).returncode == 3
