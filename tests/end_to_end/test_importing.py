"""Recordings of other tools as heap traces, held against those tools and as a command."""

from __future__ import annotations

import gzip
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tare as api
from bench.reading import OWN_PEAK_BYTES, SCAN, write_trace
from tare.heap_traces.trace import Trace, open_trace
from tests.unit.importing.test_recordings import (
    END,
    HEAD,
    NAMED,
    imported,
    importing,
    nothing_is_left,
    objects,
)

__all__ = ["nothing_is_left"]


Compile = Callable[..., Path]
INTERPRETER = Path("/usr/lib/heaptrack/libexec/heaptrack_interpret")
MTRACE_LIBRARY = "libc_malloc_debug.so.0"
PROGRAM = """
#define _GNU_SOURCE
#include <mcheck.h>
#include <stdlib.h>
#include <string.h>
static unsigned state = 1;
static unsigned next(void) { return (state = state * 1664525u + 1013904223u) >> 8; }
__attribute__((noinline)) void* make(unsigned size) { return malloc(size); }
__attribute__((noinline)) void* twice(unsigned size) { void* p = make(size); return p; }
__attribute__((noinline)) void* zeroed(unsigned size) { return calloc(3, size); }
__attribute__((noinline)) void* aligned(unsigned size) {
  void* p = NULL;
  return posix_memalign(&p, 64, size) == 0 ? p : NULL;
}
__attribute__((noinline)) void* grow(void* p, unsigned size) { return realloc(p, size); }
int main(int argc, char** argv) {
  static void* volatile live[64];
  mtrace();
  int rounds = atoi(argv[1]);
  for (int i = 0; i < rounds; ++i) {
    unsigned slot = next() % 64, size = next() % 500;
    switch (next() % 6) {
      case 0: free(live[slot]); live[slot] = make(size); break;
      case 1: free(live[slot]); live[slot] = twice(size); break;
      case 2: free(live[slot]); live[slot] = zeroed(size); break;
      case 3: free(live[slot]); live[slot] = aligned(size); break;
      case 4: live[slot] = grow(live[slot], size + 1); break;
      default: free(live[slot]); live[slot] = NULL; { void* volatile p = make(size); free(p); }
    }
  }
  muntrace();
  if (argc > 2) abort();
  return 0;
}
"""
ROUNDS = 3000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    flags = ["-g", "-O1", "-fno-optimize-sibling-calls", "-fno-ipa-icf", "-w"]
    subprocess.run(["cc", *flags, "-o", "program", "program.c"], cwd=folder, check=True)
    return folder / "program"


@pytest.fixture(scope="module")
def recorded(program: Path) -> dict[str, Path]:
    """The files of one run under heaptrack, by kind."""
    if shutil.which("heaptrack") is None or not INTERPRETER.exists():
        pytest.skip("heaptrack is not installed (package heaptrack)")
    folder = program.parent
    words = [
        "heaptrack",
        "--raw",
        "-o",
        str(folder / "heaptrack.program.77"),
        str(program),
        str(ROUNDS),
    ]
    subprocess.run(words, check=True, capture_output=True, cwd=folder)
    raw = folder / "heaptrack.program.77.raw.zst"
    text = subprocess.run(["zstd", "-dc", raw], check=True, capture_output=True).stdout
    answer = subprocess.run([INTERPRETER], input=text, check=True, capture_output=True)
    (folder / "said").write_bytes(answer.stderr)
    named = folder / "heaptrack.program.77.gz"
    named.write_bytes(gzip.compress(answer.stdout))
    return {"raw": raw, "named": named}


def by_stack(trace: Trace, *values: pl.Expr) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """Sums over the objects of each call stack, by the names of its functions from main on."""
    found: dict[tuple[str, ...], tuple[Any, ...]] = {}
    for process, site, *sums in objects(trace).group_by("process", "site").agg(*values).rows():
        names = [frame["function"] for frame in trace.frames_of(process, site)][::-1]
        names = names[names.index("main") :] if "main" in names else names[-1:]
        before = found.get(tuple(names), (0,) * len(sums))
        found[tuple(names)] = tuple(a + b for a, b in zip(before, sums, strict=True))
    return found


# ---- heaptrack ----


