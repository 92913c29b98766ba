"""Region emulation, and the shims under programs with regions."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tare as api
from tare.answers.building import build_report
from tare.memory_managers.layers import regions as layer
from tare.memory_managers.manager import resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.results import read_records
from tare.records.runs import Limits, Outcome
from tare.report.page import render_page
from tare.studies.drag import report as drag
from tests.conftest import Completed
from tests.native.programs import built
from tests.support import AS_DEBIAN_COMPILES, ROOT
from tests.unit.studies.test_regions import COUNTED

HERE = Path(__file__).parent
ROUTES = [f"regions(glibc, as={route})" for route in layer.ROUTES]

# ---- region emulation ----


@pytest.fixture(scope="module")
def emulation() -> Path:
    """The program that holds region emulation against a model, with sanitizers."""
    return built("regions_emulation")


@pytest.mark.parametrize("seed", range(4))
def test_emulation_against_a_model(emulation: Path, seed: int) -> None:
    ran = subprocess.run(
        [emulation, str(seed), "20000"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 5000


# ---- the shims ----


def flags_of(package: str) -> list[str]:
    """What a C program that uses the library of a package is compiled with."""
    found = subprocess.run(
        ["pkg-config", "--cflags", "--libs", package], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"pkg-config knows no {package} (Debian packages libapr1-dev, libtalloc-dev)")
    return shlex.split(found.stdout)


def compiled(folder: Path, source: str, *flags: str) -> Path:
    """A C program that uses regions."""
    program = folder / Path(source).stem
    subprocess.run(
        ["cc", "-O2", "-Wall", *AS_DEBIAN_COMPILES, "-o", program, HERE / source, *flags],
        check=True,
    )
    return program


@pytest.fixture(scope="module")
def apr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that uses APR's pools."""
    return compiled(
        tmp_path_factory.mktemp("apr"), "regions_apr.c", *flags_of("apr-1"), "-lpthread", "-ldl"
    )


@pytest.fixture(scope="module")
def obstacks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that uses obstacks."""
    return compiled(tmp_path_factory.mktemp("obstack"), "regions_obstack.c")


@pytest.fixture(scope="module")
def talloc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that uses talloc."""
    folder = tmp_path_factory.mktemp("talloc")
    return compiled(folder, "regions_talloc.c", *flags_of("talloc"))


WHOEVER_SERVES = Limits(least_coverage=0)
"""Under glibc a region library maps its memory itself."""


def outcomes(program: Path, *arguments: str, managers: list[str], folder: Path) -> list[Outcome]:
    """One run under each manager."""
    started = Program(program.name, (str(program), *arguments))
    return [run_once(started, resolve(name), WHOEVER_SERVES, folder) for name in managers]


def kind(outcome: Outcome, name: str) -> dict[str, int]:
    """What was counted of a kind of regions."""
    found: dict[str, int] = outcome.details[layer.NAME]["kinds"][name]
    return found


def test_apr_pools_hold_the_same_whatever_serves_them(apr: Path, tmp_path: Path) -> None:
    others = [name.replace(")", ", statistics=yes)") for name in ROUTES]
    managers = ["glibc", *ROUTES, *others, "regions(mimalloc, as=emulation)"]
    found = outcomes(apr, managers=managers, folder=tmp_path)
    assert [outcome.reason for outcome in found] == [""] * len(managers)
    assert len({outcome.output_sha256 for outcome in found}) == 1
    assert layer.NAME not in found[0].details


def test_apr_pools_are_counted_alike_on_every_route(apr: Path, tmp_path: Path) -> None:
    managers = [name.replace(")", ", statistics=yes)") for name in ROUTES]
    found = [kind(each, "apr") for each in outcomes(apr, managers=managers, folder=tmp_path)]
    own = found[0]
    assert own["regions"] > 6 * (3 + 9 + 27) + 400
    assert own["objects"] > own["regions"] * 50
    assert own["bytes"] > 100 * own["objects"]
    assert 0 < own["most_objects"] < own["objects"]
    assert own["live_objects"] < 200  # of the pool that lasts as long as the process
    for counts in found[1:]:
        alike = ("regions", "objects", "bytes", "cleared")
        assert [counts[name] for name in alike] == [own[name] for name in alike]


