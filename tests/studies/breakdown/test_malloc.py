"""The breakdown of programs with malloc: against callgrind's inclusive costs of glibc, against a
calloc of which each instruction is known, and beside a program with a collector."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import tare as api
from tare.programs.program import Program
from tare.records.components import COMPONENTS, Certainty, metric
from tare.records.results import read_records
from tare.report.model import Table
from tare.studies.breakdown import report as study
from tare.studies.breakdown.found import Calls, Found
from tare.studies.breakdown.processes import read_folder
from tests.support.executions import run_tool
from tests.support.valgrind import both_tools, needs_valgrind, ours, theirs

__all__ = ["both_tools"]

Compile = Callable[..., Path]

# ---- against callgrind ----

ALLOCATES = """
#include <stdlib.h>
#include <string.h>
static void *kept[3000], *behind[100];
int main(void) {
  for (int i = 0; i < 3000; ++i) kept[i] = malloc(24 + (size_t)i % 400);
  for (int i = 0; i < 3000; i += 2) free(kept[i]);
  for (int i = 0; i < 5000; ++i) free(malloc(40));
  free(NULL);
  for (size_t i = 0; i < 500; ++i) free(calloc(7, 20 + i));
  char *grows = malloc(10);
  for (size_t i = 0; i < 100; ++i) {
    grows = realloc(grows, 10 + 50 * i);
    behind[i] = malloc(2000);
  }
  memset(grows, 1, 4000);
  memcpy(grows, grows + 2000, 2000);
  return 0;
}
"""


def callees(both: Path, program: Path) -> dict[str, Counter[str]]:
    """By function of the C library, the inclusive instructions of what it calls."""
    out = both / "callgrind.out"
    theirs(both, "callgrind", f"--callgrind-out-file={out}", "--compress-pos=no",
           "--compress-strings=no", str(program))  # fmt: skip
    found: dict[str, Counter[str]] = {}
    function = callee = ""
    for line in out.read_text().splitlines():
        if line.startswith("fn="):
            function = line.removeprefix("fn=")
        elif line.startswith("cfn="):
            callee = line.removeprefix("cfn=")
        elif callee and line[:1].isdigit():
            found.setdefault(function, Counter())[callee] += int(line.split()[-1])
            callee = ""
    return found


def named(costs: Counter[str], part: str) -> int:
    return sum(cost for name, cost in costs.items() if part in name)


def broken_down(both: Path, program: Path) -> Found:
    folder = both / "code"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ours(both, str(program), options=[f"--code-folder={folder}"])
    return read_folder(folder)


@needs_valgrind
def test_components_of_glibc_are_the_costs_that_callgrind_sees(
    both_tools: Path, compile_c: Compile
) -> None:
    program = compile_c(ALLOCATES, "-fno-builtin")
    costs = callees(both_tools, program)
    if "_int_malloc" not in costs["malloc"] or not named(costs["calloc"], "memset"):
        pytest.skip("callgrind does not name glibc's functions (package libc6-dbg), or not memset")
    found = broken_down(both_tools, program)
    assert found.of("zeroing", Certainty.SURE) == named(costs["calloc"], "memset") > 0
    copied = named(costs["realloc"], "memcpy") + named(costs["_int_realloc"], "mem")
    assert found.of("resize_copy", Certainty.SURE) == copied > 0
    # A call that is not served from the thread's cache also takes some steps of malloc's own.
    searched = costs["malloc"].total()
    assert searched <= found.calls["malloc"].slow < 1.2 * searched


# ---- a calloc that is known ----

OWN_CALLOC = """
#include <stdlib.h>
#include <string.h>
char arena[1 << 16];
void *calloc(size_t count, size_t size);
__asm__(".text\\n.globl calloc\\n.type calloc, @function\\n"
        "calloc:\\n imul %rsi, %rdi\\n mov %rdi, %rdx\\n xor %esi, %esi\\n"
        " lea arena(%rip), %rdi\\n jmp *memset@GOTPCREL(%rip)\\n.size calloc, .-calloc\\n");
int main(void) {
  for (size_t i = 0; i < 1000; ++i) {
    calloc(i, 3);
    memset(arena, 1, 3 * i);
  }
  return 0;
}
"""


def test_a_calloc_that_ends_by_a_jump_to_memset(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(OWN_CALLOC, "-fno-builtin")
    (process,) = run_tool(tmp_path, program)
    assert process.by_context[(), "calloc"] == 1000 * 5
    operations = process.description["operations"]
    assert operations["zeroing"]["calls"] == operations["calloc"]["calls"] == 1000
    assert operations["zeroing"]["instructions"] == process.by_context[(), "zeroing"] > 5000
    assert process.by_context.total() == process.instructions


# ---- quick and slow ----


def test_calls_beyond_the_quickest() -> None:
    operation = {"calls": 105, "no_object": 5, "histogram": [[3, 5], [20, 10], [25, 80], [900, 10]]}
    instructions = 15 + 200 + 2000 + 9000
    assert Calls.of(operation, instructions) == Calls(105, 15 + 20 * 100, 0 + 5 * 80 + 880 * 10)
    alike = {"calls": 4, "no_object": 0, "histogram": [[1024, 4]]}
    assert Calls.of(alike, 4100) == Calls(4, 4096, 4)
    assert Calls.of({"calls": 0, "no_object": 0, "histogram": []}, 7) == Calls(0, 0, 7)


# ---- beside a program with a collector ----

LEXER = "rule words = parse [^ ' ']+ { 1 + words lexbuf } | _ { words lexbuf } | eof { 0 }\n"


def lines_of(table: Table) -> list[str]:
    return [line[0].text for line in table.rows]


def test_a_program_with_malloc_beside_one_with_a_collector(
    tmp_path: Path, compile_c: Compile
) -> None:
    lexer = shutil.which("ocamllex.opt")
    if lexer is None:
        pytest.skip("Debian's package ocaml-nox is missing")
    (tmp_path / "lexer.mll").write_text(LEXER)
    programs = [
        Program("allocates", (str(compile_c(ALLOCATES, "-fno-builtin")),)),
        Program("ocamllex", (lexer, "-q", "-o", "lexer.ml", str(tmp_path / "lexer.mll")),
                directory=tmp_path),
    ]  # fmt: skip
    results = api.breakdown(programs, folder=tmp_path / "results")
    shown = study.section(results)
    tables = {table.identifier: table for table in shown.tables}
    assert lines_of(tables["table-breakdown"])[:2] == ["allocates", "ocamllex"]
    assert lines_of(tables["table-calls-1-1"]) == ["malloc", "calloc", "free"]
    assert "table-calls-2-1" not in tables
    assert lines_of(tables["table-pages"]) == ["allocates", "ocamllex"]
    (figure,) = shown.figures
    bars = {(row["label"], row["group"]) for row in figure.spec["data"]["values"]}
    assert ("allocates", "slow, zeroing, copies") in bars
    assert ("ocamllex", "checks, polls") in bars
    for record in read_records(results.folder):
        values = record.outcome.values
        if record.run.observer == study.OBSERVER:
            parts = [values[metric(name)] for name in COMPONENTS]
            assert sum(parts) == values["instructions"]
        else:
            assert values["minor_faults"] > 50
            assert "wall_seconds" not in values