@pytest.mark.parametrize("kind", ["raw", "named"])
def test_totals_are_those_of_heaptrack(recorded: dict[str, Path], kind: str) -> None:
    trace = imported(recorded[kind])
    said = subprocess.run(
        ["heaptrack_print", recorded["named"]], check=True, capture_output=True, text=True
    ).stdout

    def figure(words: str) -> str:
        match = re.search(rf"^{words}: (\S+)", said, re.MULTILINE)
        assert match is not None
        return match[1]

    table = objects(trace)
    leaked = table.filter(pl.col("free_bytes").is_null())["size"].sum()
    assert str(trace.meta["objects"]) == figure("calls to allocation functions")
    assert in_thousands(trace.meta["max_live_bytes"]) == figure("peak heap memory consumption")
    assert in_thousands(int(leaked)) == figure("total memory leaked")
    if kind == "raw":  # of the other form heaptrack_print also counts frees of kind 0 after a free
        (count,) = re.findall(
            r"temporary allocations:\s+(\d+)", (recorded["raw"].parent / "said").read_text()
        )
        assert temporary(table) == int(count) > ROUNDS // 8
    assert trace.meta["complete"] is True
    assert trace.meta["observer"].startswith("heaptrack 1.")
    assert trace.meta["program"]["argv"][-1] == str(ROUNDS)
    assert trace.processes[0]["pid"] == 77


def in_thousands(number: int) -> str:
    """As heaptrack_print writes a number of bytes."""
    for unit in "BKMGT":
        if number < 1000 or unit == "T":
            break
        number /= 1000  # type: ignore[assignment]
    return f"{number:.2f}{unit}" if unit != "B" else f"{number}B"


def temporary(table: pl.DataFrame) -> int:
    """How many objects were freed with nothing allocated or freed in between."""
    born = table.select(at="birth_nanoseconds", end="free_nanoseconds")
    freed = table.drop_nulls("free_nanoseconds").select(at="free_nanoseconds")
    moments = pl.concat([born.select("at"), freed]).sort("at")["at"]
    following = dict(itertools.pairwise(moments))
    return sum(following.get(at) == end for at, end in born.rows())


def test_call_stacks_are_those_of_heaptrack(recorded: dict[str, Path], tmp_path: Path) -> None:
    words = ["heaptrack_print", "-p0", "-a0", "-T0", "-F", "stacks"]
    subprocess.run([*words, recorded["named"]], check=True, capture_output=True, cwd=tmp_path)
    theirs: Counter[tuple[str, ...]] = Counter()
    for line in (tmp_path / "stacks").read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        names = [re.sub(r" \(.*", "", frame) for frame in stack.rstrip(";").split(";")]
        theirs[tuple(names[names.index("main") :] if "main" in names else names[-1:])] += int(count)
    for kind in ("named", "raw"):
        ours = by_stack(imported(recorded[kind]), pl.len())
        program = {stack: count for stack, (count,) in ours.items() if stack[0] == "main"}
        assert program == {stack: n for stack, n in theirs.items() if stack[0] == "main"}
        assert {("main", "make"), ("main", "twice", "make")} <= program.keys()


def test_both_forms_of_one_recording_agree(recorded: dict[str, Path]) -> None:
    raw, named = (imported(recorded[kind]) for kind in ("raw", "named"))
    # Of a kind it is not known which objects live on to the end, but how many.
    end = raw.meta["allocated_bytes"]
    life = (pl.col("free_bytes").fill_null(end) - pl.col("birth_bytes")) * pl.col("size")
    sums = (pl.len(), pl.col("size").sum().alias("bytes"), life.sum().alias("life"))
    assert by_stack(raw, *sums) == by_stack(named, *sums)
    columns = ("size", "birth_bytes", "birth_nanoseconds")
    assert objects(raw).select(columns).equals(objects(named).select(columns))
    assert raw.meta["max_live_bytes"] == named.meta["max_live_bytes"]
    for trace in (raw, named):
        main = trace.sites().filter(pl.col("function") == "main").collect()
        assert {Path(file).name for file in main["file"]} == {"program.c"}
    # Of a return address the lines of the two can be those before and after the call.
    assert set(lines_of(raw)) & set(lines_of(named))


def lines_of(trace: Trace) -> list[int]:
    return trace.sites().filter(pl.col("function") == "main").collect()["line"].to_list()


