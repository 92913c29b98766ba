"""Decoders of what observers leave, with damaged input and sanitizers."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tare.observers.memory_model import load_model, shipped_models, simulator_lines
from tests.native.programs import built
from tests.native.recorder import recorder_programs
from tests.native.recorder.recorder_programs import compile_cpp, record_raw
from tests.support import ROOT
from tests.support.recordings import encode_block

PRELOAD = f"-I{ROOT / 'managers' / 'preload'}"
MUTATIONS = "300"
MOST_INPUT = "60000"
SECONDS_OF_SOAK = "200"


def packed(*parts: bytes) -> bytes:
    """As decoders_fuzz.cpp takes the contents of several files."""
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def recordings(folder: Path) -> list[bytes]:
    """Of a program with each function of the family, and of one with regions."""
    made = []
    for name in ("FAMILY", "REGIONS"):
        source = getattr(recorder_programs, name)
        program = compile_cpp(folder, source, "-std=c++20", "-fno-builtin", PRELOAD, name=name)
        events = record_raw(folder / f"raw {name}", program)
        parts = [events.with_suffix(ending) for ending in (".events", ".stacks", ".modules")]
        made.append(packed(*(part.read_bytes().rstrip(b"\0") for part in parts)))
    return made


def table(name: str, **columns: list[int]) -> bytes:
    block = encode_block([np.array(column, np.uint64) for column in columns.values()])
    return f"tare-table 1 {name} {' '.join(columns)}\n".encode() + block


def heaps_of_java(folder: Path) -> list[bytes]:
    """A list of twenty objects of which each points to the next, and two collections."""
    count = range(1, 21)
    births = table("births", instructions=[10 * n for n in count], bytes=[24 * n for n in count])
    pointers = table(
        "pointers", instructions=[10 * n + 5 for n in count], source=[n - 1 for n in count],
        offset=[16] * 20, target=list(count),
    )  # fmt: skip
    deaths = table(
        "deaths", id=list(count), unreachable_instructions=[150] * 5 + [300] * 15,
        unreachable_bytes=[240] * 5 + [480] * 15,
    )  # fmt: skip
    marks = table("marks", instructions=[120, 220], bytes=[240, 480])
    return [packed(births, pointers, deaths, marks)]


def descriptions(folder: Path) -> list[bytes]:
    """The models that are shipped, and what else a line can be."""
    more = ["curve data 64", "curve instructions 32", "window 1000", "collecting mark",
            "collector mark", "by-instruction"]  # fmt: skip
    models = [load_model(name) for name in shipped_models()]
    return ["\n".join([*simulator_lines(model), *more]).encode() for model in models]


DECODERS: dict[str, Callable[[Path], list[bytes]]] = {
    "recordings": recordings,
    "heaps_of_java": heaps_of_java,
    "descriptions": descriptions,
}


def inputs_of(name: str, folder: Path) -> list[Path]:
    folder.mkdir()
    paths = []
    for number, content in enumerate(DECODERS[name](folder)):
        paths.append(folder / f"input-{number}")
        paths[-1].write_bytes(content)
    return paths


@pytest.mark.parametrize("name", DECODERS)
def test_damaged_input_is_refused_or_read(tmp_path: Path, name: str) -> None:
    fuzz = built(f"decoder_{name}")
    paths = inputs_of(name, tmp_path / "inputs")
    command: list[str | Path] = [fuzz, tmp_path / "100.0", "1", MUTATIONS, *paths]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "ok\n"), ran.stderr[-4000:]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DECODERS)
def test_fuzzer(tmp_path: Path, name: str) -> None:
    if shutil.which("clang++") is None:
        pytest.skip("clang is not installed (package clang)")
    fuzz = built(f"decoder_{name}_fuzzer", compiler="clang")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for path in inputs_of(name, tmp_path / "inputs"):
        shutil.copy(path, corpus)
    ran = subprocess.run(
        [fuzz, f"-max_total_time={SECONDS_OF_SOAK}", f"-max_len={MOST_INPUT}", "-timeout=60",
         "-seed=1", corpus],
        cwd=tmp_path, env={**os.environ, "TARE_STEM": str(tmp_path / "100.0")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
