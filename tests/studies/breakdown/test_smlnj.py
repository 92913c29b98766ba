"""The breakdown of SML/NJ programs, which have 32 bits: against instructions labelled by hand,
loops of which each instruction is known, callgrind, and the command as a whole."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tare.base.errors import MissingError
from tare.base.native import native_file
from tare.observers.instrument import TOOL_FOR_32_BITS
from tare.records.components import COMPONENTS, OTHER, metric
from tare.studies.breakdown import archive
from tare.studies.breakdown.image import Image
from tare.studies.breakdown.processes import read_folder
from tests.support.executions import run_tool
from tests.support.valgrind import both_tools, needs_valgrind, ours, valgrind_environment
from tests.unit.studies.breakdown.test_smlnj import HOME, RUNTIME, needs_smlnj

__all__ = ["both_tools"]


Completed = subprocess.CompletedProcess[str]
Tare = Callable[..., Completed]


def tool_is_built() -> bool:
    try:
        native_file(TOOL_FOR_32_BITS)
    except MissingError:
        return False
    return True


def image_of(program: str) -> str:
    return f"@SMLload={HOME / '.heap' / program}.x86-linux"


needs_tool = pytest.mark.skipif(
    not tool_is_built(), reason="Tare was built without Debian's package lib32gcc-N-dev"
)
# ---- loops of which each instruction is known ----

LOOPS = """
fun conses (0, l) = l | conses (n, l) = conses (n - 1, n :: l)
fun assigns (0, _, _) = () | assigns (n, r, l) = (r := l; assigns (n - 1, r, l))
fun sums (0, s) = s | sums (n, s) = sums (n - 1, s + n)
fun choose (0, s) = s
  | choose (n, s) = choose (n - 1, case n mod 8 of 0 => s + 1 | 1 => s + 2 | 2 => s + 4
      | 3 => s + 8 | 4 => s - 1 | 5 => s - 2 | 6 => s - 4 | _ => s - 8)
fun main (_, [what, count]) =
      let
        val n = valOf (Int.fromString count)
        val r = ref [1]
        val result =
          case what of
            "conses" => hd (conses (n, []))
          | "assigns" => (assigns (n, r, [n, n]); hd (!r))
          | "sums" => sums (n, 0)
          | _ => choose (n, 0)
      in
        print (Int.toString result ^ "\\n"); OS.Process.success
      end
  | main _ = OS.Process.failure;
