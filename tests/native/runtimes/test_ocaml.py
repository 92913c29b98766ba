"""OCaml programs under OCaml's collector: real runs, and what they must not be taken for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import UsageError
from tare.memory_managers.manager import resolve
from tare.memory_managers.runtimes import ocaml
from tare.programs.program import Program
from tare.records.metrics import Status
from tests.conftest import Completed
from tests.native.runtimes.runtime_programs import (
    DIGEST_OF_SMALL,
    OCAML,
    SMALL,
    WORKLOADS,
    needs_ocaml,
    run_once,
)

CHURN = """
let () =
  let number place = int_of_string Sys.argv.(place) in
  let word = if Array.length Sys.argv > 3 then Sys.argv.(3) else "" in
  if word = "minor" then Gc.set { (Gc.get ()) with Gc.minor_heap_size = number 4 };
  let kept = Array.make (number 2 * 8) [||] in
  for i = 0 to (number 1 * 8) - 1 do
    for j = 0 to 15 do
      kept.(i * 7919 mod Array.length kept) <- Array.make 1023 (i + j)
    done
  done;
  if word = "tell" then begin
    let seen = Gc.quick_stat () in
    let file = open_out Sys.argv.(4) in
    Printf.fprintf file "%d %.0f" seen.Gc.minor_collections
      (seen.Gc.minor_words +. seen.Gc.major_words -. seen.Gc.promoted_words);
    close_out file
  end;
  if word = "exit" then (prerr_endline "said by the program"; exit (number 4));
  print_int (Array.length kept)
"""


def build(folder: Path, name: str, *sources: Path) -> Path:
    assert OCAML is not None
    for source in sources:
        (folder / source.name).write_bytes(source.read_bytes())
    command = [OCAML, "-O3", "-o", name, *(source.name for source in sources)]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return folder / name


@pytest.fixture(scope="session")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Allocates so many times 1 MiB in the major heap, and keeps so many times 64 KiB."""
    folder = tmp_path_factory.mktemp("ocaml")
    (folder / "churn.ml").write_text(CHURN)
    return build(folder, "churn", folder / "churn.ml")


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    sources = WORKLOADS / "ocaml"
    return build(folder, "records", sources / "clock.c", sources / "records.ml")


