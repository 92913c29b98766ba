"""Counts by call site: they add up to the counts, and each is what is known of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tare.base.documents import converted
from tare.base.errors import TareError
from tare.heap_traces.recording import TableReader
from tare.memory_managers.manager import resolve
from tare.observers import call_sites, instrument
from tare.observers.call_sites import MEASURES, CallSites, Cost, costs_of, read_call_sites
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Limits
from tests.native.instrument.programs import OPTIONS, PRELUDE, REAL
from tests.support.valgrind import both_tools, needs_valgrind, ours, theirs

__all__ = ["both_tools"]

Completed = subprocess.CompletedProcess[str]
Compile = Callable[..., Path]
SITES = "--count-sites=yes"

FUNCTIONS = """
#define APART __attribute__((noipa))
APART static void *inner(size_t n) { return keep(malloc(n)); }
APART static void *left(size_t n) { return keep(inner(n)); }
APART static void *right(size_t n) { return keep(inner(n)); }
APART static void *larger(void *p, size_t n) { return keep(realloc(p, n)); }
APART static void drop(void *p) { free(p); keep(NULL); }
APART static void *on_thread(void *p) { for (int i = 0; i < 50; ++i) drop(left(40)); return p; }
static jmp_buf out;
APART static void jump_past(void) { keep(inner(16)); longjmp(out, 1); }
static void handle(int number) { (void)number; drop(right(9)); }
"""
BODY = """
  for (int i = 0; i < 100; ++i) { drop(left(10)); drop(larger(right(100), 5000)); }
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, on_thread, NULL);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  signal(SIGUSR1, handle);
  for (int i = 0; i < 5; ++i) raise(SIGUSR1);
  for (volatile int i = 0; i < 4; ++i) if (!setjmp(out)) jump_past();
  if (fork() == 0) {
    for (int i = 0; i < 7; ++i) drop(left(11));
    execl("/nonexistent", "x", NULL);
    for (int i = 0; i < 2; ++i) drop(right(12));
    _exit(0);
  }
  wait(NULL);
  execl("/bin/true", "true", NULL);
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of counts of a program whose call sites are known: with threads, handlers, jumps,
    a child, and programs that it becomes."""
    folder = tmp_path_factory.mktemp("counted")
    source = folder / "program.c"
    source.write_text(f"{PRELUDE}{FUNCTIONS}int main(void) {{ {BODY} return 1; }}\n")
    subprocess.run(["cc", "-O1", "-g", *OPTIONS, "-o", folder / "program", source], check=True)
    return tool(folder, folder / "program")


def tool(folder: Path, program: Path) -> Path:
    """The folder of counts that the bare tool leaves."""
    counts = folder / "counts"
    counts.mkdir()
    subprocess.run(
        [instrument.launcher(), "--tool=tareinst", "--command-line-only=yes", "--quiet",
         "--vgdb=no", "--trace-children=yes", f"--count-folder={counts}", SITES, program],
        check=True,
    )  # fmt: skip
    return counts


def costs_in(folder: Path) -> list[Cost]:
    return list(costs_of(converted(read_call_sites(folder), CallSites)))


def names(cost: Cost) -> tuple[str, ...]:
    return tuple(str(frame["function"]) for frame in cost.frames)


def table(stem: Path, name: str) -> list[Mapping[str, int]]:
    return [
        dict(zip(batch, map(int, row), strict=True))
        for batch in TableReader(
            stem.with_name(f"{stem.name}.{name}"), name, wanted=call_sites._COLUMNS[name]
        )
        for row in zip(*batch.values(), strict=True)
    ]


def by_operation(folder: Path) -> Counter[tuple[str, str]]:
    """What the tool wrote of all processes, added up by operation and measure."""
    sums: Counter[tuple[str, str]] = Counter()
    for path, _ in instrument.read_process_files(folder, "tare-count", 1):
        for row in table(path.with_suffix(""), "costs"):
            for measure in MEASURES:
                sums[call_sites._OPERATIONS[row["operation"]], measure] += row[measure]
    return +sums


def totals(folder: Path) -> Counter[tuple[str, str]]:
    """The same of the counts without call sites."""
    sums: Counter[tuple[str, str]] = Counter()
    for count in instrument.read_counts(folder):
        for name, operation in count["operations"].items():
            for measure in MEASURES:
                sums[name, measure] += operation[measure]
    return +sums


# ---- what is known ----


def test_call_sites_add_up_to_the_counts(counted: Path) -> None:
    assert by_operation(counted) == totals(counted)
    kept: Counter[tuple[str, str]] = Counter()
    for cost in costs_in(counted):
        assert not cost.is_rest
        for measure in MEASURES:
            kept[cost.operation, measure] += getattr(cost, measure)
    assert +kept == totals(counted)


def test_each_call_site_has_its_calls_and_bytes(counted: Path) -> None:
    found: Counter[tuple[str, ...]] = Counter()
    asked: Counter[tuple[str, ...]] = Counter()
    for cost in costs_in(counted):
        mine = tuple(name for name in names(cost) if name in FUNCTIONS and name[0] != "_")
        found[(*mine, cost.operation)] += cost.calls
        asked[(*mine, cost.operation)] += cost.bytes
    assert found["left", "inner", "malloc"] == 107
    assert asked["left", "inner", "malloc"] == 100 * 10 + 7 * 11
    assert found["right", "inner", "malloc"] == 102
    assert found["handle", "right", "inner", "malloc"] == 5
    assert found["handle", "drop", "free"] == 5
    assert found["larger", "realloc"] == 100
    assert asked["larger", "realloc"] == 500_000
    assert found["on_thread", "left", "inner", "malloc"] == 150
    assert found["on_thread", "drop", "free"] == 150
    assert found["jump_past", "inner", "malloc"] == 4
    assert found["drop", "free"] == 100 + 100 + 7 + 2


def test_processes_are_told_apart_and_then_added(counted: Path) -> None:
    files = instrument.read_process_files(counted, "tare-count", 1)
    assert sorted(count["end"] for _, count in files) == ["exec", "exit", "exit"]
    for path, count in files:
        sums: Counter[str] = Counter()
        for row in table(path.with_suffix(""), "costs"):
            sums[call_sites._OPERATIONS[row["operation"]]] += row["instructions"]
        assert sums == {n: o["instructions"] for n, o in count["operations"].items()}


@pytest.mark.parametrize("most", [0, 1, 3, 10])
def test_what_is_not_kept_stays_with_the_calls_that_led_to_it(
    counted: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    whole = costs_in(counted)
    monkeypatch.setattr(call_sites, "MOST_SITES", most)
    few = costs_in(counted)
    kept = [cost for cost in few if not cost.is_rest]
    assert len(kept) == most
    assert [c.instructions for c in kept] == sorted((c.instructions for c in kept), reverse=True)
    # What each call that is still there leads to, with all that it calls, is what it was.
    before, after = inclusive(whole), inclusive(few)
    assert len(after) < len(before)
    assert after.items() <= before.items()


@pytest.mark.parametrize("bound", ["_MOST_MERGED", "_MOST_NODES", "_MOST_READ", "DEEPEST"])
def test_no_bound_loses_anything(
    counted: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(call_sites, bound, 4)
    monkeypatch.setattr(call_sites, "MOST_SITES", 5)
    found = costs_in(counted)
    kept: Counter[tuple[str, str]] = Counter()
    for cost in found:
        for measure in MEASURES:
            kept[cost.operation, measure] += getattr(cost, measure)
    assert +kept == totals(counted)
    if bound in ("DEEPEST", "_MOST_READ"):
        assert max(len(cost.frames) for cost in found) <= 4


def inclusive(costs: list[Cost]) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """By operation and the frames of each call on a stack: all that it led to."""
    sums: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for cost in costs:
        path = [(frame["function"], frame["line"]) for frame in cost.frames]
        for depth in range(len(path) + 1):
            key = (cost.operation, *path[:depth])
            there = sums.get(key, (0, 0, 0))
            more = (cost.calls, cost.instructions, cost.bytes)
            sums[key] = tuple(a + b for a, b in zip(there, more, strict=True))
    return sums


def test_a_deep_stack(tmp_path: Path, compile_c: Compile) -> None:
    body = """__attribute__((noipa)) static void down(int n) {
        keep(malloc(77)); if (n) { down(n - 1); keep(NULL); } }
      int main(void) { down(8000); return 0; }"""
    folder = tool(tmp_path, compile_c(f"{PRELUDE}{body}", *OPTIONS, "-O1"))
    found = [cost for cost in costs_in(folder) if cost.bytes]
    assert sum(cost.bytes for cost in found) == 8001 * 77
    depths = [names(cost).count("down") for cost in found if not cost.is_rest]
    assert sorted(depths) == list(range(1, len(depths) + 1))
    (rest,) = [cost for cost in found if cost.is_rest]
    assert len(rest.frames) == call_sites.DEEPEST
    assert rest.calls == 8001 - len(depths)


# ---- against plain counts and callgrind ----


@needs_valgrind
@pytest.mark.parametrize("name", ["lua", "perl", "sqlite3"])
def test_real_programs_count_the_same_with_call_sites(name: str, both_tools: Path) -> None:
    if shutil.which(REAL[name][0]) is None:
        pytest.skip(f"{REAL[name][0]} is not installed")
    plain = ours(both_tools, *REAL[name])
    told_apart = ours(both_tools, *REAL[name], options=[SITES])
    for count in (plain, told_apart):
        del count["pid"], count["parent"]
    assert told_apart == plain
    assert by_operation(both_tools / "counts") == totals(both_tools / "counts")


def inclusive_by_caller(text: str) -> Counter[tuple[str, str]]:
    """What callgrind's file says of the instructions of calls: by caller and callee."""
    known: dict[tuple[str, str], str] = {}
    costs: Counter[tuple[str, str]] = Counter()
    caller = callee = ""
    is_call = False
    for line in text.splitlines():
        if match := re.fullmatch(r"(c?fn)=\((\d+)\)(?: (.*))?", line):
            kind, number, name = match.groups()
            if name:
                known["fn", number] = name.partition("'")[0]
            if kind == "fn":
                caller = known["fn", number]
            else:
                callee = known["fn", number]
        elif line.startswith("calls="):
            is_call = True
        elif is_call:
            costs[caller, callee] += int(line.split()[1])
            is_call = False
    return costs


