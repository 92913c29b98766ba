"""Real programs under `marksweep(M, …)`, and the object that they load."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.native import native_file
from tare.memory_managers.layers import marksweep
from tare.memory_managers.manager import machine_libc, resolve
from tare.observers.runner import run_once
from tare.records.runs import Limits, Outcome
from tests.native.managers.layered import output_alone
from tests.native.managers.marksweep.sources import (
    MAIN_INNERS,
    PRINTED_ALONE,
    good,
    programs,
)
from tests.native.programs import built


@pytest.mark.parametrize("inner", MAIN_INNERS)
@pytest.mark.parametrize("free", ["ignore", "honour", "quarantine"])
def test_real_programs_print_the_same(tmp_path: Path, inner: str, free: str) -> None:
    for program in programs(tmp_path):
        alone = output_alone(program, tmp_path, PRINTED_ALONE)
        manager = resolve(f"marksweep({inner}, every=512KiB, free={free})")
        outcome = run_once(program, manager, Limits(), tmp_path)
        assert good(outcome)["collections"] >= 1, program.name
        assert outcome.output_sha256 == alone, program.name


@pytest.mark.parametrize("inner", MAIN_INNERS)
def test_nothing_that_is_used_again_was_found_dead(tmp_path: Path, inner: str) -> None:
    """The oracle: what would be reclaimed is only condemned, and each later free of it counts."""
    for program in programs(tmp_path):
        for free in ("ignore", "honour"):
            manager = resolve(f"marksweep({inner}, every=256KiB, free={free}, verify=yes)")
            details = good(run_once(program, manager, Limits(), tmp_path))
            assert details["false_reclaims"] == 0, program.name
            if free == "ignore":
                assert details["swept_objects"] > 0, program.name


def test_the_oracle_sees_what_it_should(run: Callable[..., Outcome]) -> None:
    source = r"""
    static size_t hidden;
    __attribute__((noinline)) static void hide(void) { hidden = ~(size_t)strdup("hidden"); }
    int main(void) {
      hide();
      scrub();
      tare_marksweep_collect();
      free((void*)~hidden);
      return 0;
    }"""
    outcome = run(source, "marksweep(glibc, every=never, verify=yes)")
    assert outcome.details["marksweep"]["false_reclaims"] == 1


def test_wrong_variables_are_told_of(tmp_path: Path) -> None:
    preload = f"{native_file(marksweep.OBJECT)} {machine_libc()}"
    for variable, value in [("EVERY", "x"), ("FREE", "no"), ("MARKERS", "17"), ("VERIFY", "1")]:
        done = subprocess.run(
            ["true"],
            env={"LD_PRELOAD": preload, f"TARE_MARKSWEEP_{variable}": value},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode < 0
        assert f"TARE_MARKSWEEP_{variable} is '{value}'" in done.stderr


def test_the_object_needs_no_c_plus_plus() -> None:
    done = subprocess.run(
        ["readelf", "-d", native_file(marksweep.OBJECT)], capture_output=True, text=True, check=True
    )
    assert re.findall(r"NEEDED.*\[(.*?)\]", done.stdout) in (
        ["libc.so.6"],
        ["libc.so.6", "ld-linux-x86-64.so.2"],
    )


@pytest.mark.parametrize("kind", ["memory", "thread"])
def test_tables_and_markers_against_a_model(kind: str) -> None:
    path = built(f"marksweep_harness_{kind}")
    rounds = os.environ.get("TARE_FUZZ_ROUNDS", "5")
    for seed in range(1, 5):
        done = subprocess.run([path, str(seed), rounds], capture_output=True, text=True)
        assert done.returncode == 0, (seed, done.stdout + done.stderr[:4000])