@pytest.mark.parametrize("name", ["obstacks", "talloc"])
def test_others_hold_the_same_whatever_serves_them(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program: Path = request.getfixturevalue(name)
    counting = "regions(glibc, as=emulation, statistics=yes)"
    managers = ["glibc", *ROUTES, counting, "regions(mimalloc, as=emulation)"]
    found = outcomes(program, managers=managers, folder=tmp_path)
    assert [outcome.reason for outcome in found] == [""] * len(managers)
    assert len({outcome.output_sha256 for outcome in found}) == 1
    counts = kind(found[-2], name.removesuffix("s"))
    assert counts["objects"] > 20_000
    assert 0 < counts["most_objects"] < counts["objects"]


def test_an_object_of_an_obstack_is_one_of_malloc(obstacks: Path, tmp_path: Path) -> None:
    """With emulation the recorder sees the objects, where it sees chunks with the original."""
    found = {}
    for route in ("original", "emulation"):
        manager = f"regions(glibc, as={route})"
        trace = api.trace([str(obstacks)], manager, folder=tmp_path / f"{route}.tare")
        found[route] = trace.meta["objects"]
    assert found["emulation"] > 20 * found["original"]


def test_talloc_objects_lie_in_the_regions(talloc: Path, tmp_path: Path) -> None:
    """All but those that hang on a talloc_pool, which is one object."""
    managers = [f"regions(glibc, as={r}, statistics=yes)" for r in ("emulation", "region", "reap")]
    single, region, reap = (
        kind(each, "talloc") for each in outcomes(talloc, managers=managers, folder=tmp_path)
    )
    assert single["regions"] == region["regions"] == reap["regions"] > 600
    assert region["objects"] == reap["objects"]
    assert 0.9 * single["objects"] < reap["objects"] <= single["objects"]
    assert region["live_regions"] == 0


TALLOC = """
#include <stdlib.h>
enum { HEADER = 96 };
static void *make(size_t bytes) {
  char *made = malloc(bytes + HEADER);
  return made == NULL ? NULL : made + HEADER;
}
void *_talloc(const void *parent, size_t bytes) { return make(bytes); }
void *talloc_named_const(const void *parent, size_t bytes, const char *name) {
  return make(bytes);
}
void *talloc_grow(void *object, size_t bytes) {
  return (char *)realloc((char *)object - HEADER, bytes + HEADER) + HEADER;
}
void talloc_release(void *object) { free((char *)object - HEADER); }
"""
USES_TALLOC = """
#include <stddef.h>
void *_talloc(const void *, size_t), *talloc_named_const(const void *, size_t, const char *);
void *talloc_grow(void *, size_t);
void talloc_release(void *);
int main(void) {
  void *context = talloc_named_const(NULL, 0, "context");
  for (int i = 0; i < 1000; ++i) {
    char *object = talloc_grow(_talloc(context, 50), 100);
    if (i % 2) talloc_release(object);
  }
  talloc_release(context);
  return 0;
}
"""


@pytest.mark.parametrize("flag", ["-fplt", "-fno-plt"])
@pytest.mark.parametrize("sealed", ["-Wl,-z,now,-z,relro", "-Wl,-z,lazy,-z,norelro"])
def test_talloc_is_served_however_it_was_built(
    compile_c: Callable[..., Path], tmp_path: Path, flag: str, sealed: str
) -> None:
    flags = (flag, sealed, "-fno-builtin")
    library = compile_c(
        TALLOC, "-shared", "-fPIC", "-Wl,-soname,libtalloc.so.2", *flags, name="libtalloc.so.2"
    )
    program = compile_c(USES_TALLOC, str(library), f"-Wl,-rpath,{tmp_path}", *flags)
    manager = "regions(glibc, as=reap, statistics=yes)"
    (found,) = outcomes(program, managers=[manager], folder=tmp_path)
    assert found.status is Status.OK, found.reason
    assert kind(found, "talloc")["objects"] >= 1000
    assert "could not be replaced" not in found.error_tail


def test_a_route_is_taken(apr: Path, tmp_path: Path) -> None:
    """What only one route can do: 40 MB in objects that are freed one by one need no memory with
    reaps and with malloc, and all of it with regions."""
    found = outcomes(apr, "free", managers=ROUTES, folder=tmp_path)
    peaks = {
        route: outcome.values["peak_resident_bytes"]
        for route, outcome in zip(layer.ROUTES, found, strict=True)
    }
    assert peaks["original"] > 40e6
    assert peaks["region"] > 40e6
    assert peaks["emulation"] < 20e6
    assert peaks["reap"] < 20e6


def test_without_the_shims_there_is_no_single_free(apr: Path) -> None:
    ran = subprocess.run([apr, "free"], capture_output=True, text=True, check=True)
    assert ran.stdout == "0\n"


def test_a_manager_stands_behind_the_shims(apr: Path, tmp_path: Path) -> None:
    (found,) = outcomes(apr, managers=["regions(mimalloc, as=reap)"], folder=tmp_path)
    assert found.status is Status.OK
    assert "mimalloc" in found.server


def test_a_program_without_regions_has_none(tmp_path: Path) -> None:
    found = run_once(Program("true", ("true",)), resolve(ROUTES[1]), Limits(), tmp_path)
    assert found.status is Status.OK
    assert found.details[layer.NAME]["kinds"] == {}
    assert found.values["regions"] == 0


def test_a_wrong_variable_ends_the_program_with_a_message(apr: Path) -> None:
    preload = str(resolve(ROUTES[0]).layer)
    ran = subprocess.run(
        [apr],
        env={"LD_PRELOAD": preload, "TARE_REGIONS_AS": "heap"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode < 0
    assert "TARE_REGIONS_AS is 'heap'" in ran.stderr


def test_the_command(tare: Callable[..., Completed], apr: Path, tmp_path: Path) -> None:
    ran = tare("regions", "-m", "glibc", "-n", "1", "--warmup", "0", "-o", "out", "--json", "j",
               "--", apr)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    told = " ".join(ran.stdout.split())
    assert "APR pools with" in told
    assert "At its peak the program holds" in told
    found = json.loads((tmp_path / "j").read_text())
    assert found["study"] == "regions"
    counted = {
        row["metric"]: row["value"] for row in found["measurements"] if row["manager"] == COUNTED
    }
    assert counted["region_objects"] > counted["regions"] > 600
    results = api.load(tmp_path / "out")
    page = render_page(build_report(results))
    assert "mudlle" in page
    recorded = [r for r in read_records(results.folder) if r.run.study == drag.STUDY]
    assert recorded[0].outcome.values["objects"] > counted["region_objects"]


def test_a_program_without_regions_is_told_so(tare: Callable[..., Completed]) -> None:
    ran = tare("regions", "-m", "glibc", "-n", "1", "--warmup", "0", "--no-page", "--", "true")
    assert ran.returncode == 0, ran.stderr
    assert "No region was seen" in ran.stdout


def test_a_layer_cannot_stand_on_a_layer(tare: Callable[..., Completed]) -> None:
    ran = tare("regions", "-m", "regions(glibc, as=reap)", "--", "true")
    assert ran.returncode == 2
    assert "already has a layer" in ran.stderr


def test_the_recorder_sees_regions_as_regions(apr: Path, tmp_path: Path) -> None:
    """The same objects and regions whatever serves them."""
    seen = []
    for route in layer.ROUTES:
        folder = tmp_path / f"{route}.tare"
        trace = api.trace([str(apr), "free"], f"regions(glibc, as={route})", folder=folder)
        assert trace.meta["complete"], trace.meta["reason"]
        objects = pl.read_parquet(folder / "objects.parquet")
        found = objects.filter(pl.col("operation") == "region")
        assert found["region"].null_count() == 0
        freed = found.filter(pl.col("free_operation") == "free")
        seen.append((found.height, pl.read_parquet(folder / "regions.parquet").height))
        assert (freed.height > 100_000) == (route in ("emulation", "reap"))
    assert len(set(seen)) == 1
    assert seen[0][0] >= 200_000


# ---- the suite ----

WORKLOADS = ROOT / "workloads" / "regions"


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("make_svn_dump.py", ["OUT", "20"]),
        ("make_directory.py", ["OUT", "20"]),
        ("make_catalogue.py", ["OUT", "OUT2", "20"]),
    ],
)
def test_inputs_are_made_alike_each_time(script: str, arguments: list[str], tmp_path: Path) -> None:
    made = []
    for time in ("first", "second"):
        folder = tmp_path / time
        folder.mkdir()
        subprocess.run([sys.executable, WORKLOADS / script, *arguments], cwd=folder, check=True)
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1]
    assert all(len(data) > 500 for data in made[0].values())


def test_a_made_repository_is_whole(tmp_path: Path) -> None:
    if shutil.which("svnadmin") is None:
        pytest.skip("svnadmin is not installed (package subversion)")
    subprocess.run(
        [sys.executable, WORKLOADS / "make_svn_dump.py", tmp_path / "dump", "5"], check=True
    )
    repository = tmp_path / "repository"
    subprocess.run(["svnadmin", "create", repository], check=True)
    with (tmp_path / "dump").open("rb") as dump:
        subprocess.run(["svnadmin", "load", "-q", repository], stdin=dump, check=True)
    subprocess.run(["svnadmin", "verify", "-q", repository], check=True)
    youngest = subprocess.run(
        ["svnlook", "youngest", repository], capture_output=True, text=True, check=True
    )
    assert youngest.stdout == "5\n"
    program = Program("dump", ("svnadmin", "dump", "-q", str(repository)))
    found = [
        run_once(program, resolve(name), WHOEVER_SERVES, tmp_path) for name in ("glibc", *ROUTES)
    ]
    assert [each.reason for each in found] == [""] * len(found)
    assert len({each.output_sha256 for each in found}) == 1
    assert all(kind(each, "apr")["regions"] > 100 for each in found[1:])
