"""The breakdown of Haskell programs: against the tables that GHC makes for its collector, what its
checks ask for, and the runtime's own count of what was allocated."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.observers.event_files import as_text
from tare.observers.instrument import read_process_files
from tare.records.components import COMPONENTS, metric
from tare.studies.breakdown import allocation, info_tables
from tare.studies.breakdown.classifier import Classifier
from tare.studies.breakdown.code import Instruction, decode
from tare.studies.breakdown.descriptor import Descriptor
from tare.studies.breakdown.image import Function, Image
from tare.studies.breakdown.runtime_of import find_descriptor
from tare.studies.breakdown.signatures import find_functions, read_signatures
from tests.support import ROOT
from tests.support.executions import run_tool

Tare = Callable[..., subprocess.CompletedProcess[str]]

GRAMMARS = ROOT / "workloads" / "storage" / "make_grammar.py"
UNNEEDED = {"compact"}
"""Functions that only programs started with +RTS -c call; those of a library that Debian's alex and
happy were not linked with."""


def image_of(name: str) -> tuple[Image, Descriptor]:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"Debian's package {name} is missing")
    image = Image(Path(path).resolve())
    descriptor = find_descriptor(image)
    if descriptor.family != "ghc-9":
        pytest.skip(f"{name} is not of GHC 9.0 or 9.6")
    return image, descriptor


# ---- finding functions ----


@pytest.mark.parametrize("name", ["alex", "happy", "shellcheck"])
def test_functions_are_found_in_stripped_executables(name: str) -> None:
    image, descriptor = image_of(name)
    assert descriptor.named - UNNEEDED <= set(image.symbols)
    # Each is where the unwinder's table has a function, but for code of GHC, and inner places.
    starts = {start for start, _ in image.unwound}
    others = {name for name, found in image.found.items() if found.address not in starts}
    assert others == {
        "GarbageCollect.major", "HeapStackCheck.o", "StgMiscClosures.o",
        "stg_MUT_ARR_PTRS_DIRTY_info", "stg_SMALL_MUT_ARR_PTRS_DIRTY_info",
    }  # fmt: skip


def test_signatures(tmp_path: Path) -> None:
    path = tmp_path / "signatures"
    path.write_text(
        "# made by hand\n\none 12 0102030405060708..0a\ntwo 9 1112131415161718\n"
        "inner 2 one+0x4\nlost 2 three+0x1\n"
    )
    found = read_signatures(path)
    text = bytes(range(16)) + bytes(range(0x11, 0x19))
    assert find_functions(found, 0x400, text) == {
        "one": Function(0x401, 12),
        "two": Function(0x410, 9),
        "inner": Function(0x405, 2),
    }
    # What occurs twice is neither.
    assert "two" not in find_functions(found, 0, text + text)
    for wrong in ("one 12 0102", "one 0102030405060708", "one 12 0102030405060x08", "one 8 .." * 9):
        path.write_text(wrong + "\n")
        with pytest.raises(ValueError, match=r"known bytes|not a signature"):
            read_signatures(path)


# ---- one run of alex ----


@pytest.fixture
def lexer(tmp_path: Path) -> Path:
    """One for which alex collects garbage a few times, of both generations."""
    path = tmp_path / "lexer.x"
    subprocess.run([sys.executable, GRAMMARS, "alex", "3", path], check=True)
    return path


def test_against_what_the_runtime_and_the_compiler_say(tmp_path: Path, lexer: Path) -> None:
    image, descriptor = image_of("alex")
    command = (image.path, lexer, "-o", tmp_path / "lexer.hs")
    said = subprocess.run([*command, "+RTS", "-s"], capture_output=True, text=True, check=True)
    events = as_text(descriptor.events(image)).splitlines()
    (process,) = run_tool(tmp_path, *command, events=events)

    ((_, counted),) = read_process_files(tmp_path / "counts", "tare-count", 1)
    phases = counted["phases"]
    young, old = (int(n) for n in re.findall(r"Gen +\d +(\d+) colls", said.stderr))
    assert old > 0
    assert phases["collection"]["times"] == young + old
    assert phases["major"]["times"] == old

    ranges = descriptor.code_ranges(image)
    code = {
        decode(address, content): times
        for (file, address, content), times in process.by_instruction.items()
        if file == str(image.path) and any(start <= address < end for start, end in ranges)
    }
    sites = Classifier(descriptor, image.names, image.bytes_at).classify(code).sites
    assert len(sites) > 500
    # What is added to the allocation pointer is what is asked for where there is no room.
    verdicts = Counter(allocation.agrees(image.bytes_at, site) for site in sites)
    assert verdicts[False] == 0
    assert verdicts[True] > 0.95 * len(sites)
    # And it is what the info tables of the objects add up to, but for applications of functions to
    # too few arguments, whose sizes no table says.
    assert sum(site.words is not None for site in sites) > 0.98 * len(sites)

    taken = sum(times * moved(one) for one, times in code.items())
    given_back = sum(times * failed(one) for one, times in code.items())
    allocated = re.search(r"([\d,]+) bytes allocated in the heap", said.stderr)
    assert allocated is not None
    # The rest are arrays and the like, which functions in C allocate.
    assert 0.9 < (taken - given_back) / int(allocated[1].replace(",", "")) <= 1


def moved(one: Instruction) -> int:
    """By how much an instruction moves the allocation pointer."""
    is_move = one.mnemonic in ("add", "sub") and one.operands[0] == "r12"
    amount = one.operands[1] if is_move else 0
    return 0 if not isinstance(amount, int) else amount if one.mnemonic == "add" else -amount


def failed(one: Instruction) -> int:
    """What a check asks for that found no room; it is taken once more later."""
    if one.mnemonic != "mov" or one.operands[0] != info_tables.ASKED_FOR:
        return 0
    amount = one.operands[1]
    return amount if isinstance(amount, int) else 0


# ---- the command ----


def test_components_sum_to_all_instructions(tare: Tare, lexer: Path) -> None:
    image_of("alex")

    def run() -> dict[str, Any]:
        done = tare("breakdown", "--quiet", "--no-page", "--json", "-", "--", "alex", lexer,
                    "-o", "lexer.hs")  # fmt: skip
        assert done.returncode == 0, done.stderr
        return {m["metric"]: m["value"] for m in json.loads(done.stdout)["measurements"]}

    found = run()
    assert sum(found[metric(name)] for name in COMPONENTS) == found["instructions"]
    assert found["unexplained_instructions"] < found["instructions"] / 10
    for name in ("allocation", "gc_check", "record_tag", "stack_check", "write_barrier", "gc_entry",
                 "roots", "copy", "major", "promotion"):  # fmt: skip
        assert found[metric(name)] > 0, name
    for name in ("poll", "integer_tag", "position_independent", "moveback"):
        assert found[metric(name)] == 0, name
    again = run()
    assert sum(again[metric(name)] for name in COMPONENTS) == again["instructions"]
    # The runtime's clock interrupts the program now and then, which takes a check each time, and
    # decides in which blocks the few objects lie that are promoted.
    for name in COMPONENTS:
        near = 0.3 if name == "promotion" else 0.01
        assert again[metric(name)] == pytest.approx(found[metric(name)], rel=near), name
