"""The breakdown of OCaml programs: against the compiler's frame tables, the runtime's own count of
what was allocated, a program of which each instruction is known, and the command as a whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tare.programs.suite import load_suite
from tare.records.components import COMPONENTS, OTHER, metric
from tare.studies.breakdown import frame_tables, published
from tare.studies.breakdown import report as study
from tare.studies.breakdown.classifier import Classification, Classifier
from tare.studies.breakdown.code import Instruction, decode, decode_all
from tare.studies.breakdown.descriptor import Descriptor
from tare.studies.breakdown.image import Image
from tare.studies.breakdown.runtime_of import find_descriptor
from tests.support import ROOT
from tests.support.executions import Executed, run_tool

Completed = subprocess.CompletedProcess[str]
Tare = Callable[..., Completed]
CompileOcaml = Callable[..., Path]

COMPILER = shutil.which("ocamlopt.opt")
needs_ocaml = pytest.mark.skipif(COMPILER is None, reason="Debian's package ocaml-nox is missing")


def image_of(name: str) -> tuple[Image, Descriptor]:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    image = Image(Path(path).resolve())
    descriptor = find_descriptor(image)
    assert descriptor.name in ("ocaml-4", "ocaml-5")
    return image, descriptor


def whole_code(image: Image, descriptor: Descriptor) -> list[Instruction]:
    """All instructions of the language in a file, executed or not."""
    return [
        one
        for start, end in descriptor.code_ranges(image)
        for one in decode_all(start, image.bytes_at(start, end - start))
    ]


# ---- allocation, by three witnesses ----


def check_sites(name: str, fewest: int) -> None:
    """What is subtracted from the allocation pointer, what the headers add up to, and what the
    compiler's frame tables say, object by object, are the same at each place that allocates."""
    image, descriptor = image_of(name)
    sites = Classifier(descriptor, image.names).classify(whole_code(image, descriptor)).sites
    frames = frame_tables.read_frame_tables(image)
    assert len(sites) >= fewest
    assert [site for site in sites if not frame_tables.agrees(image, frames, site)] == []
    # And the tables know of no allocation that was not found.
    told = sum(1 for lengths in frames.values() if lengths)
    assert told == len(sites)


@pytest.mark.parametrize(("name", "fewest"), [("ocamllex.opt", 1000), ("menhir", 4000)])
def test_places_that_allocate_are_those_of_the_frame_tables(name: str, fewest: int) -> None:
    check_sites(name, fewest)


@needs_ocaml
def test_functions_of_a_stripped_program(compile_ocaml: CompileOcaml) -> None:
    program = compile_ocaml("let () = ()")
    whole = Image(program)
    descriptor = find_descriptor(whole)
    subprocess.run(["strip", program], check=True)
    stripped = Image(program)
    assert find_descriptor(stripped) == descriptor
    places = {name: whole.symbols[name] for name in descriptor.named & set(whole.symbols)}
    assert {name: stripped.symbols.get(name) for name in places} == places


@pytest.mark.soak
@pytest.mark.parametrize(("name", "fewest"), [("unison", 3000), ("ocamlopt.opt", 10000)])
def test_places_that_allocate_of_larger_programs(name: str, fewest: int) -> None:
    check_sites(name, fewest)


# ---- a program that is known ----