def test_a_program_that_was_aborted_is_not_complete(program: Path, tmp_path: Path) -> None:
    if shutil.which("heaptrack") is None:
        pytest.skip("heaptrack is not installed (package heaptrack)")
    words = ["heaptrack", "-o", str(tmp_path / "h"), str(program), str(ROUNDS), "abort"]
    subprocess.run(words, capture_output=True, cwd=tmp_path)
    trace = imported(tmp_path / "h.zst")
    assert trace.meta["complete"] is False
    assert "the program was killed" in trace.meta["reason"] or "cut off" in trace.meta["reason"]
    assert trace.meta["objects"] > ROUNDS // 2


def test_a_raw_recording_whose_modules_change(tmp_path: Path, compile_c: Compile) -> None:
    """The same address lies in one file and then in another, of which one is not there."""
    library = str(compile_c("int f(void) { return 1; }", "-shared", "-fPIC", name="liba.so"))
    place = symbol(library, "f")
    call = place + 1
    text = (
        "v 10400 3\nx 6 /bin/p\nX p\n"
        f"m 1 -\nm {len(library):x} {library} 1000 0 100000\nt {0x1000 + call:x} 0\n+ 8 1 aa0\n"
        f"m 1 -\nm 5 /gone 2000 0 100000\nm 1 x 900000 0 10\nt {0x1000 + call:x} 0\n+ 9 2 bb0\n"
        f"t 900005 0\n+ a 3 cc0\nt ffffffffffffffff 3\n+ b 4 dd0\n- aa0\n- 123\n- aa0\n{END}"
    )
    trace = importing(tmp_path, text, "p.5.raw.zst")
    table = objects(trace)
    frames = [trace.frames_of(0, site) for site in table["site"]]
    assert [(f[0]["function"], f[0]["object"], f[0]["offset"]) for f in frames] == [
        ("f", library, place),
        ("", "/gone", place - 0x1000),
        ("", "/bin/p", 4),
        ("", "", 0),
    ]
    assert [len(f) for f in frames] == [1, 1, 1, 2]
    assert table["address"].to_list() == [0xAA0, 0xBB0, 0xCC0, 0xDD0]
    assert table["free_bytes"].is_not_null().to_list() == [True, False, False, False]
    assert trace.processes[0]["unknown_frees"] == 2
    assert trace.processes[0]["program"] == "/bin/p"


def symbol(library: str, name: str) -> int:
    listed = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    (line,) = (line for line in listed.splitlines() if line.endswith(f" {name}"))
    return int(line.split()[0], 16)


# ---- mtrace ----


@pytest.fixture(scope="module")
def mtrace_log(program: Path) -> Path:
    log = program.parent / "mtrace.log"
    environment = os.environ | {"MALLOC_TRACE": str(log), "LD_PRELOAD": MTRACE_LIBRARY}
    ran = subprocess.run([f"./{program.name}", str(ROUNDS)], env=environment, cwd=program.parent)
    if ran.returncode or not log.exists():
        pytest.skip(f"glibc's {MTRACE_LIBRARY} is not installed (package libc6)")
    return log


def test_leaks_are_those_of_mtrace(mtrace_log: Path, program: Path) -> None:
    if shutil.which("mtrace") is None:
        pytest.skip("mtrace is not installed (package libc-devtools)")
    said = subprocess.run(
        ["mtrace", program, mtrace_log], capture_output=True, text=True, cwd=program.parent
    ).stdout
    rows = re.findall(r"^(0x[0-9a-f]{16}) +(0x[0-9a-f]+|0) +at (\S+?):(\d+)", said, re.MULTILINE)
    theirs = {(int(address, 16), int(size, 16)) for address, size, _, _ in rows}
    trace = imported(mtrace_log)
    left = objects(trace).filter(pl.col("free_bytes").is_null())
    assert set(left.select("address", "size").rows()) == theirs
    assert len(rows) == left.height > 10
    assert trace.meta["complete"] is True
    functions = {trace.frames_of(0, site)[0]["function"] for site in left["site"]}
    assert functions <= {"make", "zeroed", "aligned", "grow"}
    files = {Path(trace.frames_of(0, site)[0]["file"]).name for site in left["site"]}
    assert files == {"program.c"}


