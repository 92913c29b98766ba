"""The memory-system simulator: against plain models on random accesses, against cachegrind on real
programs, and the command around it."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.base.native import native_file
from tare.heap_traces.recording import TableReader
from tare.observers import memory_system
from tare.observers.memory_details import KINDS
from tare.observers.memory_model import (
    MemoryModel,
    load_model,
    model_from_table,
    simulator_lines,
)
from tare.records.metrics import METRICS, Obtained
from tare.studies.memsys import report as study
from tests.native.instrument.naive_memory import (
    KIND,
    Access,
    Decstation,
    Hierarchy,
    Lru,
    covered,
    distances,
    trace,
)
from tests.support import ROOT
from tests.support.valgrind import loads_elsewhere, real_program

Completed = subprocess.CompletedProcess[str]
Compile = Callable[..., Path]
Simulate = Callable[..., dict[str, Any]]
SIMULATOR = ROOT / "observers" / "instrument"
DATA = {"level": 1, "holds": "data"}
CODE = {"level": 1, "holds": "instructions"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulator as an ordinary program, with sanitizers."""
    binary = tmp_path_factory.mktemp("alone") / "memsys"
    sources = [
        p for p in (SIMULATOR / "memsys").glob("*.c") if p.name not in ("feed.c", "helper.c")
    ]
    folder = Path(__file__).parent / "memsys_alone"
    subprocess.run(
        ["cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{folder}",
         f"-I{SIMULATOR}", "-o", binary, *sources, folder / "main.c"],
        check=True,
    )  # fmt: skip
    return binary


@pytest.fixture
def simulate(alone: Path, tmp_path: Path) -> Simulate:
    def run(models: Iterable[MemoryModel], accesses: Iterable[Access], *more: str) -> Any:
        return json.loads(raw(alone, tmp_path, lines_of(models, *more), accesses).stdout)

    return run


def lines_of(models: Iterable[MemoryModel], *more: str) -> str:
    return "\n".join([*(line for m in models for line in simulator_lines(m)), *more])


def raw(alone: Path, folder: Path, text: str, accesses: Iterable[Access]) -> Completed:
    description = folder / "models"
    description.write_text(text)
    dice = random.Random(1)
    lines = []
    for kind, first, second in accesses:
        if kind == "i" and dice.random() < 0.2:
            lines.append("e")
        lines.append(f"{kind} {first} {second:x}" if kind in "op" else f"{kind} {first:x} {second}")
    return subprocess.run(
        [alone, description],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )


def counts_of(found: dict[str, Any], model: int = 0) -> list[int]:
    rows = [context["models"][model] for context in found["contexts"]]
    return [sum(column) for column in zip(*rows, strict=True)]


def misses_of(found: dict[str, Any], model: int = 0) -> dict[str, list[int]]:
    counts = counts_of(found, model)
    return {
        kind: [memory_system.misses(counts, kind, level) for level in (1, 2, 3)] for kind in KINDS
    }


def a_model(*caches: dict[str, Any], name: str = "tried", **more: Any) -> MemoryModel:
    parts = [{"ways": 1, "line": "64B", "miss_cycles": 1, **cache} for cache in caches]
    return model_from_table(name, {"cache": parts, **more}, name)


# ---- the simulator against plain models ----