@pytest.fixture
def compile_ocaml(tmp_path: Path) -> CompileOcaml:
    def compile_source(source: str, *flags: str, name: str = "program") -> Path:
        assert COMPILER is not None
        (tmp_path / f"{name}.ml").write_text(source)
        subprocess.run(
            [COMPILER, *flags, f"{name}.ml", "-o", name], cwd=tmp_path, check=True,
            env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        return tmp_path / name

    return compile_source


LISTS = """
let rec build n list = if n = 0 then list else build (n - 1) (n :: list)
let rec pairs n list = if n = 0 then list else pairs (n - 1) ((n, [| n |]) :: list)
let cell = ref []
let rec store n list = if n > 0 then begin cell := list; store (n - 1) list end
let rec closures n f = if n = 0 then f else closures (n - 1) (fun x -> f (x + n))
let rec waits n = if n > 0 then waits (n - 1)
let () =
  let n = int_of_string Sys.argv.(1) in
  let before = Gc.minor_words () in
  let list = build n [] and more = pairs n [] in
  ignore (Sys.opaque_identity [closures n (fun x -> x)]);
  let after = Gc.minor_words () in
  store n list;
  waits n;
  ignore (Sys.opaque_identity more);
  Printf.printf "%.0f\\n" (after -. before)
"""


def executed_components(process: Executed, program: Path) -> tuple[Counter[str], int]:
    """Of the code of one module, executions by component; and the words that its code took."""
    image = Image(program)
    descriptor = find_descriptor(image)
    start, end = (
        next(image.symbols[name] for between in ("__", ".")
             if (name := f"camlProgram{between}code_{side}") in image.symbols)
        for side in ("begin", "end")
    )  # fmt: skip
    rows = {
        (address, content): times
        for (file, address, content), times in process.by_instruction.items()
        if file == str(program) and start <= address < end
    }
    code = [decode(address, content) for address, content in rows]
    found: Classification = Classifier(descriptor, image.names).classify(code)
    by_address = {address: times for (address, _), times in rows.items()}
    components: Counter[str] = Counter()
    for (address, _), mark in found.marks.items():
        components[f"{mark.component} {mark.certainty}"] += by_address[address]
    words = sum(by_address[site.address] * site.bytes // 8 for site in found.sites)
    return components, words


@needs_ocaml
def test_components_of_a_known_program(tmp_path: Path, compile_ocaml: CompileOcaml) -> None:
    program = compile_ocaml(LISTS)
    runtime = find_descriptor(Image(program)).name
    found = []
    for n in (1000, 1700):
        (process,) = run_tool(tmp_path, program, str(n), OCAMLRUNPARAM="s=1M")
        output = subprocess.run([program, str(n)], capture_output=True, text=True, check=True,
                              env={"OCAMLRUNPARAM": "s=1M"}).stdout  # fmt: skip
        components, words = executed_components(process, program)
        found.append((components, words, int(output)))
    (one, words, said), (other, more_words, more_said) = found
    more = 700
    # The runtime itself counts the words that were allocated.
    assert more_words - words == more_said - said
    grown = {key: (other[key] - one[key]) / more for key in other if other[key] != one[key]}
    assert grown == {
        # A list cell; a cell, a pair and an array at once; a closure: each is a subtraction, and an
        # instruction for the pointer to each object, but two for that to the array.
        "allocation sure": 2 + 5 + 2,
        "gc_check sure": 3 * 2,
        "record_tag sure": 1 + 3 + 1,
        "closure_info sure": 2,
        "poll sure": 2 * 2,
        # := is a call of caml_modify with two arguments; OCaml 5 goes to the stack of C and back.
        "write_barrier sure": 3 if runtime == "ocaml-4" else 3 + 3,
    }


FINALISERS = """
let rec work n = if n > 0 then work (n - 1)
let rec make n =
  if n > 0 then begin
    let cell = ref n in
    Gc.finalise (fun _ -> work 100000) cell;
    make (n - 1)
  end
let () = make 20; Gc.full_major ()
"""


@needs_ocaml
def test_finalisers_are_the_program(
    tare: Tare, tmp_path: Path, compile_ocaml: CompileOcaml
) -> None:
    program = compile_ocaml(FINALISERS)
    done = tare("breakdown", "--quiet", "--no-page", "--json", "-", "--", program)
    assert done.returncode == 0, done.stderr
    found = values(json.loads(done.stdout))
    rounds = 20 * 100_000
    assert found["poll_instructions"] >= 2 * rounds
    assert found["other_instructions"] >= 2 * rounds
    assert found["gc_entry_instructions"] < rounds / 20


# ---- the command ----

GRAMMAR = """
%token EOF ID NUM LEFT RIGHT PLUS TIMES LET EQUALS
%start <unit> main
%%
main: definitions EOF {()}
definitions: {()} | definitions LET ID EQUALS sum {()}
sum: product {()} | sum PLUS product {()}
product: atom {()} | product TIMES atom {()}
atom: ID {()} | NUM {()} | LEFT sum RIGHT {()}
"""


@pytest.fixture
def breakdown(tare: Tare, tmp_path: Path) -> Callable[[], dict[str, Any]]:
    def run() -> dict[str, Any]:
        if shutil.which("menhir") is None:
            pytest.skip("Debian's package menhir is missing")
        (tmp_path / "grammar.mly").write_text(GRAMMAR)
        done = tare("breakdown", "--ignore-output", "--quiet", "--no-page", "--json", "-", "--",
                    "menhir", "--table", "--base", "parser", "grammar.mly")  # fmt: skip
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    return run


def values(document: dict[str, Any]) -> dict[str, int]:
    return {m["metric"]: m["value"] for m in document["measurements"]}


def test_components_sum_to_all_instructions_and_repeat(
    breakdown: Callable[[], dict[str, Any]],
) -> None:
    found = values(breakdown())
    assert sum(found[metric(name)] for name in COMPONENTS) == found["instructions"]
    assert found["unexplained_instructions"] < found[metric(OTHER)]
    assert found["integer_tag_instructions"] < found["integer_tag_high_instructions"]
    for name in ("allocation", "gc_check", "record_tag", "integer_tag", "write_barrier", "poll"):
        assert found[metric(name)] > found["instructions"] / 1000
    assert found[metric("position_independent")] == 0
    menhir = Image(Path(shutil.which("menhir") or "").resolve())
    assert (found[metric("stack_check")] > 0) is (find_descriptor(menhir).name == "ocaml-5")
    again = values(breakdown())
    for values_of in (found, again):
        del values_of["minor_faults"], values_of["major_faults"]
    # What the probe writes of a process has not always the same number of digits.
    outside = ("instructions", "unexplained_instructions", metric(OTHER))
    for name in outside:
        assert again.pop(name) == pytest.approx(found.pop(name), rel=1e-3)
    assert again == found


def test_what_is_shown(tare: Tare, tmp_path: Path) -> None:
    _, descriptor = image_of("ocamllex.opt")
    (tmp_path / "words.mll").write_text("rule word = parse ['a'-'z']+ { 1 } | eof { 0 }\n")
    done = tare("breakdown", "-o", "results", "--", "ocamllex.opt", "-q", "-o", "words.ml",
                "words.mll")  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert f"Runtime: {descriptor.title}." in text
    assert "Lexgen (1994)" in text
    page = (tmp_path / "results" / "report.html").read_text()
    assert "position-independent code" in page
    details = record_of(tmp_path / "results")["details"]
    sites = details["sites"]
    assert sites["all"] == sites["tiled"] == sites["checked"] == sites["agreeing"] > 100


def record_of(folder: Path) -> dict[str, Any]:
    records = map(json.loads, (folder / "runs.jsonl").read_text().splitlines())
    (record,) = (each for each in records if each["observer"] == study.OBSERVER)
    return dict(record)


def test_a_program_with_malloc_alone(tare: Tare, compile_c: Callable[..., Path]) -> None:
    program = compile_c(
        """
        #include <stdlib.h>
        int main(void) {
          for (int i = 0; i < 1000; ++i) free(realloc(malloc(100), 200));
          return 0;
        }
        """,
        "-fno-builtin",
    )
    found = {}
    for command in ("breakdown", "count"):
        done = tare(command, "-m", "glibc", "--quiet", "--no-page", "--json", "-", "--", program)
        assert done.returncode == 0, done.stderr
        found[command] = values(json.loads(done.stdout))
    parts, whole = found["breakdown"], found["count"]
    # Two runs: what the probe writes of a process has not always the same number of digits.
    assert parts["instructions"] == pytest.approx(whole["instructions"], rel=1e-3)
    for component, family in (("allocation", "malloc"), ("deallocation", "free")):
        quick, slow = (parts[f"{component}{kind}_instructions"] for kind in ("", "_slow"))
        assert quick + slow == whole[f"{family}_instructions"]
    resizing = parts["resizing_instructions"] + parts["resize_copy_instructions"]
    assert resizing == whole["realloc_instructions"] > 0
    assert parts["unexplained_instructions"] == 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--runtime", "smalltalk", "--", "true"), 2, "no descriptor of a runtime 'smalltalk'"),
        (("--", "./not-there"), 2, "not-there"),
        (("--", "false"), 1, "exit status 1"),
    ],
)
def test_what_cannot_be_measured(options: Sequence[str], code: int, words: str, tare: Tare) -> None:
    done = tare("breakdown", *options)
    assert done.returncode == code
    assert words in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr


# ---- the programs of the suite ----

STORAGE = ROOT / "workloads" / "storage"

KNOWN: dict[tuple[str, str], Callable[[str], bool]] = {
    # The complete system of the axioms of groups has ten rules: Knuth and Bendix 1970.
    ("knuth_bendix", "1"): lambda text: len(text.splitlines()) == 10,
    # A glider, of five cells, every 30 generations; 36 cells at the start.
    ("life", "120"): lambda text: text == "56 cells after 120 generations\n",
    ("perspective", "3"): lambda text: text.endswith("true\n"),
    ("fluid", "10"): lambda text: "water kept: true" in text,
    # Of n switches only how many are on can be told.
    ("processes", "7"): lambda text: "128 states, 8 classes" in text,
}


@needs_ocaml
@pytest.mark.parametrize(("name", "size"), KNOWN, ids=lambda word: word)
def test_a_program_of_the_suite_gives_the_known_answer(
    name: str, size: str, compile_ocaml: CompileOcaml
) -> None:
    program = compile_ocaml((STORAGE / f"{name}.ml").read_text(), name=name)
    done = subprocess.run([program, size], capture_output=True, text=True, check=True)
    assert KNOWN[name, size](done.stdout), done.stdout


def test_the_suite_has_a_descendant_of_each_program() -> None:
    programs = load_suite("storage").programs
    descendants = {program.paper.removeprefix("004 ") for program in programs}
    assert descendants == set(published.published())