@needs_valgrind
def test_what_a_caller_costs_is_callgrind_s(both_tools: Path, compile_c: Compile) -> None:
    body = """
      for (int i = 0; i < 300; ++i) { drop(left(10 + i)); drop(larger(right(i * 7), 3000 + i)); }"""
    source = f"{PRELUDE}{FUNCTIONS}int main(void) {{ {body} return 0; }}"
    path = compile_c(source, *OPTIONS, "-O1", "-Wl,-z,now")
    profile = both_tools / "callgrind.out"
    theirs(both_tools, "callgrind", f"--callgrind-out-file={profile}", str(path))
    expected = inclusive_by_caller(profile.read_text())
    ours(both_tools, str(path), options=[SITES])
    mine: Counter[tuple[str, str]] = Counter()
    for cost in costs_in(both_tools / "counts"):
        mine[names(cost)[-1], cost.operation] += cost.instructions
    for caller, operation in (("inner", "malloc"), ("drop", "free"), ("larger", "realloc")):
        assert mine[caller, operation] == expected[caller, operation] > 10_000


@needs_valgrind
def test_the_callers_of_a_real_program_cost_what_callgrind_says(both_tools: Path) -> None:
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed")
    # Looked up at the start, so that no function of the dynamic linker stands in between.
    words, at_once = REAL["perl"], {"LD_BIND_NOW": "1"}
    profile = both_tools / "callgrind.out"
    theirs(both_tools, "callgrind", f"--callgrind-out-file={profile}", *words, **at_once)
    expected = inclusive_by_caller(profile.read_text())
    if any(caller.startswith("0x") and callee == "malloc" for caller, callee in expected):
        pytest.skip("callgrind takes this perl's table of imported functions for their caller")
    ours(both_tools, *words, options=[SITES], **at_once)
    mine: Counter[tuple[str, str]] = Counter()
    for cost in costs_in(both_tools / "counts"):
        mine[names(cost)[-1], cost.operation] += cost.instructions
    compared = {key for key in mine if key[0] and key[1] in ("malloc", "calloc", "realloc")}
    assert {key: mine[key] for key in compared} == {key: expected[key] for key in compared}
    assert len(compared) > 7
    # Perl frees by a jump, which callgrind takes for a call of its own.
    frees = [sum(n for key, n in each.items() if key[1] == "free") for each in (mine, expected)]
    assert frees[0] == frees[1] > 0


