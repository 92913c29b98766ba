"""Who owns the memory, beside heaptrack and DHAT, of two programs with debug information."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import tare as api
from tare.records.results import read_records

TREE = """
#include <stdlib.h>
#include <string.h>
#define OWN __attribute__((noinline))
typedef struct node { struct node *left, *right; char *name; } node;
OWN char *copy(const char *text) { return strcpy(malloc(strlen(text) + 1), text); }
OWN node *make(int depth) {
  node *mine = calloc(1, sizeof *mine);
  mine->name = copy("a name of a node of the tree");
  if (depth) { mine->left = make(depth - 1); mine->right = make(depth - 1); }
  return mine;
}
OWN void release(node *mine) {
  if (mine->left) { release(mine->left); release(mine->right); }
  free(mine->name);
  free(mine);
}
OWN char *read_input(void) { return memset(malloc(300000), 'x', 300000); }
OWN char **index_input(int count) {
  char **all = 0;
  for (int n = 0; n < count; n++) {
    if (n % 64 == 0) all = realloc(all, (n + 64) * sizeof *all);
    all[n] = copy("an entry");
  }
  return all;
}
OWN int scratch(int rounds) {
  int sum = 0;
  for (int n = 0; n < rounds; n++) { char *p = malloc(100); p[5] = n; sum += p[5]; free(p); }
  return sum;
}
int main(void) {
  char *first = read_input(), **index = index_input(5000), *second = read_input();
  free(first);
  node *tree = make(9);
  int sum = scratch(3000) + second[7];
  release(tree);
  for (int n = 0; n < 5000; n += 2) free(index[n]);
  free(second);
  return sum == 0;
}
"""
ORDERS = """
#include <map>
#include <memory>
#include <string>
#include <vector>
#define OWN __attribute__((noinline))
struct Order { int id; char text[120]; };
OWN std::vector<Order> load(int count) {
  std::vector<Order> orders;
  for (int n = 0; n < count; n++) orders.push_back(Order{n, {}});
  return orders;
}
OWN std::map<int, std::string> by_name(const std::vector<Order> &orders) {
  std::map<int, std::string> index;
  for (auto &order : orders) index[order.id] = std::string(60, 'a' + order.id % 26);
  return index;
}
OWN long results(const std::map<int, std::string> &index) {
  std::vector<std::unique_ptr<long[]>> all;
  long sum = 0;
  for (auto &[id, text] : index) all.emplace_back(new long[20]{id, text[0]}), sum += all.back()[0];
  return sum;
}
static char *volatile last;
OWN void leak(int count) { for (int n = 0; n < count; n++) last = new char[500]{char(n)}; }
int main() {
  auto orders = load(3000);
  leak(100);
  auto index = by_name(orders);
  return results(index) == 0;
}
"""
OWN = {
    "tree.c": (TREE, {"copy", "make", "read_input", "index_input", "scratch"}),
    "orders.cpp": (ORDERS, {"load", "by_name", "results", "leak"}),
}
FLAGS = ["-g", "-O1", "-fno-builtin"]
COSTS = {
    "peak": "peak_bytes",
    "leaked": "never_freed_bytes",
    "allocations": "objects",
}
"""By the names that heaptrack has for them."""


@pytest.fixture(params=OWN, scope="module")
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, set[str]]:
    source, functions = OWN[request.param]
    folder = tmp_path_factory.mktemp("owners")
    (folder / request.param).write_text(source)
    compiler = "cc" if request.param.endswith(".c") else "c++"
    program = folder / "program"
    subprocess.run([compiler, *FLAGS, "-o", program, folder / request.param], check=True)
    return program, functions


@pytest.fixture(scope="module")
def owned(built: tuple[Path, set[str]]) -> dict[str, Any]:
    program, _ = built
    results = api.space([str(program)], ["glibc"], folder=program.parent / "results")
    (record,) = read_records(results.folder)
    assert record.outcome.status == "ok", record.outcome.reason
    found: dict[str, Any] = record.outcome.details["owners"]
    assert found["totals"]["peak_bytes"] == record.outcome.details["largest_live"]
    return found


def name_of(frame: str) -> str:
    """Of a function, without what it takes and where it is."""
    return re.sub(r"[ (].*", "", frame)


def owner(frames: Iterable[str], functions: set[str]) -> str:
    """The innermost of ``functions`` in a stack."""
    return next((name for frame in frames if (name := name_of(frame)) in functions), "")


def by_function(found: dict[str, Any], functions: set[str], kind: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for site in found["sites"]:
        sums[owner((frame["function"] for frame in site["frames"]), functions)] += site[kind]
    del sums[""]
    return +sums


def hold_but_for_others(
    found: dict[str, Any], functions: set[str], kind: str, expected: Counter[str]
) -> None:
    """A function's sum may lack what its smallest call sites have, which are summed as others."""
    mine = by_function(found, functions, kind)
    assert mine.keys() <= expected.keys(), kind
    missing = {name: expected[name] - mine[name] for name in expected}
    assert all(number >= 0 for number in missing.values()), kind
    assert sum(missing.values()) <= found["others"][kind], kind
    assert found["others"][kind] <= 0.1 * found["totals"][kind], kind


