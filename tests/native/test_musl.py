"""Programs that are linked with musl are served and observed by what is built for musl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tare.base.errors import MissingError
from tare.base.native import built_for_musl, native_file
from tare.heap_traces.trace import open_trace
from tare.memory_managers import suitable
from tare.memory_managers.manager import default_managers, resolve
from tare.observers import instrument, tracing
from tare.observers.asked import Asked
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits

SOURCE = """
#include <pthread.h>
#include <stdlib.h>
__attribute__((noinline)) char* inner(size_t n) { char* p = malloc(n); p[0] = 1; return p; }
static void* work(void* unused) {
  for (int i = 0; i < 1000; ++i) free(inner(1003));
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  work(NULL);
  pthread_join(thread, NULL);
  return system("test -n \\"$LD_PRELOAD\\"");
}
"""
"""Its child is the system's shell, which is linked with glibc."""
LIMITS = Limits(timeout_seconds=60)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    compiler = shutil.which("musl-gcc")
    if compiler is None:
        pytest.skip("musl-tools is not installed")
    if built_for_musl(native_file("lib/libtare-probe.so")) is None:
        pytest.skip("Tare was built before musl-tools was installed")
    folder = tmp_path_factory.mktemp("musl")
    (folder / "p.c").write_text(SOURCE)
    # Without the last, which gcc for musl alone gives, no call stack can be followed.
    words = (compiler, "-O1", "-g", "-Wl,--eh-frame-hdr")
    subprocess.run([*words, "-o", folder / "p", folder / "p.c"], check=True)
    return Program("p", (str(folder / "p"),))


@pytest.mark.parametrize("name", [*default_managers("own"), "kingsley", "delay(own)"])
def test_it_is_served_and_a_child_of_glibc_goes_on(
    program: Program, tmp_path: Path, name: str
) -> None:
    manager = resolve(name)
    outcome = run_once(program, manager, LIMITS, tmp_path)
    assert outcome.status is Status.OK, outcome
    server = Path(outcome.server)
    if name == "own":
        assert "musl" in str(server)
    else:
        assert "musl" in server.parts
        assert manager.serves(str(server))


def test_its_objects_and_their_places_are_recorded(program: Program, tmp_path: Path) -> None:
    target = tmp_path / "t.tare"
    wanted = tracing.Wanted(target, Asked())
    outcome = tracing.run_once(program, resolve("own"), LIMITS, tmp_path, wanted=wanted)
    assert outcome.status is Status.OK, outcome
    trace = open_trace(target)
    table = trace.objects().filter(size=1003).collect()
    assert len(table) == 2000
    places = [trace.frames_of(0, site)[:2] for site in table["site"].unique()]
    assert {tuple(frame["function"] for frame in frames) for frames in places} == {
        ("inner", "work")
    }


def test_its_instructions_are_counted(program: Program, tmp_path: Path) -> None:
    outcome = instrument.run_once(program, resolve("own"), LIMITS, tmp_path)
    assert outcome.status is Status.OK, outcome
    assert outcome.values["malloc_calls"] >= 2000


@pytest.mark.parametrize("name", ["glibc", "marksweep(own)"])
def test_what_is_for_glibc_alone_is_refused_by_name(program: Program, name: str) -> None:
    with pytest.raises(MissingError, match=r"musl, and lib.* is for programs of glibc"):
        suitable.check([program], [resolve(name)])
