"""The memory system of a breakdown: the paper's computations, on the paper's own numbers; what is
charged to which component; and the command."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.records.components import (
    COMPONENTS,
    OTHER,
    cycles_metric,
    metric,
)
from tare.studies.breakdown import memory
from tare.studies.breakdown.image import Image
from tare.studies.breakdown.runtime_of import find_descriptor
from tests.studies.breakdown.test_ocaml import CompileOcaml, compile_ocaml, needs_ocaml

__all__ = ["compile_ocaml"]


Tare = Callable[..., subprocess.CompletedProcess[str]]

# ---- the command ----


def values(document: dict[str, Any]) -> dict[str, float]:
    return {m["metric"]: m["value"] for m in document["measurements"]}


COLLECTING = """
let rec build n list = if n = 0 then list else build (n - 1) (n :: list)
let () =
  let kept = ref [] in
  for round = 1 to int_of_string Sys.argv.(1) do
    kept := build 30000 [];
    ignore (Sys.opaque_identity round)
  done;
  ignore (Sys.opaque_identity !kept)
"""
ROUNDS = "25"


@needs_ocaml
def test_components_sum_to_the_simulated_time_and_repeat(
    tare: Tare, tmp_path: Path, compile_ocaml: CompileOcaml
) -> None:
    program = compile_ocaml(COLLECTING)
    found: list[dict[str, float]] = []
    collections: list[int] = []
    for _ in range(2):
        folder = tmp_path / f"results-{len(found)}"
        done = tare("breakdown", "--memory", "--quiet", "--json", "-", "-o", folder, "--",
                    program, ROUNDS)  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.append(values(json.loads(done.stdout)))
        line, _without_valgrind = (folder / "runs.jsonl").read_text().splitlines()
        record = json.loads(line)
        (model,) = record.get("outcome", record)["details"]["memory"]
        collections.append(model["collections"])
    one, again = found
    cycles = {name: one[cycles_metric(name)] for name in COMPONENTS}
    assert sum(cycles.values()) == one["simulated_cycles"]
    assert sum(cycles[name] - one[metric(name)] for name in COMPONENTS) == one["stall_cycles"]
    assert min(cycles[name] - one[metric(name)] for name in COMPONENTS) >= 0
    # Of what is allocated in line the header words are stored first: they wait for the buffer.
    assert one[cycles_metric("record_tag")] > one[metric("record_tag")]
    assert one[cycles_metric("copy")] > one[metric("copy")] > 0
    for values_of in (one, again):
        del values_of["minor_faults"], values_of["major_faults"]
    # What the probe writes of a process has not always the same number of digits.
    outside = ("instructions", "unexplained_instructions", metric(OTHER), cycles_metric(OTHER),
               "simulated_cycles", "stall_cycles")  # fmt: skip
    for name in outside:
        assert again.pop(name) == pytest.approx(one.pop(name), rel=1e-3)
    assert again == one
    young, slices = collections_said(program)
    assert collections[0] == collections[1]
    assert 5 < young <= collections[0] <= young + slices + 2


def collections_said(program: Path) -> tuple[int, int]:
    """What the runtime says itself of young collections, and of major ones. A slice is a collection
    of its own unless it follows another at once; the heap's making, in two phases, may be one as
    well."""

    def said(verbose: str) -> str:
        return subprocess.run([program, ROUNDS], capture_output=True, text=True, check=True,
                              env={"OCAMLRUNPARAM": f"v={verbose}"}).stderr  # fmt: skip

    if find_descriptor(Image(program)).name == "ocaml-4":
        # < at each young collection, ! or $ at slices of major ones.
        signs = said("0x02")
        return signs.count("<"), signs.count("!") + signs.count("$")
    # OCaml 5 tells no slices, but major collections of at least one.
    totals = dict(line.split(": ") for line in said("0x400").splitlines())
    return int(totals["minor_collections"]), int(totals["major_collections"])


def test_what_is_shown_of_the_memory_system(tare: Tare, tmp_path: Path) -> None:
    if shutil.which("ocamllex.opt") is None:
        pytest.skip("Debian's package ocaml-nox is missing")
    (tmp_path / "words.mll").write_text("rule word = parse ['a'-'z']+ { 1 } | eof { 0 }\n")
    done = tare("breakdown", "--model", "two-level", "--model", memory.DEFAULT_MODEL, "-o",
                "results", "--", "ocamllex.opt", "-q", "-o", "words.ml", "words.mll")  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "In two-level, storage management is" in text
    assert f"Shares of simulated time in {memory.DEFAULT_MODEL}" in text
    page = (tmp_path / "results" / "report.html").read_text()
    assert "Misses around collections, and bounds of the cost of memory" in page
    run = json.loads((tmp_path / "results" / "run.json").read_text())
    assert [model["name"] for model in run["request"]["models"]] == [
        "two-level",
        memory.DEFAULT_MODEL,
    ]


def test_a_model_that_is_not_there(tare: Tare) -> None:
    done = tare("breakdown", "--model", "vax", "--", "true")
    assert done.returncode == 2
    assert "no memory model 'vax'" in done.stderr