def random_model(seed: int) -> MemoryModel:
    dice = random.Random(seed)

    def cache(level: int, holds: str, lines: Sequence[str]) -> dict[str, Any]:
        ways, line = dice.choice((1, 2, 3, 4, 8)), dice.choice(lines)
        sets = dice.choice((1, 2, 4, 8)) * (1 if level == 1 else dice.choice((1, 3, 4)) * 2)
        return {
            "level": level, "holds": holds, "ways": ways, "line": line,
            "size": f"{sets * ways * int(line[:-1])}B",
            "write_miss": dice.choice(("fetch", "fetch", "around")),
            "write_hit": dice.choice(("back", "back", "through")),
            "inclusive": level > 1 and dice.random() < 0.4,
        }  # fmt: skip

    small, large = ("16B", "32B", "64B"), ("32B", "64B", "128B")
    caches = (
        [cache(1, "both", small)]
        if dice.random() < 0.25
        else [cache(1, "instructions", small), cache(1, "data", small)]
    )
    caches += [cache(level, "both", large) for level in range(2, dice.randrange(2, 5))]
    tlb = {"ways": 2, "page": "1KiB", "miss_cycles": 1}
    tlbs = dice.choice(
        ([], [{"entries": 8, "holds": "both", **tlb}], [{"entries": 4, "holds": "data", **tlb}],
         [{"entries": 8, "holds": "data", **tlb}, {"entries": 2, "holds": "instructions", **tlb}])
    )  # fmt: skip
    return a_model(*caches, tlb=tlbs)


@pytest.mark.parametrize("seed", range(40))
def test_any_hierarchy_is_as_a_plain_one(seed: int, simulate: Simulate) -> None:
    model = random_model(seed)
    accesses = trace(seed, 4000)
    plain = Hierarchy(model)
    plain.run(accesses)
    found = simulate([model], accesses)
    assert misses_of(found) == plain.misses
    counts = counts_of(found)
    assert {k: memory_system.translation_misses(counts, k) for k in KINDS} == plain.untranslated
    number = {kind: sum(access[0] == kind for access in accesses) for kind in KIND}
    (context,) = found["contexts"]
    assert (context["instructions"], context["reads"], context["writes"]) == tuple(
        number[kind] for kind in "irw"
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_straddling_access_that_counts_once(seed: int, simulate: Simulate) -> None:
    model = a_model(
        {**CODE, "size": "1KiB", "ways": 2}, {**DATA, "size": "2KiB", "ways": 4},
        {"level": 2, "size": "8KiB", "ways": 4}, straddling="access",
    )  # fmt: skip
    accesses = trace(seed, 6000)
    plain = Hierarchy(model)
    plain.run(accesses)
    assert misses_of(simulate([model], accesses)) == plain.misses


@pytest.mark.parametrize("seed", range(4))
def test_the_decstation(seed: int, simulate: Simulate) -> None:
    accesses = trace(seed, 15000, spread=1 << 18)
    plain = Decstation()
    plain.run(accesses)
    found = simulate([load_model("decstation-5000-200")], accesses)
    assert {kind: levels[0] for kind, levels in misses_of(found).items()} == plain.misses
    assert counts_of(found)[-1] == plain.buffer_stalls > 0


def test_the_decstation_s_table(simulate: Simulate) -> None:
    """Cases of the tables that can be counted by hand."""
    model = load_model("decstation-5000-200")
    write = [("i", 0, 4), ("w", 0x10000, 4)]
    read_back = simulate([model], [*write, ("i", 4, 4), ("r", 0x10000, 4)])
    assert misses_of(read_back)["read"][0] == 0, "a write makes its word present"
    beside = simulate([model], [*write, ("i", 4, 4), ("r", 0x10004, 4), ("r", 0x1000C, 4)])
    assert misses_of(beside)["read"][0] == 1, "and no other; a read miss fetches 16 bytes"
    # The first write of a page takes 5 cycles, and 6 entries wait: the seventh waits for the first.
    same_page = [("i", 0, 4), *(("w", 0x10000 + 4 * k, 4) for k in range(7))]
    assert counts_of(simulate([model], same_page))[-1] == 5
    other_pages = [("i", 0, 4), *(("w", 0x10000 + 4096 * k, 4) for k in range(8))]
    assert counts_of(simulate([model], other_pages))[-1] == 10


def test_several_models_in_one_run(simulate: Simulate) -> None:
    accesses = trace(7, 6000)
    models = [random_model(3), load_model("decstation-5000-200"), random_model(4)]
    models = [a_model_named(model, f"m{i}") for i, model in enumerate(models)]
    together = simulate(models, accesses)
    for number, model in enumerate(models):
        assert counts_of(together, number) == counts_of(simulate([model], accesses))


def a_model_named(model: MemoryModel, name: str) -> MemoryModel:
    import dataclasses

    return dataclasses.replace(model, name=name)


Charged = Counter[tuple[int, int, int]]


def by_instruction(plain: Hierarchy | Decstation, accesses: Iterable[Access]) -> Charged:
    """Run ``accesses``, and say what happened at each instruction: by its address, its bytes, and
    the place in a row of counts."""
    found: Charged = Counter()

    def row() -> list[int]:
        if isinstance(plain, Decstation):
            missed = [n for kind in KINDS for n in (plain.misses[kind], 0, 0)]
            return [*missed, 0, 0, 0, plain.buffer_stalls]
        missed = [n for kind in KINDS for n in plain.misses[kind]]
        return [*missed, *(plain.untranslated[kind] for kind in KINDS), 0]

    def watched() -> Iterator[Access]:
        address = size = 0
        for access in accesses:
            if access[0] == "i":
                _, address, size = access
            before = row()
            yield access
            for event, (then, now) in enumerate(zip(before, row(), strict=True)):
                if now > then:
                    found[address, size, event] += now - then

    plain.run(watched())
    return found


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, -1])
def test_what_happens_is_charged_to_the_instruction(seed: int, simulate: Simulate) -> None:
    model = load_model("decstation-5000-200") if seed < 0 else random_model(seed)
    accesses = trace(seed + 90, 5000, spread=1 << 16)
    expected = by_instruction(Decstation() if seed < 0 else Hierarchy(model), accesses)
    found = simulate([ANY, model], accesses, "by-instruction")
    charged: Charged = Counter()
    for context, number, address, size, event, count in found["occurrences"]:
        assert context == 0
        if number == 1:
            charged[address, size, event] += count
    assert charged == expected
    assert len(expected) > 100


