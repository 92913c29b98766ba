"""A place in a program has one name, whoever observed it, and a path may hold any bytes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import tare as api
from tare.base.text import writable
from tare.heap_traces.trace import Trace
from tare.observers.asked import Asked
from tare.records.results import read_records
from tests.end_to_end.test_streams import NAMES

OBSERVERS = {"recorder": Asked(), "instrument": Asked(last_use=True)}

STACK = tuple[tuple[str, int], ...]

# Its library is known to the dynamic linker by the name of a link.
SOURCE = """
#include <iostream>
#include <sstream>
#include <string>
#include <vector>
int main() {
  std::ostringstream out;
  std::vector<std::string> all;
  for (int i = 0; i < 100; i++) out << std::string(i, 'x');
  for (int i = 0; i < 50; i++) all.push_back(out.str());
  std::cout << all.size() << std::endl;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "places.cpp").write_text(SOURCE)
    subprocess.run(["c++", "-O1", "-o", folder / "places", folder / "places.cpp"], check=True)
    return folder / "places"


def stacks(trace: Trace) -> set[STACK]:
    sites = trace.objects().select("process", "site").unique().collect().rows()
    return {
        tuple((frame["object"], frame["offset"]) for frame in frames)
        for frames in trace.stacks(sites)
    }


def test_every_observer_gives_a_site_the_same_name(program: Path, tmp_path: Path) -> None:
    of_recorder, of_instrument = (
        stacks(api.trace([str(program)], what=what, folder=tmp_path / name))
        for name, what in OBSERVERS.items()
    )
    assert len(of_recorder) > 3
    assert of_recorder == of_instrument
    assert any("libstdc++" in file for stack in of_recorder for file, _ in stack)

    results = api.memsys([str(program)], ["glibc"], folder=tmp_path / "memsys")
    (record,) = read_records(results.folder)
    sites = record.outcome.details["models"][0]["sites"]
    allocated = {(s["object"], s["offset"]) for s in sites if s["operation"] == "malloc"}
    assert allocated
    assert allocated & {stack[0] for stack in of_recorder}
    where_called = {place for stack in of_recorder for place in stack}
    theirs = {place for place in allocated if "ld-linux" not in place[0]}
    assert theirs <= where_called


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_read_back_as_it_is(
    program: Path, tmp_path: Path, name: bytes, observer: str
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    folder.mkdir(parents=True)
    there = folder / "places"
    there.write_bytes(program.read_bytes())
    there.chmod(0o755)
    trace = api.trace([str(there)], what=OBSERVERS[observer], folder=tmp_path / "t.tare")
    assert trace.processes[0]["program"] == str(there)
    assert writable(str(there)) in {file for stack in stacks(trace) for file, _ in stack}
