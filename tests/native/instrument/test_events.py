"""Events and phases: exact where they are known, callgrind's inclusive counts elsewhere."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tare.base.native import native_file
from tare.memory_managers.catalogue import (
    load_recipes,
    object_path,
)
from tare.memory_managers.manager import resolve
from tare.observers import instrument
from tare.observers.event_files import (
    COLLECTION,
    MOST_AT_A_PLACE,
    MOST_NAMES,
    NAME_BYTES,
    as_text,
    collector_events,
    in_manager,
    merged_phases,
    read_events,
)
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tests.support.mutations import mutated
from tests.support.valgrind import both_tools, collected, loads_elsewhere, needs_valgrind, ours

__all__ = ["both_tools"]


Completed = subprocess.CompletedProcess[str]
Compile = Callable[..., Path]
BDWGC = load_recipes()["bdwgc"]
needs_bdwgc = pytest.mark.skipif(object_path(BDWGC) is None, reason="bdwgc is not built")
SPIN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
// One byte; then a loop of two instructions, of three and two bytes; then a return.
__attribute__((naked, noinline)) void spin(long n) {
  __asm__("nop\\n1: dec %rdi\\n jnz 1b\\n ret\\n");
}
static void *keep(void *p) { __asm__ volatile("" : "+r"(p) : : "memory"); return p; }
"""
LOOP, RETURN = "spin+1", "spin+6"


def spun(n: int) -> int:
    """The instructions of a call of spin."""
    return 2 + 2 * n


@pytest.fixture
def program(compile_c: Compile) -> Callable[..., Path]:
    """Compile the body of main, after what stands before it."""

    def build(body: str, before: str = "", *flags: str, name: str = "program") -> Path:
        source = f"{SPIN}{before}\nint main(void) {{ {body}\n return 0; }}\n"
        return compile_c(source, "-fno-builtin", "-pthread", "-ldl", *flags, name=name)

    return build