def test_objects_are_those_of_our_own_recording(
    mtrace_log: Path, program: Path, tmp_path: Path
) -> None:
    theirs = objects(imported(mtrace_log))
    ours = objects(api.trace([str(program), str(ROUNDS)], folder=tmp_path / "own.tare"))
    # The C library allocates its own buffers before and after.
    first = ours["size"].to_list().index(theirs["size"][0])
    ours = ours.slice(first, theirs.height)
    assert ours["size"].to_list() == theirs["size"].to_list()

    def lives(table: pl.DataFrame) -> list[int | None]:
        return (table["free_bytes"] - table["birth_bytes"]).to_list()

    def growth(table: pl.DataFrame) -> list[int]:
        return table["birth_bytes"].diff().to_list()

    assert growth(ours) == growth(theirs)
    assert (ours["operation"] == "realloc").to_list() == [
        made or before for made, before in zip(
            (theirs["operation"] == "realloc").to_list(),
            # A realloc of nothing is an allocation to mtrace.
            ((ours["operation"] == "realloc") & ours["resized_from"].is_null()).to_list(),
            strict=True,
        )
    ]  # fmt: skip
    gone = ours["free_bytes"].is_not_null()
    both = gone & theirs["free_bytes"].is_not_null()
    assert both.sum() > ROUNDS // 2
    assert lives(ours.filter(both)) == lives(theirs.filter(both))


# ---- damage ----


def test_of_a_file_that_is_cut_off_the_beginning_is_kept(
    recorded: dict[str, Path], tmp_path: Path
) -> None:
    whole = objects(imported(recorded["named"]))
    content = recorded["named"].read_bytes()
    text = gzip.decompress(content)
    kept = []
    for part in (0.3, 0.6, 0.9):
        for name, data in (("a.1.gz", content), ("a.1", text)):
            trace = importing(tmp_path, data[: int(part * len(data))], name)
            assert trace.meta["complete"] is False
            assert "cut off" in trace.meta["reason"] or "killed" in trace.meta["reason"]
            table = objects(trace)
            kept.append(table.height)
            columns = ("size", "birth_bytes", "birth_nanoseconds")
            assert table.select(columns).equals(whole.head(table.height).select(columns))
    assert sorted(kept[1::2]) == kept[1::2]
    assert 0 < kept[1] < kept[-1] < whole.height


# ---- memory ----

PEAK = f"print({OWN_PEAK_BYTES} >> 20)"
IMPORT = f"""
import sys
from tare.__main__ import run
assert run(["import", "--quiet", "--force", *sys.argv[1:]]) == 0
{PEAK}
"""
ADDRESS_SPACE_BYTES = 4 << 30
ROW_BYTES = 180
"""Of an object in a table in memory, at least: all columns as they are."""


def peak_mebibytes(script: str, *arguments: str | Path) -> int:
    """What a Python script had resident at most, which it prints, with a bounded address space."""
    limited = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({ADDRESS_SPACE_BYTES},) * 2)\n"
        + script
    )
    words = [sys.executable, "-c", limited, *map(str, arguments)]
    environment = os.environ | {"POLARS_MAX_THREADS": "1"}
    answer = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout.split()[-1])


def test_importing_takes_memory_for_what_lives_only(tmp_path: Path) -> None:
    taken = []
    for rounds in (100_000, 1_000_000):
        with gzip.open(tmp_path / "file.gz", "wt", compresslevel=1) as file:
            file.write(HEAD + NAMED)
            for _ in range(rounds // 1000):
                file.write("+ 0\n- 0\n" * 1000)
            file.write(END)
        taken.append(peak_mebibytes(IMPORT, tmp_path / "file.gz", "-o", tmp_path / "t.tare"))
        assert open_trace(tmp_path / "t.tare").meta["objects"] == rounds
    assert taken[1] < 450


@pytest.mark.parametrize(
    "objects_",
    [2 << 20, pytest.param(120 << 20, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
def test_a_trace_larger_than_memory_is_read(tmp_path: Path, objects_: int) -> None:
    """As a table the large one takes more than five times the address space that the process may
    have, and more than ten times what it has resident."""
    script = f"{SCAN}\n{PEAK}"
    small = peak_mebibytes(script, write_trace(tmp_path / "small", 1 << 18, uses=True))
    large = peak_mebibytes(script, write_trace(tmp_path / "large", objects_, uses=True))
    assert large < small + 100
    if objects_ > 100 << 20:
        assert objects_ * ROW_BYTES > 5 * ADDRESS_SPACE_BYTES
        assert objects_ * ROW_BYTES > 10 * (large << 20)
