"""The memory-system simulator by itself, against plain models on random accesses."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tare.observers import memory_system
from tare.observers.memory_details import KINDS
from tare.observers.memory_model import MemoryModel, load_model
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
from tests.native.instrument.simulated import (
    CODE,
    DATA,
    a_model,
    counts_of,
    lines_of,
    misses_of,
)
from tests.support import ROOT

Completed = subprocess.CompletedProcess[str]
Simulate = Callable[..., dict[str, Any]]
SIMULATOR = ROOT / "observers" / "instrument"


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