def test_what_sites_and_stacks_hold_adds_up_to_the_peak(owned: dict[str, Any]) -> None:
    for name, total in owned["totals"].items():
        sites = sum(site[name] for site in owned["sites"]) + owned["others"][name]
        assert sites == total, name
        assert sum(stack[name] for stack in owned["stacks"]) == total, name


def test_the_sums_are_those_of_heaptrack(
    built: tuple[Path, set[str]], owned: dict[str, Any]
) -> None:
    if shutil.which("heaptrack") is None:
        pytest.skip("heaptrack is not installed (package heaptrack)")
    program, functions = built
    words = ["heaptrack", "-o", str(program.parent / "heap"), str(program)]
    ran = subprocess.run(words, check=True, capture_output=True, text=True)
    (data,) = program.parent.glob("heap.*")
    found: dict[str, Counter[str]] = {}
    for cost, kind in COSTS.items():
        stacks = program.parent / cost
        words = ["heaptrack_print", "--flamegraph-cost-type", cost, "-F", str(stacks), str(data)]
        subprocess.run(words, check=True, capture_output=True)
        expected: Counter[str] = Counter()
        for line in stacks.read_text().splitlines():
            *frames, size = line.split(";")
            expected[owner(reversed(frames), functions)] += int(size)
        expected = +expected
        del expected[""]
        if cost == "peak":
            assert by_function(owned, functions, kind) == expected
        hold_but_for_others(owned, functions, kind, expected)
        found[cost] = expected
    assert all(found.values())
    # By site it takes another object of the same size and site for the same: too many.
    said = re.search(r"temporary allocations:\s*(\d+)", ran.stdout + ran.stderr)
    assert said is not None
    assert owned["totals"]["temporary_objects"] == int(said[1])


def test_the_peak_is_that_of_dhat(built: tuple[Path, set[str]], owned: dict[str, Any]) -> None:
    program, functions = built
    data = program.parent / "dhat.json"
    words = ["valgrind", "--tool=dhat", f"--dhat-out-file={data}", str(program)]
    subprocess.run(words, check=True, capture_output=True)
    profile = json.loads(data.read_text())
    names = [re.sub(r"^0x[0-9A-F]+: ", "", frame) for frame in profile["ftbl"]]
    expected: Counter[str] = Counter()
    for point in profile["pps"]:
        expected[owner((names[number] for number in point["fs"]), functions)] += point["gb"]
    assert sum(expected.values()) == owned["totals"]["peak_bytes"]
    del expected[""]
    assert by_function(owned, functions, "peak_bytes") == +expected