def tool(tmp_path: Path, path: Path, *lines: str) -> list[Any]:
    """What the bare tool leaves for each process, asked for the events in ``lines``."""
    folder = tmp_path / "counts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    file = tmp_path / "asked.events"
    file.write_text("\n".join(lines))
    checked = tmp_path / "checked.events"
    checked.write_text(as_text(read_events(file)))
    subprocess.run(
        [native_file(instrument.LAUNCHER), "--tool=tareinst", "--command-line-only=yes", "--quiet",
         "--vgdb=no", "--trace-children=yes", f"--count-folder={folder}", f"--events={checked}",
         path],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, check=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return instrument.read_counts(folder)


def only(counts: Sequence[Any]) -> Any:
    (count,) = counts
    return count


# ---- what cannot be read ----

READABLE = b"""# a comment
count calls spin
count\tloops program!spin+0x1
begin it main
end it 0x401000
during other libc.so.6!+4096
"""


def refused_or_counted(folder: Path, seed: int) -> None:
    """The bare tool counts what it can, or says which line it cannot read; it never crashes."""
    file = folder / f"{seed}.events"
    content = mutated(READABLE, random.Random(seed))
    file.write_bytes(content)
    ran = subprocess.run(
        [native_file(instrument.LAUNCHER), "--tool=tareinst", "--command-line-only=yes", "--quiet",
         "--vgdb=no", f"--count-folder={folder}", f"--events={file}", "/bin/true"],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    told = ran.stderr.decode(errors="replace")
    assert ran.returncode in (0, 1), (content, ran.returncode, told)
    assert (ran.returncode == 1) == (f"{seed}.events, line " in told), (content, told)


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_file_of_events_is_refused(tmp_path: Path, seed: int) -> None:
    refused_or_counted(tmp_path, seed)


@pytest.mark.soak
def test_many_damaged_files_of_events(tmp_path: Path) -> None:
    for seed in range(100, 700):
        refused_or_counted(tmp_path, seed)


# ---- how often, and how many ----


def test_events_are_counted_exactly(tmp_path: Path, program: Compile) -> None:
    path = program("for (int i = 0; i < 7; ++i) spin(100);")
    count = only(
        tool(
            tmp_path, path,
            "# a comment", "", "count calls spin", f"count\tloops   {LOOP} # another",
            f"count returns {RETURN}", "count both spin", f"count both {RETURN}",
            "count loops_of_it program!spin+0x1", "count nowhere no_such_function",
        )
    )  # fmt: skip
    assert count["events"] == {
        "calls": 7, "loops": 700, "returns": 7, "both": 14, "loops_of_it": 700, "nowhere": 0,
    }  # fmt: skip
    assert count["phases"] == {}


def test_phases_have_their_instructions(tmp_path: Path, program: Compile) -> None:
    path = program("for (int i = 0; i < 7; ++i) spin(100);")
    phases = only(
        tool(
            tmp_path, path, "during calls spin", f"begin loops {LOOP}", f"end loops {RETURN}"
        )
    )["phases"]  # fmt: skip
    # The loop begins inside the function, and is begun again by each of its rounds.
    assert phases["loops"]["instructions"] == 7 * 200
    assert phases["loops"]["times"] == 7 * 100
    assert phases["calls"]["instructions"] == 7 * 2
    alone = only(tool(tmp_path, path, "during calls spin"))["phases"]
    assert alone == {"calls": {"times": 7, "instructions": 7 * spun(100), "by_operation": {}}}


@pytest.mark.parametrize("flags", [("-pie", "-fPIE"), ("-no-pie",)])
def test_places_by_address(tmp_path: Path, program: Compile, flags: tuple[str, ...]) -> None:
    path = program("for (int i = 0; i < 7; ++i) spin(100);", "", *flags)
    address = address_of(path, "spin")
    lines = [f"count loops program!+{address + 1:#x}", f"count decimal program!+{address + 1}"]
    if flags == ("-no-pie",):
        lines.append(f"count fixed {address + 1:#x}")
    events = only(tool(tmp_path, path, *lines))["events"]
    assert set(events.values()) == {700}


def address_of(path: Path, symbol: str) -> int:
    listed = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in listed.splitlines() if line.split()[-1] == symbol)
    return int(line.split()[0], 16)


def test_a_phase_is_told_by_operation(tmp_path: Path, program: Compile) -> None:
    path = program(
        "work(); free(keep(malloc(10)));",
        """__attribute__((noinline)) void work(void) {
          for (int i = 0; i < 100; ++i) free(keep(malloc(50)));
          free(keep(calloc(3, 5)));
          spin(1000); }""",
    )
    count = only(tool(tmp_path, path, "during work work"))
    phase = count["phases"]["work"]
    assert phase["times"] == 1
    assert set(phase["by_operation"]) == {"malloc", "calloc", "free"}
    assert phase["by_operation"]["calloc"] == count["operations"]["calloc"]["instructions"]
    for name in ("malloc", "free"):
        assert 0 < phase["by_operation"][name] < count["operations"][name]["instructions"]
    outside = phase["instructions"] - in_manager(phase)
    assert spun(1000) < outside < spun(1000) + 3000


def test_the_innermost_phase_gets_the_instructions(tmp_path: Path, program: Compile) -> None:
    before = """
      __attribute__((noinline)) void inner(void) { spin(500); __asm__ volatile(""); }
      __attribute__((noinline)) void outer(void) { spin(300); inner(); __asm__ volatile(""); }
    """
    path = program("for (int i = 0; i < 9; ++i) outer();", before)
    whole = only(tool(tmp_path, path, "during outer outer"))["phases"]["outer"]
    both = only(tool(tmp_path, path, "during outer outer", "during inner inner"))["phases"]
    assert both["inner"]["times"] == both["outer"]["times"] == 9
    assert 9 * spun(500) < both["inner"]["instructions"] < 9 * (spun(500) + 20)
    assert both["outer"]["instructions"] + both["inner"]["instructions"] == whole["instructions"]


def test_a_phase_within_itself_is_one_however_deep(tmp_path: Path, program: Compile) -> None:
    path = program(
        "down(1000); spin(100000);",
        """__attribute__((noinline)) long down(long n) {
          if (n == 0) { spin(777); free(keep(malloc(10))); spin(777); return 0; }
          return down(n - 1) + n; }""",
        "-fno-optimize-sibling-calls",
    )
    phases = only(tool(tmp_path, path, "during down down", "during malloc malloc"))["phases"]
    assert phases["down"]["times"] == 1001
    assert 2 * spun(777) < phases["down"]["instructions"] < 2 * spun(777) + 1001 * 20
    assert phases["malloc"]["by_operation"]["malloc"] == phases["malloc"]["instructions"] > 0


# ---- ways out of a phase ----


def test_a_longjmp_ends_phases(tmp_path: Path, program: Compile) -> None:
    path = program(
        """for (volatile int i = 0; i < 40; ++i) if (setjmp(out) == 0) deep();
           spin(1000000);""",
        """static jmp_buf out;
        __attribute__((noinline)) void deeper(void) { spin(50); longjmp(out, 1); }
        __attribute__((noinline)) void deep(void) { spin(30); deeper(); __asm__ volatile(""); }""",
    )
    phases = only(tool(tmp_path, path, "during deep deep", "during deeper deeper"))["phases"]
    assert phases["deep"]["times"] == phases["deeper"]["times"] == 40
    assert 40 * spun(30) < phases["deep"]["instructions"] < 40 * (spun(30) + 20)
    assert 40 * spun(50) < phases["deeper"]["instructions"] < 40 * (spun(50) + 400)


def test_an_exception_ends_phases(tmp_path: Path) -> None:
    source = tmp_path / "throwing.cpp"
    source.write_text("""
      extern "C" __attribute__((noinline)) void thrower(int i) {
        if (i % 2 == 0) throw i; }
      extern "C" __attribute__((noinline)) void outer(int i) {
        try { thrower(i); } catch (int) { __asm__ volatile("nop"); } }
      extern "C" __attribute__((noinline)) void after(void) {
        for (volatile long i = 0; i < 2000000; ++i) { } }
      int main() { for (int i = 0; i < 20; ++i) outer(i); after(); }""")
    binary = tmp_path / "throwing"
    subprocess.run(["c++", "-O1", "-o", binary, source], check=True)
    phases = only(
        tool(tmp_path, binary, "during thrower thrower", "during outer outer", "during after after")
    )["phases"]
    assert phases["thrower"]["times"] == phases["outer"]["times"] == 20
    assert phases["after"]["times"] == 1
    assert phases["after"]["instructions"] > 6_000_000
    assert phases["outer"]["instructions"] < 1_000_000
    assert phases["thrower"]["instructions"] < 5_000_000, "unwinding, and nothing after it"


def test_a_handler_belongs_to_the_phase_and_to_no_operation(
    tmp_path: Path, program: Compile
) -> None:
    path = program(
        "signal(SIGUSR1, handle); for (int i = 0; i < 6; ++i) free(malloc(8));",
        """#include <signal.h>
        static char pool[1 << 16];
        static size_t used;
        static void handle(int number) { (void)number; spin(5000); }
        __attribute__((noipa)) void *malloc(size_t n) {
          raise(SIGUSR1); return pool + (used += (n + 15) & ~15ul); }
        __attribute__((noipa)) void free(void *p) { (void)p; }""",
    )
    whole = only(tool(tmp_path, path, "during main main", "count handled spin"))
    phase = whole["phases"]["main"]
    assert whole["events"]["handled"] == 6
    assert whole["instructions"] > phase["instructions"] > 6 * spun(5000)
    assert phase["by_operation"]["malloc"] < spun(5000)
    both = only(tool(tmp_path, path, "during main main", "during spin spin"))["phases"]
    assert both["spin"] == {"times": 6, "instructions": 6 * spun(5000), "by_operation": {}}
    assert both["main"]["instructions"] + 6 * spun(5000) == phase["instructions"]


def test_each_thread_has_phases_of_its_own(tmp_path: Path, program: Compile) -> None:
    # Long enough for the threads to take turns in the middle of the phase.
    path = program(
        """pthread_t threads[4];
        for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, NULL);
        for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);""",
        "static void *work(void *unused) { for (int i = 0; i < 3; ++i) spin(300000);"
        " return unused; }",
    )
    count = only(tool(tmp_path, path, "during spin spin", f"count loops {LOOP}"))
    assert count["threads"] == 5
    assert count["events"] == {"loops": 12 * 300_000}
    phase = count["phases"]["spin"]
    assert (phase["times"], phase["instructions"]) == (12, 12 * spun(300_000))


def test_the_child_of_a_fork_starts_at_zero(tmp_path: Path, program: Compile) -> None:
    path = program(
        "work();",
        """__attribute__((noinline)) void work(void) {
          spin(1000);
          pid_t child = fork();
          if (child == 0) { for (int i = 0; i < 3; ++i) spin(10); _exit(0); }
          int status;
          waitpid(child, &status, 0);
          spin(20); }""",
    )
    lines = ("count loops " + LOOP, "during spin spin", "during work work")
    counts = sorted(tool(tmp_path, path, *lines), key=lambda count: int(count["instructions"]))
    child, parent = counts
    assert child["parent"] == parent["pid"]
    assert (child["events"]["loops"], parent["events"]["loops"]) == (30, 1020)
    assert child["phases"]["spin"]["instructions"] == 3 * spun(10)
    assert parent["phases"]["spin"]["instructions"] == spun(1000) + spun(20)
    # The child is still in the phase that it was forked in, which began before its count.
    assert child["phases"]["work"]["times"] == 0
    assert 0 < child["phases"]["work"]["instructions"] < child["instructions"]
    together = merged_phases(count["phases"] for count in counts)
    assert together["spin"]["times"] == 5


def test_a_library_that_comes_and_goes(
    tmp_path: Path, program: Compile, compile_c: Compile
) -> None:
    library = """__attribute__((noinline)) int twice(int n) {{ {} return n * 2; }}"""
    for name, extra in (("one.so", ""), ("two.so", "n += 1;")):
        compile_c(library.format(extra), "-shared", "-fPIC", name=name)
    path = program(f"""
      for (int i = 0; i < 5; ++i) for (int j = 0; j < 2; ++j) {{
        void *library = dlopen(j ? "{tmp_path}/two.so" : "{tmp_path}/one.so", RTLD_NOW);
        int (*twice)(int) = (int (*)(int))dlsym(library, "twice");
        for (int k = 0; k < 10 + 10 * j; ++k) twice(k);
        dlclose(library);
      }}""")
    offset = address_of(tmp_path / "two.so", "twice")
    events = only(
        tool(
            tmp_path, path, "count any twice", "count one one.so!twice", "count two two.so!twice",
            f"count two_by_address two.so!+{offset:#x}",
        )
    )["events"]  # fmt: skip
    assert events == {"any": 150, "one": 50, "two": 100, "two_by_address": 100}


# ---- against callgrind ----

WORKER = """
struct node { struct node *left, *right; char *text; long key; };
__attribute__((noinline)) struct node *insert(struct node *at, long key) {
  if (at == NULL) {
    at = calloc(1, sizeof *at);
    at->key = key;
    at->text = malloc(10 + key % 100);
    snprintf(at->text, 10, "%ld", key);
  } else if (key < at->key) at->left = insert(at->left, key);
  else at->right = insert(at->right, key);
  return at;
}
__attribute__((noinline)) void drop(struct node *at) {
  if (at == NULL) return;
  drop(at->left); drop(at->right); free(at->text); free(at);
}
"""
WORK = """
  struct node *root = NULL;
  for (long i = 0; i < 3000; ++i) root = insert(root, i * 7919 % 3001);
  drop(root);
"""


@needs_valgrind
@pytest.mark.parametrize("function", ["insert", "drop", "main"])
def test_a_function_s_phase_is_callgrind_s_inclusive_cost(
    function: str, program: Compile, both_tools: Path
) -> None:
    path = str(program(WORK, WORKER))
    events = both_tools / "events"
    events.write_text(f"during it {function}\n")
    phase = ours(both_tools, path, options=[f"--events={events}"])["phases"]["it"]
    inclusive = collected(both_tools, path, options=[f"--toggle-collect={function}"])
    assert phase["instructions"] == inclusive


RUNS_OF_A_COLLECTOR = 3
GARBAGE = """
  static void *kept[500];
  for (long i = 0; i < 60000; ++i) {
    void **object = malloc(40 + i % 64);
    object[0] = i % 3 ? kept[i * 7919 % 500] : NULL;
    kept[i % 500] = object;
    if (i % 100 == 0) keep(malloc(20000));
  }
"""


@needs_valgrind
@needs_bdwgc
def test_collection_is_callgrind_s_inclusive_cost(program: Compile, both_tools: Path) -> None:
    manager = resolve("bdwgc")
    assert manager.collector is not None
    path = str(program(GARBAGE))
    events = both_tools / "events"
    events.write_text(as_text(collector_events(manager)))
    preload = f"{both_tools}/frozen.so {manager.server}"
    # callgrind's toggles do not nest. These two are never inside each other here, and the rest of
    # what is named is inside them.
    outermost = ("GC_try_to_collect_inner", "GC_reclaim_generic")
    assert set(outermost) <= set(manager.collector.work)
    toggles = [f"--toggle-collect={function}" for function in outermost]
    # A conservative collector marks what stale words of the stack point to. Seldom do two runs
    # differ in one of these, under either tool, so the exact equality may be reached by the next.
    for _ in range(RUNS_OF_A_COLLECTOR):
        count = ours(both_tools, path, options=[f"--events={events}"], LD_PRELOAD=preload)
        inclusive = collected(both_tools, path, options=toggles, LD_PRELOAD=preload)
        if count["phases"][COLLECTION]["instructions"] == inclusive:
            break
    near = 1e-4 if loads_elsewhere() else 0
    found = count["phases"][COLLECTION]["instructions"]
    assert found == pytest.approx(inclusive, rel=near, abs=0)
    assert count["events"][COLLECTION] > 1


# ---- collectors ----


@pytest.mark.parametrize("name", [n for n, r in load_recipes().items() if r.collector is not None])
def test_the_functions_of_a_collector_are_in_its_object(name: str) -> None:
    recipe = load_recipes()[name]
    path = object_path(recipe)
    if path is None:
        pytest.skip(f"{name} is not built")
    assert recipe.collector is not None
    listed = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    functions = {w[2] for line in listed.splitlines() if (w := line.split())[1:2] in (["t"], ["T"])}
    assert {*recipe.collector.work, recipe.collector.collection} <= functions


@needs_bdwgc
@pytest.mark.parametrize("manager", ["bdwgc", "bdwgc(free=honoured)"])
def test_collection_is_told_from_allocation(tmp_path: Path, program: Compile, manager: str) -> None:
    ask = """
      size_t (*number)(void) = (size_t (*)(void))dlsym(RTLD_DEFAULT, "GC_get_gc_no");
      printf("%zu", number());"""
    one = Program("test", (str(program(GARBAGE + ask)),))
    printed = tmp_path / "printed"
    limits = Limits()
    outcome = instrument.run_once(one, resolve(manager), limits, tmp_path, printed)
    assert outcome.status is Status.OK, outcome.reason
    values, collector = outcome.values, outcome.details["collector"]
    assert values["collections"] == int(printed.read_text()) > 1
    assert values["collector_instructions"] == sum(collector["by_operation"].values())
    assert 0.05 < values["collector_instructions"] / values["manager_instructions"] < 0.99
    operations = outcome.details["operations"]
    for name, instructions in collector["by_operation"].items():
        assert 0 < instructions < operations[name]["instructions"]
    # A usual call has no collection in it, so that taking them out leaves something like it.
    malloc = operations["malloc"]
    alone = (malloc["instructions"] - collector["by_operation"]["malloc"]) / malloc["calls"]
    assert malloc["fewest"] < alone < malloc["most"] / 10
    assert outcome.details["phases"] == outcome.details["events"] == {}


@needs_bdwgc
def test_a_collection_outside_the_family_is_not_the_manager_s(
    tmp_path: Path, program: Compile
) -> None:
    path = program("""
      void (*collect)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "GC_gcollect");
      for (int i = 0; i < 5; ++i) collect();""")
    one = Program("test", (str(path),))
    outcome = instrument.run_once(one, resolve("bdwgc"), Limits(), tmp_path)
    assert outcome.values["collections"] >= 5
    assert outcome.values["collector_instructions"] < outcome.values["manager_instructions"]
    assert outcome.details["collector"]["instructions"] > 5 * 1000
    assert outcome.values["collector_instructions"] < outcome.details["collector"]["instructions"]


@needs_bdwgc
def test_a_deep_program_hides_no_collection(tmp_path: Path, program: Compile) -> None:
    """Phases of the user's must not push those of the collector out."""
    path = program(
        "down(300);",
        f"""__attribute__((noinline)) void up(long n);
        __attribute__((noinline)) void down(long n) {{
          if (n > 0) up(n - 1); else {{ {GARBAGE} }} __asm__ volatile(""); }}
        __attribute__((noinline)) void up(long n) {{ down(n); __asm__ volatile(""); }}""",
    )
    file = tmp_path / "deep.events"
    file.write_text("during down down\nduring up up\n")
    one, manager, limits = Program("test", (str(path),)), resolve("bdwgc"), Limits()
    asked = instrument.run_once(one, manager, limits, tmp_path, events=read_events(file))
    assert asked.details["phases"]["up"]["times"] == 300
    assert asked.details["phases"]["down"]["times"] == 301
    share = asked.values["collector_instructions"] / asked.values["manager_instructions"]
    assert share > 0.05
    assert asked.details["phases"]["down"]["by_operation"]["malloc"] + asked.details["collector"][
        "by_operation"
    ]["malloc"] == pytest.approx(asked.values["malloc_instructions"], rel=0.1)


def test_a_manager_without_a_collector_has_none(tmp_path: Path, program: Compile) -> None:
    one = Program("test", (str(program("free(keep(malloc(5)));")),))
    outcome = instrument.run_once(one, resolve("glibc"), Limits(), tmp_path)
    assert "collector" not in outcome.details
    assert not {"collections", "collector_instructions"} & set(outcome.values)


def test_the_most_names_fit(tmp_path: Path, program: Compile) -> None:
    path = program("spin(10);")
    names = [f"{i:0{NAME_BYTES}}" for i in range(MOST_NAMES)]
    here, elsewhere = names[:MOST_AT_A_PLACE], names[MOST_AT_A_PLACE:]
    lines = [f"count {name} {LOOP}" for name in here]
    lines += [f"count {name} elsewhere+{i}" for i, name in enumerate(elsewhere)]
    events = only(tool(tmp_path, path, *lines))["events"]
    assert events == {**dict.fromkeys(here, 10), **dict.fromkeys(elsewhere, 0)}


# ---- the command ----


@needs_bdwgc
def test_the_command(tmp_path: Path, tare: Callable[..., Completed], program: Compile) -> None:
    path = program(GARBAGE + "for (int i = 0; i < 50; ++i) spin(10);")
    (tmp_path / "x.events").write_text(
        f"count loops {LOOP}\nduring spinning spin\nduring all main\ncount nowhere nothing\n"
    )
    done = tare("count", "-o", "r", "--json", "out.json", "-m", "glibc", "-m", "bdwgc", "--once",
                "--events", "x.events", "--", path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = re.sub(r" +", " ", done.stdout)
    for manager in ("glibc", "bdwgc"):
        assert f"\n{manager} loops 500 " in shown
        assert f"\n{manager} spinning 50 " in shown
    assert "\nbdwgc (collection) " in shown
    assert "\nglibc (collection) " not in shown
    assert "Never reached: nowhere." in shown
    assert "of the manager's instructions are collection" in shown
    assert "mean alone" in shown
    page = (tmp_path / "r" / "report.html").read_text()
    assert "Instructions: program, allocation, collection" in page
    assert "cannot be drawn" not in page
    rows = json.loads((tmp_path / "out.json").read_text())["measurements"]
    collecting = [row for row in rows if row["metric"] == "collector_instructions"]
    assert [row["manager"] for row in collecting] == ["bdwgc"]
    lines = (tmp_path / "r" / "runs.jsonl").read_text().splitlines()
    for record in map(json.loads, lines):
        assert record["details"]["events"] == {"loops": 500, "nowhere": 0}
        assert record["details"]["phases"]["spinning"]["instructions"] == 50 * spun(10)
    asked = json.loads((tmp_path / "r" / "run.json").read_text())["request"]["events"]
    assert asked[0] == f"count loops {LOOP.replace('+1', '+0x1')}"
    # Another file is another question.
    (tmp_path / "x.events").write_text("count loops main\n")
    again = tare("count", "-o", "r", "-m", "glibc", "-m", "bdwgc", "--once", "--events", "x.events",
                 "--", path)  # fmt: skip
    assert again.returncode == 2
    assert "a different command" in again.stderr


def test_without_a_collector_there_is_no_column_for_one(
    tmp_path: Path, tare: Callable[..., Completed], program: Compile
) -> None:
    path = program("free(keep(malloc(5)));")
    done = tare("count", "-o", "r", "-m", "glibc", "--once", "--", path)
    assert done.returncode == 0, done.stderr
    assert not re.search("collect|mean alone|Phases|Events", done.stdout)


def test_the_command_refuses_a_wrong_file(tmp_path: Path, tare: Callable[..., Completed]) -> None:
    (tmp_path / "x.events").write_text("count a\n")
    done = tare("count", "--events", "x.events", "--", "true")
    assert done.returncode == 2
    assert "x.events, line 1: has 2 words, not three" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "tare-results").exists()
