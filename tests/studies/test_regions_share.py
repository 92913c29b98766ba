"""The share of instructions that memory operations of regions take, of real programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tare.memory_managers.manager import resolve
from tare.observers import instrument
from tare.observers.event_files import as_text
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tare.studies.regions.observe import FUNCTIONS, PHASE, events, run_once, share_of
from tests.native.managers.test_regions import compiled, flags_of
from tests.support.valgrind import both_tools, collected, needs_valgrind, ours

__all__ = ["both_tools"]


PROGRAM = """
#include <apr_general.h>
#include <apr_pools.h>
#include <stdlib.h>
static volatile unsigned char sum;
int main(void) {
  apr_initialize();
  for (int round = 0; round < 30; ++round) {
    apr_pool_t* pool;
    apr_pool_create(&pool, NULL);
    for (int i = 0; i < 1000; ++i) {
      char* object = apr_palloc(pool, 1 + i % 300);
      char* other = malloc(1 + i % 100);
      object[0] = other[0] = (char)i;
      sum += object[0] + other[0];
      free(other);
      if (i == 500) apr_pool_clear(pool);
    }
    apr_pool_destroy(pool);
  }
  return 0;
}
"""
OUTERMOST = ("apr_palloc", "apr_pool_create_ex", "apr_pool_clear", "apr_pool_destroy")
"""callgrind's toggles do not nest. In the program above these are never inside each other."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    instrument.launcher()
    (tmp_path / "pools.c").write_text(PROGRAM)
    subprocess.run(
        ["cc", "-O1", "-o", tmp_path / "pools", tmp_path / "pools.c", *flags_of("apr-1")],
        check=True,
    )
    return tmp_path / "pools"


@needs_valgrind
def test_the_phase_is_callgrind_s_inclusive_cost(program: Path, both_tools: Path) -> None:
    places = both_tools / "events"
    places.write_text(as_text(events()))
    found = ours(both_tools, str(program), options=[f"--events={places}"], LD_BIND_NOW="1")
    toggles = [f"--toggle-collect={function}" for function in OUTERMOST]
    assert set(OUTERMOST) <= set(FUNCTIONS)
    inclusive = collected(both_tools, str(program), options=toggles, LD_BIND_NOW="1")
    assert found["phases"][PHASE]["instructions"] == inclusive
    assert found["phases"][PHASE]["times"] > 30 * 1000


def test_the_parts_of_a_program(program: Path, tmp_path: Path) -> None:
    started = Program("pools", (str(program),))
    outcome = run_once(started, resolve("glibc"), Limits(), tmp_path, None)
    assert outcome.status is Status.OK
    share = share_of(outcome)
    assert share is not None
    # 30,000 calls of apr_palloc, and as many of malloc and free, in some tens of instructions each.
    assert 30_000 * 10 < share.library < 30_000 * 100
    assert 30_000 * 20 < share.malloc < 30_000 * 300
    assert share.library + share.malloc < share.program
    assert share.of_program == (share.library + share.malloc) / share.program


@pytest.mark.parametrize(
    ("name", "package"), [("regions_talloc.c", "talloc"), ("regions_obstack.c", "")]
)
def test_other_kinds_are_seen_too(name: str, package: str, tmp_path: Path) -> None:
    instrument.launcher()
    flags = flags_of(package) if package else []
    started = Program("p", (str(compiled(tmp_path, name, *flags)),))
    share = share_of(run_once(started, resolve("glibc"), Limits(), tmp_path, None))
    assert share is not None
    assert share.library > 0.01 * share.program
    # Both have their memory from malloc, which is a part of their own functions.
    assert share.malloc < share.library