# ---- what is damaged ----


def copied(counted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(counted, tmp_path / "copy"))


@pytest.mark.parametrize("name", ["costs", "sites", "frames"])
def test_what_is_missing_is_left_over(counted: Path, tmp_path: Path, name: str) -> None:
    folder = copied(counted, tmp_path)
    for path in folder.glob(f"*.{name}"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    kept: Counter[tuple[str, str]] = Counter()
    found = costs_in(folder)
    for cost in found:
        for measure in MEASURES:
            kept[cost.operation, measure] += getattr(cost, measure)
    assert any(cost.is_rest for cost in found)
    assert +kept == totals(folder)


def test_more_by_call_site_than_was_counted_is_refused(counted: Path, tmp_path: Path) -> None:
    folder = copied(counted, tmp_path)
    for path in folder.glob("*.json"):
        path.write_text(re.sub(r'"calls": \d+', '"calls": 1', path.read_text()))
    with pytest.raises(TareError, match="more than was counted"):
        read_call_sites(folder)


# ---- under Tare ----


def test_the_command(tmp_path: Path, tare: Callable[..., Completed], compile_c: Compile) -> None:
    body = "for (int i = 0; i < 200; ++i) drop(left(10)); drop(right(20));"
    path = compile_c(f"{PRELUDE}{FUNCTIONS}int main(void) {{ {body} return 0; }}", *OPTIONS, "-O1",
                     "-g")  # fmt: skip
    done = tare("count", "--sites", "-m", "glibc", "-o", tmp_path / "results", "--", path)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.partition("Costliest call sites under glibc")[2]
    assert re.search(r"drop \(\w+\.c:\d+\) ← main +free +201 ", shown)
    assert re.search(r"inner \(\w+\.c:\d+\) ← left ← main +malloc +200 ", shown)
    assert "Every count was the same to the instruction" in done.stdout
    first, second = read_records(tmp_path / "results")
    assert first.outcome.details["call_sites"] == second.outcome.details["call_sites"]
    run = (tmp_path / "results" / "run.json").read_text()
    assert '"sites": true' in run


def test_a_plain_count_has_no_call_sites(tmp_path: Path) -> None:
    program = Program("true", ("/bin/true",))
    outcome = instrument.run_once(program, resolve("glibc"), Limits(), tmp_path)
    assert outcome.status is Status.OK
    assert "call_sites" not in outcome.details
    assert not list(tmp_path.rglob("*.costs"))


def test_two_trees_are_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [instrument.launcher(), "--tool=tareinst", "--quiet", f"--count-folder={tmp_path}",
         f"--trace-folder={tmp_path}", SITES, "/bin/true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "--count-sites is for --count-folder without --trace-folder" in done.stderr