def test_operations_and_collections_are_not_charged_to_instructions(simulate: Simulate) -> None:
    some = trace(3, 2000)
    accesses = [*some, ("o", 2, 77), *some, ("o", 0, 0), ("p", 4, 0), *some, ("p", 3, 0), *some]
    found = simulate([ANY], accesses, "by-instruction", "collecting 4", "collector 8")
    contexts = [(each["operation"], each["phase"]) for each in found["contexts"]]
    assert sorted(contexts) == [("2", ""), ("program", ""), ("program", "3"), ("program", "4")]
    sums = [[0] * len(counts_of(found)) for _ in contexts]
    for context, _, _, _, event, count in found["occurrences"]:
        sums[context][event] += count
    for charged, one, context in zip(sums, contexts, found["contexts"], strict=True):
        whole = one in (("program", ""), ("program", "3"))
        assert charged == (context["models"][0] if whole else [0] * len(charged))


def test_a_collection_lasts_while_the_collector_is_entered(simulate: Simulate) -> None:
    """It begins with a phase that collects; other phases, and the collector's entry, are none."""
    code = [("i", 4 * k, 4) for k in range(50)]
    accesses: list[Access] = []
    for phase in (0, 1, 0, 2, 0, 2, 6, 2, 10, 2, 0, 4):
        accesses += [("p", phase, 0), *code]
    found = simulate([ANY], accesses, "collecting 4", "collecting 8", "collector 2")
    assert found["collections"] == 2
    # The program's own, from the first look at it on.
    assert found["before_collections"]["instructions"] == (2 + 1) * len(code)
    assert found["after_collections"]["instructions"] == len(code)
    assert simulate([ANY], accesses)["collections"] == 4


ANY = a_model({**CODE, "size": "1KiB"}, {**DATA, "size": "1KiB"})


