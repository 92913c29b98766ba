"""Regions and reaps beside a bump region, APR's pools, mimalloc's heaps and jemalloc's arenas."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.programs import Times
from bench.row import Row, ratio_row
from tare.base import native
from tare.base.errors import MissingError
from tare.base.units import format_seconds

SOURCES = Path(__file__).parent.parent

RATIOS = (
    ("regions_100k", "reap", "bump", 1.15),
    ("regions_1k", "reap", "bump", 1.15),
    ("regions_100k", "reap", "apr", 1.0),
    ("regions_1k", "reap", "apr", 1.0),
    ("fresh", "reap", "bump", 1.1),
    ("nested", "reap", "bump", 1.25),
    ("half_freed_100k", "reap", "mimalloc_heap", 0.7),
    ("half_freed_1k", "reap", "mimalloc_heap", 0.7),
    ("plain_1k", "reap", "mimalloc", 1.3),
    ("plain_10k", "reap", "mimalloc", 1.3),
    *(
        (f"of_{size}_bytes_{objects}", "reap", "bump", 1.15)
        for size in (16, 32, 48, 64, 96, 128)
        for objects in ("100k", "1k")
    ),
    ("window_100", "reap", "mimalloc_heap", 0.9),
    ("second_at_once", "reap", "mimalloc_heap", 0.9),
    ("plain_1k", "reap", "mimalloc_heap", 0.9),
    ("plain_10k", "reap", "mimalloc_heap", 0.9),
    ("window_100", "reap_segregated", "mimalloc_heap", None),
    ("second_at_once", "reap_segregated", "mimalloc_heap", None),
    ("regions_100k", "reap_shared", "bump", None),
    ("regions_100k", "reap_hardened", "bump", None),
    ("regions_100k", "mimalloc_heap", "bump", None),
    ("regions_100k", "jemalloc_arena", "bump", None),
    ("regions_1k", "jemalloc_arena", "bump", None),
    ("nested", "jemalloc_arena", "bump", None),
    ("half_freed_100k", "reap", "jemalloc_arena", None),
    ("half_freed_1k", "reap", "jemalloc_arena", None),
    ("regions_100k", "reap_segregated", "bump", None),
    ("regions_1k", "reap_segregated", "bump", None),
    ("nested", "reap_segregated", "bump", None),
    ("half_freed_100k", "reap_segregated", "mimalloc_heap", None),
    ("half_freed_1k", "reap_segregated", "mimalloc_heap", None),
    ("plain_1k", "reap_segregated", "mimalloc", None),
    ("plain_10k", "reap_segregated", "mimalloc", None),
)
"""A case, the alternative, the one beside it, and the most it may take of the other's time."""

MOST_MEMORY = 1.1
"""For each byte asked for, with the word before it, rounded up to the alignment of 16."""


def build_library(folder: Path, segregated: bool) -> Path:
    """The library, with headers or without, in ``folder``."""
    for step in (
        ["-S", str(SOURCES / "managers/reap"), "-B", str(folder),
         f"-DTARE_REAP_SEGREGATED={'ON' if segregated else 'OFF'}"],
        ["--build", str(folder)],
    ):  # fmt: skip
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    return folder


def build(folder: Path) -> tuple[Path, Path]:
    """The program that measures, and the library without headers that it loads."""
    library = build_library(folder / "reap", segregated=False)
    other = build_library(folder / "segregated", segregated=True)
    apr = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "apr-1"], capture_output=True, text=True, check=False
    )
    program = folder / "bench"
    subprocess.run(
        ["c++", "-std=c++20", "-O2", "-o", program, SOURCES / "bench/reap.cpp",
         f"-I{SOURCES / 'managers/reap/include'}", f"-L{library}", f"-Wl,-rpath,{library}",
         "-ltare-reap", *shlex.split(apr.stdout)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return program, other / "libtare-reap.so"


def installed_object(name: str) -> str:
    """The object of a manager; an empty name if it is not built."""
    try:
        return str(native.native_file(f"managers/{name}/libtare-{name}.so"))
    except MissingError:
        return ""


def measure(program: Path, segregated: Path) -> dict[str, Times]:
    """Seconds an object, by case and alternative; of cases of memory, bytes for one asked for."""
    objects = [installed_object(name) for name in ("mimalloc", "jemalloc")]
    # jemalloc's thread-local storage is more than there is room for in objects loaded late.
    environment = os.environ | {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=4096"}
    ran = subprocess.run(
        [program, segregated, *objects], env=environment, check=True, capture_output=True, text=True
    )
    values: dict[str, dict[str, list[float]]] = {}
    for line in ran.stdout.splitlines():
        case, alternative, *rounds = line.split()
        unit = 1.0 if case.startswith("memory") else 1e-9
        values.setdefault(case, {})[alternative] = [float(each) * unit for each in rounds]
    return {case: Times(each) for case, each in values.items()}


def time_rows(values: Mapping[str, Times]) -> list[Row]:
    """A row for each ratio."""
    found = []
    for case, what, other, most in RATIOS:
        title = f"{what} beside {other}, {case}"
        took = values.get(case, Times({}))
        missing = [name for name in (what, other) if name not in took.of]
        if missing:
            found.append(Row(title, f"{missing[0]} is not installed"))
            continue
        ratio = took.ratio(what, other)
        both = " and ".join(format_seconds(took.each(name, 1).median) for name in (what, other))
        row = ratio_row(title, ratio, most or math.inf, f"{both} an object")
        found.append(row if most is not None else replace(row, bar=""))
    return found


def memory_rows(values: Mapping[str, Times]) -> list[Row]:
    """What is resident for the bytes asked for."""
    found = []
    for case in ("memory_padded_100k", "memory_padded_2k"):
        ratio = values[case].each("reap", 1).median
        found.append(
            Row(f"reap, resident for bytes with header and alignment, {case}", f"{ratio:.2f}x",
                f"at most {MOST_MEMORY}x", ratio <= MOST_MEMORY)
        )  # fmt: skip
    case = "memory_100k"
    found += [
        Row(f"{name}, resident for bytes asked for, {case}",
            f"{values[case].each(name, 1).median:.2f}x")
        for name in values[case].of
    ]  # fmt: skip
    return found


def rows() -> list[Row]:
    """All in one run."""
    if shutil.which("cmake") is None:
        return [Row("reap", "the package cmake is missing")]
    with tempfile.TemporaryDirectory() as name:
        values = measure(*build(Path(name)))
    return [*time_rows(values), *memory_rows(values)]
