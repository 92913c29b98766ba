"""Counts of the instrument, equal to those of Valgrind's own tools."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.native.instrument.programs import OPTIONS, PRELUDE, REAL, real_command
from tests.support.valgrind import (
    both_tools,
    collected,
    loads_elsewhere,
    needs_valgrind,
    ours,
    theirs,
)

__all__ = ["both_tools"]

Compile = Callable[..., Path]


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest, both_tools: Path) -> list[str]:
    return real_command(REAL[request.param], both_tools)


CALLGRIND_MISSES = 64
"""callgrind adds a block to its count when the next begins, so it lacks the last: the call of exit
of the kernel and the few instructions before it."""


@needs_valgrind
def test_the_total_is_callgrind_s(real: list[str], both_tools: Path) -> None:
    count = ours(both_tools, *real)["instructions"]
    callgrind = collected(both_tools, *real)
    if real[0].endswith("gawk"):
        # Its libsigsegv parses /proc/self/maps, in which Valgrind's own mappings are, too.
        assert abs(count - callgrind) < count * 1e-3
    elif loads_elsewhere():
        assert count == pytest.approx(callgrind, rel=1e-3)
    else:
        assert 0 < count - callgrind < CALLGRIND_MISSES


@needs_valgrind
def test_what_led_to_a_handled_fault_is_counted(both_tools: Path, compile_c: Compile) -> None:
    """By callgrind the instruction that failed is, too. For the second the core calls a helper,
    and registers are elsewhere when that fails."""
    source = f"""{PRELUDE}
      static char *page;
      static void handler(int number) {{
        (void)number; mprotect(page, 4096, PROT_READ | PROT_WRITE); }}
      int main(int count, char **words) {{
        page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        signal(SIGSEGV, handler);
        for (int i = atoi(words[count - 1]); i > 0; --i) {{
          mprotect(page, 4096, PROT_NONE);
          for (volatile int j = 0; j < 50; ++j) {{}}
          __asm__ volatile("test %0, %0; jz 1f; STORE; 1:" : : "r"(page) : "memory", "cc");
        }}
        return 0; }}"""
    few, many = "100", "900"

    def commands(store: str) -> dict[str, list[str]]:
        path = compile_c(source.replace("STORE", store), *OPTIONS, name=store[:2])
        return {faults: [str(path), faults] for faults in (few, many)}

    def of_faults(words: dict[str, list[str]]) -> int:
        ran = {faults: ours(both_tools, *each)["instructions"] for faults, each in words.items()}
        return int(ran[many] - ran[few])

    moves, saves = commands("movb $1, (%0)"), commands("fxsave (%0)")
    moved = of_faults(moves)
    assert collected(both_tools, *moves[many]) - collected(both_tools, *moves[few]) == moved + 800
    assert moved <= of_faults(saves) <= moved + 800


@needs_valgrind
@pytest.mark.parametrize("operation", ["malloc", "free"])
@pytest.mark.parametrize("name", ["gawk", "bc", "sqlite3"])
def test_the_inclusive_cost_is_callgrind_s(name: str, operation: str, both_tools: Path) -> None:
    (both_tools / "sum.bc").write_text("for (i = 0; i < 60; i++) a[i] = i ^ 20\na[59]\nquit\n")
    words = [word.replace("{input}", str(both_tools)) for word in REAL[name]]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    inclusive = collected(both_tools, *words, options=[f"--toggle-collect={operation}"])
    operations = ours(both_tools, *words)["operations"]
    # callgrind collects in malloc when glibc's realloc calls it, too; here that is the realloc's.
    nested = inclusive - operations[operation]["instructions"]
    assert 0 <= nested <= operations.get("realloc", {"instructions": 0})["instructions"] / 2
    if name != "sqlite3":
        assert nested == 0


@needs_valgrind
def test_objects_and_bytes_are_memcheck_s(real: list[str], both_tools: Path) -> None:
    said = theirs(both_tools, "memcheck", "--run-libc-freeres=no", "--run-cxx-freeres=no", *real)
    match = re.search(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes", said)
    assert match, said
    allocations, frees, size = (int(text.replace(",", "")) for text in match.groups())
    count = ours(both_tools, *real)
    if real[0].endswith("python3"):
        pytest.skip("its garbage depends on addresses, which memcheck's malloc changes")
    operations = count["operations"].values()
    # memcheck takes a realloc of an object for a new one and a free, of the whole size.
    assert count["objects"] + count["resized_objects"] == allocations
    assert count["freed_objects"] + count["resized_objects"] == frees
    # gawk and perl copy their environment, where memcheck preloads one object more.
    extra = len(f":{both_tools}/vgpreload_memcheck-amd64-linux.so")
    beyond = size - sum(operation["bytes"] for operation in operations)
    assert beyond in (0, extra, 2 * extra), "bytes differ by more than that name"
    assert count["unknown_frees"] == 0