@needs_ocaml
def test_what_is_told_is_what_ocaml_counts(churn: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    outcome = run_once(tmp_path, "ocaml.gc", churn, "40", "8", "tell", told)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    minor, words = map(int, told.read_text().split())
    values = outcome.values
    assert values["collections"] >= minor
    assert values["heap_allocated_bytes"] == pytest.approx(words * 8, rel=0.01)
    assert values["heap_bytes"] > 0
    # OCaml tells of no pause, so there is nothing to take off.
    assert not {"collector_seconds", "mutator_seconds", "pauses"} & values.keys()


@needs_ocaml
def test_the_minor_heap_is_the_period_of_minor_collections(records: Path, tmp_path: Path) -> None:
    outcome = run_once(tmp_path, "ocaml.gc(minor=256KiB)", records, *SMALL)
    assert (outcome.status, outcome.reason) == (Status.OK, "")
    (process,) = outcome.details["ocaml"]["processes"]
    period = process["minor_words"] * 8 / process["minor_collections"]
    # Collections of the major heap begin with one of the minor heap, too.
    assert 0.8 * (256 << 10) <= period <= 1.05 * (256 << 10)


@needs_ocaml
def test_more_space_is_fewer_collections(records: Path, tmp_path: Path) -> None:
    def major(manager: str) -> int:
        outcome = run_once(tmp_path, manager, records, "2", "10000", "50000")
        assert (outcome.status, outcome.reason) == (Status.OK, "")
        (process,) = outcome.details["ocaml"]["processes"]
        return int(process["major_collections"])

    # A slice of the major heap has an upper limit, so minor collections have to be many.
    often = major("ocaml.gc(minor=32KiB, space=20)")
    assert often > 1.5 * major("ocaml.gc(minor=32KiB, space=400)")


@needs_ocaml
def test_a_program_with_settings_of_its_own_does_not_count(records: Path, tmp_path: Path) -> None:
    source = tmp_path / "own.ml"
    source.write_text(
        "let () = Gc.set { (Gc.get ()) with Gc.minor_heap_size = 1 lsl 20 };\n"
        "for i = 1 to 3_000_000 do ignore (Sys.opaque_identity (ref i)) done"
    )
    program = build(tmp_path, "own", source)
    outcome = run_once(tmp_path, "ocaml.gc(minor=64KiB)", program)
    assert outcome.status is Status.NOT_LOADED
    assert "the program sets its own" in outcome.reason
    assert run_once(tmp_path, "ocaml.gc", program).status is Status.OK


@needs_ocaml
def test_memory_and_a_failure_are_told_apart(churn: Path, tmp_path: Path) -> None:
    limited = ("sh", "-c", 'ulimit -v 40000; exec "$@"', "sh", churn, "600", "9000")
    full = run_once(tmp_path, "ocaml.gc", *limited)
    assert full.status is Status.OUT_OF_MEMORY, full.error_tail
    failed = run_once(tmp_path, "ocaml.gc", churn, "2", "1", "exit", "2")
    assert failed.status is Status.FAILED
    assert failed.error_tail == "said by the program"
    assert run_once(tmp_path, "ocaml.gc", "true").status is Status.NOT_LOADED


@needs_ocaml
def test_the_work_is_that_of_the_other_languages(records: Path, tmp_path: Path) -> None:
    run_once(tmp_path, "ocaml.gc", records, *SMALL)
    assert (tmp_path / "output").read_text() == f"{DIGEST_OF_SMALL}\n"


@needs_ocaml
def test_the_overhead_of_a_sweep(
    tare: Callable[..., Completed], records: Path, tmp_path: Path
) -> None:
    done = tare(
        *("lbo", "-n", 2, "--warmup", 0, "--json", "out.json", "--no-page"),
        *("--", records, "8", "2000", "20000"),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out.json").read_text())["summary"]
    ratios = {row["manager"]: row["median"] for row in summary if row["metric"] == "lbo_cpu_ratio"}
    assert set(ratios) == set(ocaml.SWEEP)
    assert min(ratios.values()) == 1  # nothing was taken off the cheapest


def test_statistics_of_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    path.write_text(
        "of the program\nallocated_words: 90\nminor_words: 100\nminor_collections: 2\n"
        "minor_words: 7\nminor_words: x\nheap_words: 3\n" + "9" * 10_000
    )
    assert ocaml.read_statistics(path) == [
        {"minor_words": 100, "minor_collections": 2},
        {"minor_words": 7, "heap_words": 3},
    ]
    assert not ocaml.read_statistics(tmp_path / "absent")


def test_variables_are_kept_and_clashes_refused(tmp_path: Path) -> None:
    setting = resolve("ocaml.gc(minor=64KiB, space=200)").runtime
    assert setting is not None
    kept = Program("test", ("x",), environment={"OCAMLRUNPARAM": "b,l=1M"})
    ocaml.check(setting, kept)
    changed = ocaml.under(setting, kept, tmp_path).environment["OCAMLRUNPARAM"]
    assert changed == "b,l=1M,s=8192,o=200,v=0x400"
    for taken in ("s=32k", "o=80", "v=0"):
        program = Program("test", ("x",), environment={"OCAMLRUNPARAM": f"b,{taken}"})
        with pytest.raises(UsageError, match="clashes"):
            ocaml.check(setting, program)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["minheap", "-m", "ocaml.gc", "--", "true"], "no limit for its heap"),
        (["frequency", "-m", "ocaml.gc", "--", "true"], "period"),
        (["proximity", "-m", "ocaml.gc", "--", "true"], "when exactly"),
        (["compare", "-m", "ocaml.gc(minor=9B)", "--", "true"], "whole words"),
        (["compare", "-m", "ocaml.gc(heap=9MiB)", "--", "true"], "has no option"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tare: Callable[..., Completed], arguments: list[str], said: str
) -> None:
    done = tare(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
