"""The fuzzer of the quarantine, delay_fuzz.cpp, and the layer in one program."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import ROOT

HERE = Path(__file__).parent
SOURCES = ROOT / "managers"
PLATFORM = f"-I{ROOT}/platform/include"
MOST = str(1 << 20)  # objects in quarantine, where its list grows as needed
SANITIZERS = {
    "ASAN_OPTIONS": "alloc_dealloc_mismatch=0",
    "TSAN_OPTIONS": "die_after_fork=0",
}


def sanitized_fuzzer(folder: Path, sanitizer: str) -> Path:
    """The layer and the fuzzer in one program, in which only the fuzzer allocates by the layer."""
    objects = []
    for source in (HERE / "delay_fuzz.cpp", SOURCES / "delay" / "delay.cpp"):
        objects.append(folder / f"{source.stem}.o")
        subprocess.run(
            ["c++", "-std=c++20", "-O1", "-g", f"-fsanitize={sanitizer}",
             "-fno-sanitize-recover=all", "-fno-builtin", "-Wno-use-after-free", "-pthread",
             f"-I{SOURCES / 'delay'}", f"-I{SOURCES / 'preload'}", PLATFORM,
             "-c", "-o", objects[-1], source],
            check=True,
        )  # fmt: skip
    defined = subprocess.run(
        ["nm", "-g", "--defined-only", objects[1]], check=True, capture_output=True, text=True
    )
    lines = [line.split() for line in defined.stdout.splitlines()]
    names = [name for _, kind, name in lines if kind == "T" and "4tare" not in name]
    assert {"malloc", "free", "_ZdlPv"} <= set(names)
    for each in objects:
        subprocess.run(
            ["objcopy", *(f"--redefine-sym={name}=layer_{name}" for name in names), each],
            check=True,
        )
    fuzzer = folder / "fuzzer"
    subprocess.run(
        ["c++", f"-fsanitize={sanitizer}", "-pthread", "-o", fuzzer, *objects], check=True
    )
    return fuzzer


def fuzz_sanitized(fuzzer: Path, seed: int, operations: int) -> None:
    """All ways in which the quarantine is emptied; the model does not know that of scope=global."""
    for threads, size, capacity, realloc, scope in [
        ("1", "65536", MOST, "delay", "thread"),
        ("4", "65536", MOST, "delay", "thread"),
        ("3", "1", MOST, "delay", "thread"),
        ("1", "1048576", "512", "pass", "thread"),
        ("4", "65536", MOST, "delay", "global"),
    ]:
        model = size if scope == "thread" else "0"
        forks = str(int(threads == "1"))
        buffer = "grow" if capacity == MOST else str(8 * int(capacity))
        environment = SANITIZERS | {
            "TARE_DELAY_SIZE": size,
            "TARE_DELAY_SCOPE": scope,
            "TARE_DELAY_REALLOC": realloc,
            "TARE_DELAY_BUFFER": buffer,
        }
        words = (str(seed), str(operations), threads, model, capacity, realloc, forks)
        done = subprocess.run([fuzzer, *words], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stderr[:4000])