@pytest.mark.parametrize(("seed", "spread"), [(1, 1 << 12), (2, 1 << 16), (3, 1 << 20)])
def test_curves_of_all_sizes(seed: int, spread: int, simulate: Simulate) -> None:
    accesses = trace(seed, 6000, spread)
    found = simulate([ANY], accesses, "curve data 64")
    (curve,) = found["curves"]
    counts = curve["owners"]["program"]
    lines = [n for kind, a, size in accesses if kind in "rw" for n in covered(a, size, 64)]
    plain = list(distances(lines))
    assert counts["accesses"] == len(lines)
    assert counts["first_uses"] == plain.count(None) == curve["lines"]
    exact = {start: n for start, n in counts["distances"] if start < 64}
    assert exact == {d: plain.count(d) for d in range(64) if d in plain}
    (details,) = memory_system.curve_details([found])
    for size, missed in details["program"]["misses"]:
        assert missed == sum(d is None or d >= size // 64 for d in plain)
    for ways, points in details["associative"].items():
        for size, missed in points[:6]:
            cache = Lru(size // 64 // int(ways), int(ways))
            assert missed == sum(not cache.touch(line)[0] for line in lines), (ways, size)


def test_distances_survive_the_compaction_of_time(simulate: Simulate) -> None:
    """More uses than there are slots, and more lines than half of them."""
    accesses: list[Access] = []
    for turn in range(3):
        for k in range(45_000):
            accesses += [("i", 64 * (k % 3), 4), ("r", 64 * k, 4)]
            accesses += [("r", 64 * (k % 5), 4)] * (turn == 1)
    (curve,) = simulate([ANY], accesses, "curve data 64")["curves"]
    counts = curve["owners"]["program"]
    assert counts["first_uses"] == 45_000
    bins = dict(map(tuple, counts["distances"]))
    assert sum(n for start, n in bins.items() if 44_000 <= start < 45_056) >= 2 * 44_990


def test_operations_phases_and_callers(simulate: Simulate) -> None:
    code = [("i", 0x1000, 4), ("r", 0x2000, 8)]
    accesses: list[Access] = [*code * 10]
    for caller in (0xA, 0xB, 0xA):
        accesses += [("o", 1, caller), *code * 3, ("o", 0, 0), *code]
    accesses += [("p", 1, 0), *code * 5, ("p", 0, 0), *code * 2]
    found = simulate([ANY], accesses)
    by = {
        (c["operation"], c["phase"], c.get("caller", {}).get("address", 0)): c
        for c in found["contexts"]
    }
    assert {key: c["instructions"] for key, c in by.items()} == {
        ("program", "", 0): 15, ("1", "", 0xA): 6, ("1", "", 0xB): 3, ("program", "1", 0): 5,
    }  # fmt: skip
    assert by["1", "", 0xA]["calls"] == 2
    assert found["collections"] == 1
    assert found["before_collections"]["instructions"] == 3, "what followed the last look"
    assert found["after_collections"]["instructions"] == 0, "the window is not over"


def test_windows_around_collections(simulate: Simulate) -> None:
    code: list[Access] = [("i", 0x1000, 4), ("r", 0x2000, 8)]
    accesses: list[Access] = []
    for _ in range(3):
        accesses += [*code * 30_000, ("p", 1, 0), *code * 10, ("p", 0, 0)]
    accesses += code * 30_000
    found = simulate([ANY], accesses, "window 15000")
    assert found["collections"] == 3
    for name in ("before_collections", "after_collections"):
        assert 3 * 15_000 * 0.6 <= found[name]["instructions"] <= 3 * 15_000 * 1.8


@pytest.mark.parametrize(
    "text",
    ["", "cache 1 data 4 1 64 fetch back free", "model a", "model a\ncache 1 data 4 1 64",
     "model a\ncache 1 data 0 1 64 fetch back free", "model a\ncache 9 data 1 1 64 fetch back free",
     "model a\ncache 1 both 3 1 64 fetch back free", "model a\ncache 1 both 1 1 65 fetch back free",
     "model a\nwhat 1", "model a\ncache 1 both 1 1 64 fetch back free\ntlb data 1 1 100",
     "model a\ncache 1 both 1 1 64 fetch back free\ncache 3 both 1 1 64 fetch back free",
     "model a b", "model a\n" + "x " * 40, "curve data x"],
)  # fmt: skip
def test_a_wrong_description_is_refused(text: str, alone: Path, tmp_path: Path) -> None:
    done = raw(alone, tmp_path, text, [])
    assert done.returncode == 1
    assert done.stdout
    assert "runtime error" not in done.stderr


# ---- in the instrument ----


def tool(
    folder: Path, words: Sequence[str], models: str, *options: str, **environment: str
) -> list[Any]:
    """The bare tool: what it left for each process, with its count under ``count``."""
    for name in ("counts", "memsys"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    (folder / "models").write_text(models)
    subprocess.run(
        [launcher(folder), "--tool=tareinst", "--command-line-only=yes", "--quiet", "--vgdb=no",
         "--trace-children=yes", f"--count-folder={folder / 'counts'}",
         f"--memsys={folder / 'models'}", f"--memsys-folder={folder / 'memsys'}", *options, *words],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    found = []
    for path in sorted((folder / "memsys").glob("*.json")):
        counted = json.loads((folder / "counts" / path.name).read_text())
        found.append({**json.loads(path.read_text()), "count": counted})
    return found


def launcher(folder: Path) -> Path:
    own = folder / "tare-valgrind"
    return own if own.exists() else native_file("valgrind/tare-valgrind")


BUSY = """
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static void *keep(void *p) { __asm__ volatile("" : "+r"(p) : : "memory"); return p; }
static void *work(void *unused) {
  void *p[100];
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 100; ++i) p[i] = memset(malloc(48), 1, 48);
    for (int i = 0; i < 100; ++i) free(p[i]);
  }
  return unused; }
static void handler(int number) { (void)number; free(keep(malloc(99))); }
int main(int argc, char **argv) {
  (void)argv;
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  if (argc > 1) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 50; ++i) { raise(SIGUSR1); work(NULL); }
  }
  if (fork() == 0) { for (int i = 0; i < 1000; ++i) free(keep(calloc(3, 40))); _exit(0); }
  wait(NULL);
  for (int i = 0; i < 1000; ++i) keep(realloc(NULL, 100));
  if (argc > 2) execlp("true", "true", NULL);
  return 0; }
"""


@pytest.mark.parametrize("arguments", [[], ["signals"], ["signals", "exec"]])
def test_every_instruction_is_charged_to_whom_it_is_counted_for(
    arguments: list[str], tmp_path: Path, compile_c: Compile
) -> None:
    """Threads, handlers, forks and execs: the stream of accesses has them all, in the right
    place."""
    program = compile_c(BUSY, "-fno-builtin", "-pthread")
    found = tool(tmp_path, [str(program), *arguments], lines_of([load_model("two-level")]))
    assert len(found) == (3 if "exec" in arguments else 2)
    for process in found:
        charged: dict[str, list[int]] = {}
        for context in process["contexts"]:
            sums = charged.setdefault(context["operation"], [0, 0])
            sums[0] += context["calls"]
            sums[1] += context["instructions"]
        count = process["count"]
        for name, operation in count["operations"].items():
            assert charged[name] == [operation["calls"], operation["instructions"]]
        whole = count["instructions"] + count["proof_instructions"]
        assert sum(instructions for _, instructions in charged.values()) == whole


def test_callers_have_names(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(
        """#include <stdlib.h>
        void *first_one(void) { return malloc(10); }
        void *second_one(void) { return malloc(20); }
        int main(void) { for (int i = 0; i < 30; ++i) { free(first_one()); second_one(); } }""",
        "-O0", "-fno-builtin",
    )  # fmt: skip
    (process,) = tool(tmp_path, [str(program)], lines_of([load_model("two-level")]))
    calls = {
        (c["operation"], c["caller"]["function"]): c["calls"]
        for c in process["contexts"]
        if "caller" in c
    }
    assert calls["malloc", "first_one"] == calls["malloc", "second_one"] == 30
    assert calls["free", "main"] == 30


def test_phases_are_those_of_the_events(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(
        """#include <stdlib.h>
        static volatile char heap[1 << 20];
        __attribute__((noinline)) void collect(void) {
          for (int i = 0; i < 1 << 20; i += 64) heap[i] = 1;
        }
        int main(void) {
          for (int round = 0; round < 5; ++round) {
            for (int i = 0; i < 100000; ++i) heap[i % 4096] = 2;
            collect();
          }
          for (int i = 0; i < 100000; ++i) heap[i % 4096] = 2;
          return 0; }""",
        "-fno-builtin", "-fno-inline",
    )  # fmt: skip
    (tmp_path / "events").write_text("during collecting collect\n")
    (process,) = tool(
        tmp_path, [str(program)], lines_of([load_model("two-level")]),
        f"--events={tmp_path / 'events'}",
    )  # fmt: skip
    phases: dict[str, int] = {}
    for context in process["contexts"]:
        phases[context["phase"]] = phases.get(context["phase"], 0) + context["instructions"]
    assert phases.keys() == {"", "collecting"}
    assert phases["collecting"] == process["count"]["phases"]["collecting"]["instructions"]
    assert process["collections"] == 5
    details = memory_system.model_details(
        load_model("two-level"), 0, process["contexts"], [process]
    )
    before, after = details["before"], details["after"]
    assert before["misses"]["write"][0] * 5 < after["misses"]["write"][0], "64 lines are gone"
    assert before["instructions"] > 0


def executed_by(process: dict[str, Any]) -> int:
    return sum(context["instructions"] for context in process["contexts"])


def test_charging_instructions_changes_no_count(tmp_path: Path, compile_c: Compile) -> None:
    """What each instruction was charged with, and what each operation was, is what a simulation
    without that finds in all."""
    program = compile_c(
        """#include <signal.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static char *kept[3000];
        void work(void) {
          for (int i = 0; i < 3000; ++i) kept[i * 7 % 3000] = memset(malloc(40 + i % 50), i, 40);
          for (int i = 0; i < 3000; ++i) free(kept[i]);
        }
        static void handler(int number) { (void)number; work(); }
        int main(void) {
          signal(SIGUSR1, handler);
          for (int i = 0; i < 5; ++i) { raise(SIGUSR1); work(); }
          if (fork() == 0) { work(); _exit(0); }
          wait(NULL); }""",
        "-fno-builtin",
    )
    models = [load_model("decstation-5000-200"), load_model("two-level")]
    plain = tool(tmp_path, [str(program)], lines_of(models))
    (tmp_path / "code").mkdir()
    (tmp_path / "events").write_text("during worker work\n")
    charged = tool(
        tmp_path, [str(program)], lines_of(models, "by-instruction", "collecting -"),
        f"--code-folder={tmp_path / 'code'}", f"--events={tmp_path / 'events'}",
    )  # fmt: skip
    assert len(charged) == len(plain) == 2
    # A child may have a lower number than its parent.
    for one, other in zip(
        *(sorted(each, key=executed_by) for each in (charged, plain)), strict=True
    ):
        for number in range(len(models)):
            assert counts_of(one, number) == counts_of(other, number)
        assert [] in [context["phase"] for context in one["contexts"]]
        assert ["worker"] in [context["phase"] for context in one["contexts"]]
        by_context: Charged = Counter()
        path = tmp_path / "memsys" / f"{one['pid']}.0.stalls"
        columns = ("context", "model", "address", "length", "event", "count")
        for batch in TableReader(path, "stalls", columns):
            for row in zip(*(batch[name].tolist() for name in columns), strict=True):
                by_context[row[0], row[1], row[4]] += row[5]
        expected: Charged = Counter()
        for place, context in enumerate(one["contexts"]):
            for number, counts in enumerate(context["models"]):
                for event, count in enumerate(counts):
                    if context["operation"] == "program" and count > 0:
                        expected[place, number, event] = count
        assert by_context == expected
        executed = json.loads((tmp_path / "code" / f"{one['pid']}.0.json").read_text())
        phases = {tuple(each["phases"]) for each in executed["contexts"]}
        assert {tuple(each["phase"]) for each in one["contexts"]} <= phases


CACHEGRIND = Path("/usr/libexec/valgrind/cachegrind-amd64-linux")
REAL = {
    "bc": ["bc", "-q", "{folder}/sum.bc"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 700} .= $_ for 1..20000; print scalar keys %h"],
    "sqlite3": ["sqlite3", ":memory:", "create table t(a,b); with recursive c(x) as (select 1 union"
                " all select x+1 from c where x<900) insert into t select x,hex(x) from c;"
                " select sum(length(b)) from t;"],
    "sort": ["sort", "-S", "4M", "{folder}/lines"],  # without -S it looks at how much is free
}  # fmt: skip


@pytest.fixture(scope="module")
def both_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our tool and cachegrind in one folder, so that what is preloaded has one path."""
    if not CACHEGRIND.exists():
        pytest.skip("Debian's package valgrind is missing")
    folder = tmp_path_factory.mktemp("valgrind")
    for name in ("tare-valgrind", "tareinst-amd64-linux", "vgpreload_core-amd64-linux.so"):
        shutil.copy(native_file(f"valgrind/{name}"), folder)
    shutil.copy(CACHEGRIND, folder)
    shutil.copy(CACHEGRIND.parent / "default.supp", folder)
    (folder / "sum.bc").write_text("for (i = 0; i < 60; i++) a[i] = i ^ 20\na[59]\nquit\n")
    (folder / "lines").write_text("".join(f"{i * 7919 % 3000}\n" for i in range(3000)))
    return folder


GEOMETRIES = [
    (("32768,8,64", "49152,12,64", "1048576,16,64"), ("32KiB", 8, "48KiB", 12, "1MiB", 16, "64B")),
    (("8192,2,32", "4096,1,32", "65536,4,32"), ("8KiB", 2, "4KiB", 1, "64KiB", 4, "32B")),
]


@pytest.mark.parametrize("name", REAL)
def test_the_counts_are_cachegrind_s(name: str, both_tools: Path) -> None:
    """To the miss. Both must see the same: one environment, no code translated across branches
    (cachegrind counts some of it that is not executed), an access to two lines as one, and the
    heap's bound that Valgrind has. cachegrind counts fewer writes: what reads and writes one place
    is a read to it."""
    words = [word.replace("{folder}", str(both_tools)) for word in REAL[name]]
    found = real_program(words[0])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    words[0] = found
    for theirs, (i1, i1_ways, d1, d1_ways, l2, l2_ways, line) in GEOMETRIES:
        model = a_model(
            {**CODE, "size": i1, "ways": i1_ways, "line": line},
            {**DATA, "size": d1, "ways": d1_ways, "line": line},
            {"level": 2, "size": l2, "ways": l2_ways, "line": line}, straddling="access",
        )  # fmt: skip
        environment = {
            "PERL_HASH_SEED": "0", "TARE_PROGRAM_BREAK": "valgrind",
            "VALGRIND_LIB": str(both_tools), "VALGRIND_LAUNCHER": str(both_tools / "tare-valgrind"),
        }  # fmt: skip
        (ours,) = tool(both_tools, words, lines_of([model]), **environment)
        events = cachegrind(both_tools, words, theirs, environment)
        missed = misses_of(ours)
        assert events["Ir"] == sum(c["instructions"] for c in ours["contexts"])
        assert events["Dr"] == sum(c["reads"] for c in ours["contexts"])
        for kind, letters in (
            ("fetch", "I1mr ILmr"),
            ("read", "D1mr DLmr"),
            ("write", "D1mw DLmw"),
        ):
            expected = [events[letter] for letter in letters.split()]
            near = 0.1 if loads_elsewhere() else 0
            assert missed[kind][0] == pytest.approx(expected[0], rel=near / 100, abs=0), kind
            assert missed[kind][1] == pytest.approx(expected[1], rel=near, abs=0), kind


def cachegrind(
    folder: Path, words: Sequence[str], geometry: Sequence[str], environment: dict[str, str]
) -> dict[str, int]:
    caches = [f"--{name}={size}" for name, size in zip(("I1", "D1", "LL"), geometry, strict=True)]
    subprocess.run(
        [folder / CACHEGRIND.name, "--tool=cachegrind", "--command-line-only=yes", "--quiet",
         "--cache-sim=yes",
         "--vgdb=no", "--vex-guest-chase=no", *caches,
         f"--cachegrind-out-file={folder / 'cachegrind'}", *words],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    lines = (folder / "cachegrind").read_text().splitlines()
    names = next(line for line in lines if line.startswith("events:")).split()[1:]
    values = next(line for line in lines if line.startswith("summary:")).split()[1:]
    return dict(zip(names, map(int, values), strict=True))


# ---- the command ----


def test_the_command(tare: Callable[..., Completed], tmp_path: Path) -> None:
    models = ["--model", "two-level", "--model", "decstation-5000-200", "--curves"]
    arguments = ["-m", "glibc", "-m", "mimalloc", *models, "-o", "results", "--json", "out.json"]
    program = ["perl", "-e", "my %h; $h{$_ % 99} .= $_ for 1..3000; print scalar keys %h"]
    done = tare("memsys", *arguments, "--", *program)
    assert done.returncode == 0, done.stderr
    assert "The memory system, simulated" in done.stdout
    assert "write buffer" in done.stdout
    results = api.load(tmp_path / "results")
    of = {
        row["metric"]: row for row in results.measurements.to_dicts() if row["manager"] == "glibc"
    }
    assert of["instructions"]["obtained"] == Obtained.EXECUTED
    for metric in ("simulated_cycles", "stall_cycles", "read_misses", "manager_memory_misses"):
        assert of[metric]["obtained"] == Obtained.SIMULATED == METRICS[metric].obtained
        assert of[metric]["value"] > 0
    cycles, stalls = of["simulated_cycles"]["value"], of["stall_cycles"]["value"]
    assert cycles - stalls == pytest.approx(of["instructions"]["value"], rel=1e-4)
    assert 0 < of["manager_stall_cycles"]["value"] < stalls
    section = study.section(results)
    assert section.obtained == Obtained.SIMULATED
    assert {figure.identifier for figure in section.figures} >= {
        "figure-stalls-1-1", "figure-stalls-1-2", "figure-curve-data", "figure-ways-instructions",
    }  # fmt: skip
    page = (tmp_path / "results" / "report.html").read_text()
    assert "Misses of a fully associative cache" in page
    exported = json.loads((tmp_path / "out.json").read_text())
    assert exported["study"] == "memsys"
    assert {row["manager"] for row in exported["summary"]} == {"glibc", "mimalloc"}


def test_wrong_requests(tare: Callable[..., Completed]) -> None:
    wrong = tare("memsys", "--model", "vax", "--", "true")
    assert wrong.returncode == 2
    assert "two-level" in wrong.stderr
    failed = tare("memsys", "-m", "glibc", "--model", "two-level", "--", "false")
    assert failed.returncode == 1
