"""Shares of a simulated memory system: bounds that are known beforehand."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tare.observers.memory_model import host_model, load_model
from tare.programs.program import Program
from tare.records.components import (
    COMPONENTS,
    IN_COLLECTIONS,
    OTHER,
)
from tare.studies.breakdown import memory
from tare.studies.breakdown import memory_tables as report
from tare.studies.breakdown import weigh as storage
from tare.studies.breakdown.descriptor import shipped
from tare.studies.breakdown.details import Model, ReadMisses, Spent
from tare.studies.breakdown.published import published
from tare.studykit.budget import Effort, Setting, observers
from tare.weighing.bill import storage_runtime

DECSTATION = load_model(memory.DEFAULT_MODEL)
HERTZ = 25e6
"""Of a DECstation 5000/200, whose processor is an R3000 of 25 MHz."""

# ---- the paper's computations ----


def a_model(**parts: tuple[int, dict[str, int], dict[str, int]]) -> Model:
    """Components with their instructions, stalls, and stalls with larger caches of data."""
    nothing: tuple[int, dict[str, int], dict[str, int]] = (0, {}, {})
    of = {name: parts.get(name, nothing) for name in COMPONENTS}
    return Model(
        name="tried",
        components={
            name: Spent(instructions, instructions, stalls)
            for name, (instructions, stalls, _) in of.items()
        },
        doubled_stalls={name: doubled for name, (_, _, doubled) in of.items()},
        reads=0,
        writes=0,
        allocated_words=0,
        collections=0,
        before=ReadMisses(0, 0),
        after=ReadMisses(0, 0),
        objects_in_a_read=2,
    )


def test_shares_and_bounds_of_a_program_that_is_known() -> None:
    level = {"fetches, level 1": 40, "reads, level 1": 60, "write buffer": 20}
    model = a_model(
        other=(600, level, {**level, "reads, level 1": 30}),
        allocation=(100, {"write buffer": 30}, {"write buffer": 30}),
        copy=(100, {"reads, level 1": 50}, {"reads, level 1": 10}),
    )
    assert report.cycles(model) == 1000
    shares = report.shares_of_time(model)
    # Of the program what it waits for is nobody's, of collections it is theirs.
    assert shares["allocation"] == pytest.approx(0.100)
    assert shares["copy"] == pytest.approx(0.150)
    assert sum(shares.values()) == pytest.approx(0.250)
    assert OTHER not in shares
    assert report.spatial_bound(model) == pytest.approx(60 / 2 / 1000)
    assert report.cache_size_bound(model) == pytest.approx(30 / 1000)
    assert report.instruction_cache_estimate(model) == pytest.approx(40 / 1000 * 100 / 700)


@pytest.mark.parametrize("program", list(report.published_memory()))
def test_the_bound_of_spatial_locality_is_the_paper_s(program: str) -> None:
    """Tables 5, 6 and 9 give table 10, within their rounding. The time is at most that of the clock
    in table 5, which has floating-point arithmetic in it, and at least a cycle an instruction."""
    row = report.published_memory()[program]
    reads = row["instruction_fetches"] * row["reads_percent"] / 100
    clock = int((row["mutator_seconds"] + row["gc_seconds"]) * HERTZ)
    rates = row["dcache_miss_before_gc"], row["dcache_miss_after_gc"]

    def bound(rate: float, busy: int) -> float:
        stalls = {"reads, level 1": int(reads * rate * 15)}
        return 100 * report.spatial_bound(a_model(other=(busy, stalls, stalls)))

    least, most = min(rates) - 0.005, max(rates) + 0.005
    published_bound = row["spatial_locality_upper_bound_percent"]
    assert bound(least, clock - int(reads * least * 15)) <= published_bound + 0.05
    assert published_bound - 0.05 <= bound(most, int(row["instruction_fetches"]))


def test_what_was_published_is_of_the_same_programs() -> None:
    rows = report.published_memory()
    assert list(rows) == list(published())
    for program, row in rows.items():
        seconds = row["mutator_seconds"] + row["gc_seconds"]
        shares = published()[program]
        collecting = sum(shares.get(name, 0.0) for name in IN_COLLECTIONS)
        # Each share is rounded to a hundredth; the seconds are those of a clock.
        assert row["gc_seconds"] / seconds == pytest.approx(collecting, abs=0.015)


def test_doubling_leaves_caches_of_instructions_alone() -> None:
    large = memory.doubled(DECSTATION)
    assert large.cache(1, "instructions") == DECSTATION.cache(1, "instructions")
    assert large.cache(1, "data").size == 2 * DECSTATION.cache(1, "data").size
    assert large.write_buffer == DECSTATION.write_buffer
    deep = load_model("three-level-tlb")
    assert [c.size for c in memory.doubled(deep).caches] == [
        c.size if c.holds == "instructions" else 2 * c.size for c in deep.caches
    ]


def test_phases_that_collect_are_told_to_the_simulator() -> None:
    lines = memory.simulator_text((DECSTATION,), list(shipped().values())).splitlines()
    assert "by-instruction" in lines
    assert "collecting ocaml-4:minor" in lines
    assert "collector ocaml-4:entry" in lines
    assert "collecting ocaml-4:entry" not in lines
    assert "collector ocaml-4:barrier" not in lines
    without = memory.simulator_text((DECSTATION,), [shipped()["malloc"]]).splitlines()
    assert "collecting -" in without  # else each phase would be a collection


# ---- charging ----


def test_what_happens_at_instructions_goes_to_their_components(tmp_path: Path) -> None:
    of_a_phase, of_the_program = [5] * 13, [7] * 13
    contexts = [
        {"operation": "program", "phase": [], "instructions": 10, "reads": 3, "writes": 2,
         "models": [of_the_program, of_the_program], "calls": 0},
        {"operation": "program", "phase": ["ocaml-4:scan", "ocaml-4:minor"], "instructions": 10,
         "reads": 4, "writes": 2, "models": [of_a_phase, of_a_phase], "calls": 0},
        {"operation": "proof", "phase": [], "instructions": 10, "reads": 3, "writes": 2,
         "models": [[100] * 13, [100] * 13], "calls": 0},
    ]  # fmt: skip
    nothing = {"instructions": 0, "reads": 0, "writes": 0, "models": [[0] * 13, [0] * 13]}
    described = {
        "format": "tare-memsys", "version": 1, "contexts": contexts, "collections": 1,
        "models": [DECSTATION.name, memory.doubled(DECSTATION).name],
        "before_collections": nothing, "after_collections": nothing,
    }  # fmt: skip
    (tmp_path / "1.0.json").write_text(json.dumps(described))
    write_table(tmp_path / "1.0.stalls", [
        (0, 0, 0x1000, 4, 3, 2),  # reads of the model
        (0, 1, 0x1000, 4, 3, 1),  # and of the doubled one
        (0, 0, 0x1004, 3, 3, 4),  # the program's own
        (1, 0, 0x1000, 4, 3, 5),  # in a collection: charged already
    ])  # fmt: skip
    found = memory.Memory(tmp_path, (DECSTATION,))
    ocaml = shipped()["ocaml-4"]

    def component_of(context: Any) -> str | None:
        names = [name.removeprefix("ocaml-4:") for name in context["phases"]]
        return ocaml.component_of_phases(names) or ocaml.operations.get(context["operation"])

    found.add_process("1.0.json", memory.Judged(ocaml, component_of, {0x1000: "record_tag"}))
    (model,) = found.details(dict.fromkeys(COMPONENTS, 0), 800)
    reads = {
        name: one["stalls"]["reads, level 1"] / 15 for name, one in model["components"].items()
    }
    assert {name: n for name, n in reads.items() if n} == {OTHER: 5, "record_tag": 2, "copy": 5}
    larger = {name: n["reads, level 1"] / 15 for name, n in model["doubled_stalls"].items()}
    assert {name: n for name, n in larger.items() if n} == {OTHER: 6, "record_tag": 1, "copy": 5}
    assert (model["reads"], model["writes"], model["allocated_words"]) == (7, 4, 100)


def write_table(path: Path, rows: list[tuple[int, ...]]) -> None:
    """As the instrument writes it: one block, of columns of eight bytes."""
    columns = np.array(rows, np.uint64).T
    payload = b"".join(np.array([0, 8], np.uint64).tobytes() for _ in columns) + b"".join(
        column.tobytes() for column in columns
    )
    total = int(np.frombuffer(payload, np.uint64).sum(dtype=np.uint64))
    header = np.array(
        [0x324B4C42, len(rows), len(payload), (total ^ total >> 32) & 0xFFFFFFFF], np.uint32
    )
    names = " ".join(("context", "model", "address", "length", "event", "count"))
    path.write_bytes(f"tare-table 1 stalls {names}\n".encode() + header.tobytes() + payload)


def test_this_machine_s_caches_can_be_doubled() -> None:
    model = host_model()
    assert memory.doubled(model).cache(1, "data").sets == 2 * model.cache(1, "data").sets


# ---- its section of a bill ----


def test_a_bill_has_the_section_where_the_runtime_is_known() -> None:
    plain = Setting("p", ("glibc",), "glibc", Effort.DEFAULT, 0.2, 50.0, seed=1)
    assert storage.next_runs(plain, []) == []
    known = replace(plain, storage_runtime="ocaml-4")
    (run,) = storage.next_runs(known, [])
    assert (run.study, run.observer, run.manager) == ("breakdown", "breakdown", "glibc")
    assert run.observer in observers(storage, known)
    assert storage.next_runs(replace(known, pilot_seconds=60.0), []) == []
    assert storage.expected_runs(replace(known, pilot_seconds=60.0, effort=Effort.THOROUGH)) == 1


@pytest.mark.parametrize("name", ["ocamllex.opt", "true"])
def test_the_runtime_of_a_bill_s_program(name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    expected = f"ocaml-{ocaml_version()}" if name == "ocamllex.opt" else ""
    assert storage_runtime(Program(name, (name,))) == expected


def ocaml_version() -> str:
    """Its first number, as the headers of its runtime have it."""
    places = (*Path("/usr/lib/ocaml").glob("caml"), *Path("/usr/lib").glob("*/ocaml/*/caml"))
    match = re.search(r"OCAML_VERSION_MAJOR (\d)", (places[0] / "version.h").read_text())
    assert match is not None
    return match[1]
