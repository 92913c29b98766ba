"""Recordings of other tools as heap traces, held against what those tools say of them."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tare as api
from bench.reading import OWN_PEAK_BYTES, SCAN, write_trace
from tare.__main__ import run as tare_command
from tare.answers.exports.traces import TRACE_FORMATS
from tare.base.errors import UsageError
from tare.heap_traces.trace import Trace, open_trace, violations
from tare.importing import events, import_recording, lines

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
HEAD = "v 10400 3\nX program with words\nI 1000 5e2990\n"
END = "c 10\nR 5\n"
NAMED = (
    "s 6 /bin/p\ns 4 main\ns 3 p.c\ns 5 inner\ns 1b operator new(unsigned long)\n"
    "i 10 1 2 3 a\nt 1 0\ni 20 1 4 3 14 2 3 b\nt 2 1\ni 30 1 5\nt 3 2\na 18 1\na 20 3\n"
)


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


def imported(path: Path, **options: Any) -> Trace:
    target = path.with_name(f"{path.name}.tare")
    shutil.rmtree(target, ignore_errors=True)
    trace = import_recording(path, target, **options)
    assert violations(trace) == {}
    return trace


def importing(tmp_path: Path, text: str | bytes, name: str = "file.1.gz") -> Trace:
    content = text if isinstance(text, bytes) else text.encode()
    (tmp_path / name).write_bytes(content)
    return imported(tmp_path / name)


def objects(trace: Trace) -> pl.DataFrame:
    return trace.objects().collect()


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


def test_each_column_of_a_small_recording(tmp_path: Path) -> None:
    trace = importing(tmp_path, HEAD + NAMED + "c 5\n+ 0\n+ 1\n+ 0\nc 6\n- 0\n- 1\n" + END)
    table = objects(trace)
    assert table["size"].to_list() == [0x18, 0x20, 0x18]
    assert table["birth_bytes"].to_list() == [0x18, 0x38, 0x50]
    assert table["birth_nanoseconds"].to_list() == [5_000_000, 5_000_001, 5_000_002]
    # Of the two of kind 0 the younger one.
    assert table["free_nanoseconds"].to_list() == [None, 6_000_001, 6_000_000]
    assert table["free_bytes"].to_list() == [None, 0x50, 0x50]
    assert table["birth_instructions"].null_count() == 3
    main = {"function": "main", "object": "/bin/p", "file": "p.c", "line": 10, "offset": 0}
    # What main has inlined is the innermost; operator new is no frame.
    inner = main | {"function": "inner", "line": 20}
    outer = main | {"line": 11}
    sites = table["site"].to_list()
    assert trace.frames_of(0, sites[0]) == [main]
    assert trace.frames_of(0, sites[1]) == [inner, outer, main]
    assert trace.meta["program"]["name"] == "program with words"
    assert trace.meta["complete"] is True
    assert trace.meta["max_live_bytes"] == 0x50
    end = trace.events().filter(pl.col("kind") == "end").collect()
    assert end["nanoseconds"].to_list() == [0x10 * 1_000_000]


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
        ("f", library, call),
        ("", "/gone", call - 0x1000),
        ("", "/bin/p", 5),
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


def test_older_versions_have_strings_without_lengths(tmp_path: Path) -> None:
    text = "v 10200 2\nX p\ns /bin/p\ns void f(int, char)\ni 10 1 2\nt 1 0\na 8 1\n+ 0\nc 1\n"
    trace = importing(tmp_path, text)
    assert trace.frames_of(0, 1)[0]["function"] == "void f(int, char)"
    raw = "v 10200 1\nx /bin/p\nX p\nm /bin/q 1000 0 100\nt 1010 0\n+ 8 1 aa0\nc 1\n"
    trace = importing(tmp_path, raw)
    assert trace.frames_of(0, 1)[0]["object"] == "/bin/q"
    assert trace.frames_of(0, 1)[0]["offset"] == 0x10


@pytest.mark.parametrize("version", ["", " 0", " 4", " ffffffff"])
def test_other_versions_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(UsageError, match=r"of version \d+ of heaptrack"):
        importing(tmp_path, f"v 10400{version}\nX p\n+ 8 1 aa0\n")


def test_a_command_line_may_have_newlines(tmp_path: Path) -> None:
    text = HEAD.replace("with", "-c\n+ 0\nt = 1\n  q") + NAMED + "+ 0\n" + END
    trace = importing(tmp_path, text)
    assert trace.meta["complete"] is True
    assert trace.meta["objects"] == 1
    assert trace.meta["program"]["argv"] == ["program", "-c"]


def test_what_was_before_an_attachment_is_missing(tmp_path: Path) -> None:
    trace = importing(tmp_path, HEAD + "A\n" + NAMED + "+ 0\n" + END)
    assert trace.meta["complete"] is False
    assert "attached" in trace.meta["reason"]


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


def test_each_column_of_a_small_log(tmp_path: Path) -> None:
    text = (
        "= Start\n"
        "@ ./p:[0x10] + 0x5000 0x18\n"
        "@ /lib/l.so:(f(char)+0x1a)[0x7fffffff0010] + 0x6000 0\n"
        "@ [0x33] < 0x5000\n@ [0x33] > 0x7000 0x28\n"
        "@ ./p:[0x10] ! 0x7000 0xffffffffffff\n+ (nil) 0xffffffffffffff\n"
        "- 0x9999\n- 0x6000\n+ 0x8000 0x1\n\n= End\n"
    )
    trace = importing(tmp_path, text, "log")
    table = objects(trace)
    assert table["size"].to_list() == [0x18, 0, 0x28, 1]
    assert table["birth_bytes"].to_list() == [0x18, 0x18, 0x28, 0x29]
    assert table["operation"].to_list() == ["malloc", "malloc", "realloc", "malloc"]
    assert table["resized_from"].to_list() == [None, None, 1, None]
    assert table["address"].to_list() == [0x5000, 0x6000, 0x7000, 0x8000]
    assert table["free_nanoseconds"].to_list() == [3, 8, None, None]
    assert table["site"].to_list()[3] is None
    frames = [trace.frames_of(0, site)[0] for site in table["site"].to_list()[:3]]
    assert [(f["function"], f["object"], f["offset"]) for f in frames] == [
        ("", "./p", 0x10),
        ("f(char)", "/lib/l.so", 0),
        ("", "", 0x33),
    ]
    assert trace.processes[0]["unknown_frees"] == 1


def test_a_place_whose_file_cannot_exist(tmp_path: Path) -> None:
    trace = importing(tmp_path, "= Start\n@ ./p\0q:[0x10] + 0x5000 0x18\n= End\n", "log")
    assert objects(trace)["size"].to_list() == [0x18]


def test_a_realloc_over_the_edge_of_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BATCH_EVENTS", 1)
    monkeypatch.setattr(lines, "_PIECE_BYTES", 16)
    monkeypatch.setattr(lines, "_PIECES", 1)
    text = "= Start\n@ [0x1] + 0x5000 0x18\n@ [0x3] < 0x5000\n@ [0x3] > 0x7000 0x28\n"
    table = objects(importing(tmp_path, text, "log"))
    assert table["birth_bytes"].to_list() == [0x18, 0x28]
    assert table["resized_from"].to_list() == [None, 1]


# ---- pairing ----


def reference(steps: Sequence[tuple[str, int]], *, youngest: bool) -> list[tuple[int, int | None]]:
    """By a table of what is live: for each birth its step, and the step of its free."""
    ends: dict[int, int] = {}
    live: dict[int, list[int]] = {}
    for step, (what, key) in enumerate(steps):
        stack = live.setdefault(key, [])
        if what == "+":
            if not youngest:
                stack.clear()
            stack.append(step)
        elif stack:
            ends[stack.pop()] = step
    births = [step for step, (what, _) in enumerate(steps) if what == "+"]
    return [(step, ends.get(step)) for step in births]


STEPS = st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 5)), max_size=60)
QUICK = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@QUICK
@given(steps=STEPS, batch=st.sampled_from([1, 7, 1000]), piece=st.sampled_from([16, 1024]))
def test_frees_find_their_allocations(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[tuple[str, int]],
    batch: int,
    piece: int,
) -> None:
    """In a raw file and in one by kinds, however it is cut into blocks and batches."""
    monkeypatch.setattr(events, "BATCH_EVENTS", batch)
    monkeypatch.setattr(lines, "_PIECE_BYTES", piece)
    monkeypatch.setattr(lines, "_PIECES", 1)
    raw = "v 10400 3\nx 6 /bin/p\nX p\nm 1 -\nt 10 0\n" + "".join(
        f"+ 8 1 {key + 1:x}\n" if what == "+" else f"- {key + 1:x}\n" for what, key in steps
    )
    assert ends_of(importing(tmp_path, raw + END)) == reference(steps, youngest=False)
    # heaptrack writes no free of a kind of which nothing is live.
    live: Counter[int] = Counter()
    known = []
    for what, key in steps:
        if what == "+" or live[key]:
            live[key] += 1 if what == "+" else -1
            known.append((what, key))
    kinds = "".join(f"a {key + 1:x} 1\n" for key in range(6))
    named = HEAD + "i 10 0\nt 1 0\n" + kinds + "".join(f"{w} {k:x}\n" for w, k in known)
    assert ends_of(importing(tmp_path, named + END)) == reference(known, youngest=True)


def ends_of(trace: Trace) -> list[tuple[int, int | None]]:
    rows = objects(trace).select("birth_nanoseconds", "free_nanoseconds").rows()
    return [(birth - 1, None if free is None else free - 1) for birth, free in rows]


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


@pytest.mark.parametrize(
    "line",
    [
        "+ 2", "+ ", "+", "+ x", "- 1", "+ 1 1", "a 8", "a 8 9", "a 1000000000000000 1", "t 9 1",
        "t 1 9", "s 9 short", "i", "i 10 99", "c", "c fffffffffffffffff", "q", "\x00",
        "+ 00000000000000000",
    ],
)  # fmt: skip
def test_reading_ends_before_a_line_that_is_wrong(tmp_path: Path, line: str) -> None:
    text = HEAD + NAMED + f"+ 0\n+ 0\n{line}\n+ 0\n" + END
    trace = importing(tmp_path, text)
    wrong = text[: text.index(f"\n{line}\n")].count("\n") + 2
    assert trace.meta["objects"] == 2
    assert trace.meta["reason"].endswith(f"its line {wrong} is not of its format")


@pytest.mark.parametrize(
    "line", ["m", "m 9 short 0", "m 1 x 10 20", "m 1 x zz", "+ 8 2 10", "+ 8 1", "t 1", "s 1 a"]
)
def test_reading_ends_before_a_raw_line_that_is_wrong(tmp_path: Path, line: str) -> None:
    text = f"v 10400 3\nx 6 /bin/p\nX p\nt 10 0\n+ 8 1 aa0\n{line}\n+ 8 1 bb0\n"
    trace = importing(tmp_path, text)
    assert trace.meta["objects"] == 1
    assert trace.meta["reason"].endswith("its line 6 is not of its format")


@pytest.mark.parametrize(
    "line", ["+ 0x5 ", "@ a [0x1] * 0x5 0x5", "+ 5 0x5", "- 0x5 0x5", "@ x + 0x5 0x5", "- 0xg"]
)
def test_reading_ends_before_an_operation_that_is_wrong(tmp_path: Path, line: str) -> None:
    trace = importing(tmp_path, f"= Start\n+ 0x7 0x7\n{line}\n+ 0x8 0x8\n", "log")
    assert trace.meta["objects"] == 1
    assert trace.meta["reason"].endswith("its line 3 is not of its format")


@QUICK
@given(
    data=st.binary(max_size=300),
    start=st.sampled_from(["v 10400 3\n", "v 1 3\nx 1 a\n", "= Start\n"]),
)
def test_any_bytes_give_a_trace_or_a_message(tmp_path: Path, data: bytes, start: str) -> None:
    importing(tmp_path, start.encode() + data)


@QUICK
@given(
    text=st.lists(
        st.one_of(
            st.sampled_from(NAMED.splitlines()),
            st.from_regex(r"[+\-atcims] ([0-9a-f]{1,3} ?){0,5}", fullmatch=True),
            st.from_regex(r"(@ .{0,9}\] )?[-+<>!] 0x[0-9a-f]{1,3}( 0x[0-9a-f]{1,3})?"),
        ),
        max_size=40,
    ),
    start=st.sampled_from(["v 10400 3", "v 10400 3\nx 1 a", "= Start"]),
)
def test_lines_that_are_nearly_right_give_sound_traces(
    tmp_path: Path, text: list[str], start: str
) -> None:
    importing(tmp_path, "\n".join([start, *text]) + "\n")


def test_a_line_without_an_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    trace = importing(tmp_path, (HEAD + "X" * (4 << 20)).encode())
    assert "a line of more than" in trace.meta["reason"]


# ---- the command ----


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("heaptrack.p.7").write_text(HEAD + NAMED + "+ 0\n+ 1\n- 1\n" + END)
    assert tare_command(["import", "heaptrack.p.7"]) == 0
    output = capsys.readouterr().out
    assert "tare import: program with words" in output
    assert "recorded by heaptrack 1.4.0" in output
    assert "trace: heaptrack.p.7.tare" in output
    assert "Valgrind" not in output
    assert tare_command(["import", "heaptrack.p.7"]) == 2
    assert "--force" in capsys.readouterr().err
    assert tare_command(["import", "heaptrack.p.7", "--force", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert tare_command(["drag", "heaptrack.p.7.tare"]) == 2
    assert "no last uses" in capsys.readouterr().err
    Path("cut").write_text(HEAD + NAMED + "+ 0\n+ ")
    assert tare_command(["import", "cut", "-o", "cut.tare"]) == 1
    assert "not complete: of cut the end is missing" in capsys.readouterr().err
    assert open_trace("cut.tare").meta["objects"] == 1
    assert sorted(os.listdir()) == ["cut", "cut.tare", "heaptrack.p.7", "heaptrack.p.7.tare"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing that can be read: it is empty"),
        (b"hello\n", "not a recording that Tare knows"),
        (b"\x28\xb5\x2f\xfd", "its compressed data is cut off"),
        (gzip.compress(b"hello\n", mtime=0), "not a recording that Tare knows"),
        (b"v 10400 9\n", "of version 9 of heaptrack's format"),
    ],
)
def test_files_that_cannot_be_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    target = tmp_path / "t.tare"
    assert tare_command(["import", str(tmp_path / "file"), "-o", str(target)]) == 2
    assert said in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_no_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        assert tare_command(["import", str(path), "-o", str(tmp_path / "t")]) == 2
        assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("form", TRACE_FORMATS)
def test_exports_of_an_imported_recording(
    tmp_path: Path, form: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    trace = importing(tmp_path, HEAD + NAMED + "+ 0\n+ 1\n+ 0\n- 1\n" + END)
    weight = ["--weight", "bytes"] if TRACE_FORMATS[form].weighted else []
    assert tare_command(["export", "-f", form, *weight, str(trace.folder)]) == 0
    content = capsysbinary.readouterr().out
    if form == "collapsed":
        assert content.splitlines() == [b"main 48", b"main;main;inner 32"]
    elif form == "dhat":
        document = json.loads(content)
        assert (document["tu"], document["tg"], document["te"]) == ("ns", 3, 16_000_000)
        assert [point["gb"] for point in document["pps"]] == [48, 32]
    else:
        assert content


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


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """No import leaves a folder that is not finished."""
    yield
    assert not [path for path in tmp_path.rglob(".*") if path.suffix == ".partial"]