SMLofNJ.exportFn ("loops", main);
"""
EIGHT_ROUNDS = {
    # n :: l writes a header, takes memory and points to it.
    "conses": {"gc_check": 16, "allocation": 16, "record_tag": 8},
    # r := l puts a cell without a header on the store list, in five instructions and the taking.
    "assigns": {"gc_check": 16, "write_barrier": 40, "allocation": 8},
    # s + n takes one of the tags away.
    "sums": {"gc_check": 16, "integer_tag": 8},
    # n mod 8 is untagged and tagged, in three; of 8 numbers 7 go by a table of offsets, whose index
    # is untagged, and whose address and that of the target take three instructions.
    "choose": {"gc_check": 16, "integer_tag": 31, "position_independent": 21},
}


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loops")
    subprocess.run(
        ["sml"], input=LOOPS, text=True, cwd=folder, check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return folder / "loops.x86-linux"


def charged(folder: Path, loops: Path, name: str, rounds: int) -> dict[str, float]:
    run_tool(folder, RUNTIME, f"@SMLload={loops}", name, str(rounds))
    return read_folder(folder / "code").values()


@pytest.fixture(scope="module")
def without_rounds(loops: Path) -> dict[str, float]:
    return charged(loops.parent, loops, "sums", 0)


@needs_smlnj
@needs_tool
@pytest.mark.parametrize("name", EIGHT_ROUNDS)
def test_loops_of_which_each_instruction_is_known(
    name: str, loops: Path, without_rounds: dict[str, float], tmp_path: Path
) -> None:
    eighths = 2000
    found = charged(tmp_path, loops, name, 8 * eighths)
    grown = {
        part: (found[metric(part)] - without_rounds[metric(part)]) / eighths
        for part in COMPONENTS
        if part != OTHER
    }
    # What is told apart by name, read and printed differs by less than 200 instructions.
    assert {part: n for part, n in grown.items() if abs(n) > 0.1} == {
        part: pytest.approx(n, abs=0.1) for part, n in EIGHT_ROUNDS[name].items()
    }


# ---- what is counted ----


@needs_valgrind
@needs_smlnj
@needs_tool
def test_as_many_instructions_as_callgrind_saw(both_tools: Path, tmp_path: Path) -> None:
    theirs = Path("/usr/libexec/valgrind/callgrind-x86-linux")
    if not theirs.exists():
        pytest.skip("Debian's package valgrind lacks its tools for 32-bit programs")
    shutil.copy(theirs, both_tools)
    for name in ("tareinst-x86-linux", "vgpreload_core-x86-linux.so"):
        shutil.copy(native_file(f"valgrind/{name}"), both_tools)
    (tmp_path / "words.grm").write_text(GRAMMAR)
    words = [str(RUNTIME), image_of("ml-yacc"), str(tmp_path / "words.grm")]
    subprocess.run(
        [both_tools / "callgrind-x86-linux", "--tool=callgrind", "--command-line-only=yes",
         "--vgdb=no", f"--log-file={tmp_path / 'log'}", "--callgrind-out-file=/dev/null", *words],
        env=valgrind_environment(both_tools, VALGRIND_LAUNCHER="/usr/bin/valgrind"),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    match = re.search(r"Collected : (\d+)", (tmp_path / "log").read_text())
    assert match is not None
    (tmp_path / "code").mkdir()
    count = ours(both_tools, *words, options=[f"--code-folder={tmp_path / 'code'}"])
    # Callgrind does not add the last block before the end.
    assert count["instructions"] - int(match[1]) in (0, 1, 2)
    assert int(match[1]) > 1_000_000


# ---- names from an archive ----

MEMBERS = {
    "shapes": "static int area(int a, int b) { return a * b + (a ^ b) * 77; }\n"
    "int shape(int a) { int s = 0; while (a--) s += area(a, s) % 1009; return s; }\n"
    "int shape_twice(int a) { return shape(a) * 2 + shape(a + 1) / 3; }\n",
    "words": "#include <string.h>\n"
    "int words(const char *t) { int n = 0; for (; *t; ++t) n += *t == 32; return n * 91; }\n"
    "int both(const char *t) { return words(t) + (int)strlen(t) % 77 * words(t + 1); }\n",
}
CALLS_THEM = """
int shape_twice(int); int both(const char *);
int main(int n, char **v) { return shape_twice(n) + both(v[0]); }
"""


@pytest.fixture
def stripped(tmp_path: Path) -> tuple[Path, Path]:
    """An executable without symbols, and the same with symbols; beside the archive lib.a."""
    for name, source in MEMBERS.items():
        (tmp_path / f"{name}.c").write_text(source)
        subprocess.run(["cc", "-O2", "-c", f"{name}.c"], cwd=tmp_path, check=True)
    objects = [f"{name}.o" for name in MEMBERS]
    subprocess.run(["ar", "rc", "lib.a", *objects], cwd=tmp_path, check=True)
    (tmp_path / "main.c").write_text(CALLS_THEM)
    subprocess.run(["cc", "-O2", "-o", "whole", "main.c", "lib.a"], cwd=tmp_path, check=True)
    subprocess.run(["strip", "-o", "stripped", "whole"], cwd=tmp_path, check=True)
    return tmp_path / "stripped", tmp_path / "whole"


def test_an_archive_names_the_functions_of_a_stripped_executable(
    stripped: tuple[Path, Path],
) -> None:
    image, whole = (Image(path) for path in stripped)
    found = archive.find_functions(image.path.with_name("lib.a"), *image.text)
    assert "shape" not in image.symbols
    assert {"shape", "shape_twice", "words", "both"} <= set(found)
    assert {name: one.address for name, one in found.items()} == {
        name: whole.symbols[name] for name in found
    }


def test_damaged_archives(stripped: tuple[Path, Path], tmp_path: Path) -> None:
    image = Image(stripped[0])
    content = (tmp_path / "lib.a").read_bytes()
    whole = archive.find_functions(tmp_path / "lib.a", *image.text)
    dice = random.Random(110)
    fewer = 0
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(4):
            damaged[dice.randrange(len(damaged))] = dice.choice((0, 1, 0x7F, 0xFF))
        (tmp_path / "damaged.a").write_bytes(damaged[: dice.randrange(len(damaged))])
        found = archive.find_functions(tmp_path / "damaged.a", *image.text)
        fewer += len(found) < len(whole)
    assert fewer > 50
    assert archive.find_functions(tmp_path / "not-there.a", *image.text) == {}


# ---- the command ----

GRAMMAR = """
%%
%name Words
%pos int
%eop EOF
%noshift EOF
%term EOF | ID | PLUS | TIMES | LEFT | RIGHT
%nonterm main | sum | product | atom
%start main
%%
main: sum ()
sum: product () | sum PLUS product ()
product: atom () | product TIMES atom ()
atom: ID () | LEFT sum RIGHT ()
"""


@pytest.fixture
def breakdown(tare: Tare, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(*words: str) -> dict[str, Any]:
        (tmp_path / "words.grm").write_text(GRAMMAR)
        done = tare("breakdown", "--ignore-output", "--quiet", "--no-page", "--json", "-", *words)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        return {m["metric"]: m["value"] for m in document["measurements"]}

    return run


@needs_smlnj
@needs_tool
def test_components_sum_to_all_instructions_and_repeat_in_a_script(
    breakdown: Callable[..., dict[str, Any]],
) -> None:
    direct = breakdown("--", str(RUNTIME), image_of("ml-yacc"), "words.grm")
    assert sum(direct[metric(name)] for name in COMPONENTS) == direct["instructions"]
    in_code = ("gc_check", "record_tag", "integer_tag", "position_independent", "write_barrier")
    for name in in_code[:-1]:
        assert direct[metric(name)] > direct["instructions"] / 200, name
    assert direct["integer_tag_instructions"] < direct["integer_tag_high_instructions"]
    again = breakdown("--", str(RUNTIME), image_of("ml-yacc"), "words.grm")
    for name in (*in_code, "copy", "major", "roots"):
        assert again[metric(name)] == direct[metric(name)], name
    by_script = breakdown("-m", "own", "--", "ml-yacc", "words.grm")
    assert sum(by_script[metric(name)] for name in COMPONENTS) == by_script["instructions"]
    assert by_script["processes"] > direct["processes"] == 1
    # The script sets variables of the environment, which the program reads.
    for name in (*in_code, "copy", "major", "roots"):
        assert by_script[metric(name)] == pytest.approx(direct[metric(name)], rel=1e-3, abs=10), (
            name
        )


@needs_smlnj
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("count", "--"), 3, "a program for x86 (32 bits)"),
        (("breakdown", "-m", "mimalloc", "--"), 3, "a program for x86 (32 bits)"),
        (("breakdown", "--runtime", "ocaml-4", "--"), 1, "exit status"),
    ],
)
def test_what_a_32_bit_program_cannot_be_asked(
    command: Sequence[str], code: int, words: str, tare: Tare
) -> None:
    if command[0] == "breakdown" and not tool_is_built():
        pytest.skip("Tare was built without Debian's package lib32gcc-N-dev")
    done = tare(*command, RUNTIME, "@SMLload=not-there")
    assert done.returncode == code, done.stderr
    assert words in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr
