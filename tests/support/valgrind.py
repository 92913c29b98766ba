"""Valgrind's own tools beside ours, in one environment, so that counts can be compared."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tare.base.native import native_file
from tare.observers import instrument

VALGRIND = shutil.which("valgrind.bin")

needs_valgrind = pytest.mark.skipif(VALGRIND is None, reason="Debian's package valgrind is missing")


@pytest.fixture(scope="module")
def both_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our tool and Valgrind's, so that what is preloaded has one path."""
    folder = tmp_path_factory.mktemp("valgrind")
    for name in ("tare-valgrind", "tareinst-amd64-linux", "vgpreload_core-amd64-linux.so"):
        shutil.copy(native_file(f"valgrind/{name}"), folder)
    theirs = Path("/usr/libexec/valgrind")
    for name in ("callgrind-amd64-linux", "memcheck-amd64-linux", "none-amd64-linux",
                 "vgpreload_memcheck-amd64-linux.so", "default.supp"):  # fmt: skip
        if not (theirs / name).exists():
            pytest.skip(f"Debian's package valgrind is missing ({name})")
        shutil.copy(theirs / name, folder)
    (folder / "frozen.c").write_text(FROZEN)
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", "-o", folder / "frozen.so", folder / "frozen.c"],
        check=True,
    )
    return folder


FROZEN = """
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
static struct timespec now = {1000000000, 0};
time_t time(time_t *at) { if (at) *at = now.tv_sec; return now.tv_sec; }
int clock_gettime(clockid_t clock, struct timespec *at) { (void)clock; *at = now; return 0; }
int gettimeofday(struct timeval *at, void *zone) {
  (void)zone; at->tv_sec = now.tv_sec; at->tv_usec = 0; return 0; }
clock_t clock(void) { return 0; }
pid_t getpid(void) { return 4242; }
pid_t getppid(void) { return 4241; }
ssize_t getrandom(void *to, size_t n, unsigned flags) { (void)flags; memset(to, 7, n); return n; }
"""
"""The same time, process number and random bytes at every run: programs seed hashes with them."""


def valgrind_environment(both: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C",
        "PYTHONHASHSEED": "0",
        "PERL_HASH_SEED": "0",
        "TARE_PROGRAM_BREAK": "valgrind",  # the heap where Valgrind's own tools have it
        "LD_PRELOAD": str(both / "frozen.so"),
        "VALGRIND_LIB": str(both),
        **more,
    }


def real_program(name: str, path: str | None = None) -> str | None:
    """GNU's, where another has its name: each run of Ubuntu's coreutils in Rust has other hashes,
    and Valgrind's own tools cannot run them."""
    return shutil.which(f"gnu{name}", path=path) or shutil.which(name, path=path)


@cache
def loads_elsewhere() -> bool:
    """Whether Valgrind's own tools load programs at other addresses than the pinned core: 3.26 and
    later. What depends on addresses, as tables by pointers and misses do, is nearly the same."""
    assert VALGRIND is not None
    said = subprocess.run([VALGRIND, "--version"], capture_output=True, text=True, check=True)
    return tuple(map(int, re.findall(r"\d+", said.stdout)[:2])) >= (3, 26)


def theirs(both: Path, name: str, *words: str, **more: str) -> str:
    """Run one of Valgrind's tools; what it says."""
    log = both / "log"
    assert VALGRIND is not None
    subprocess.run(
        [VALGRIND, f"--tool={name}", "--command-line-only=yes", "--vgdb=no", f"--log-file={log}",
         *words],
        env=valgrind_environment(both, **more), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return log.read_text()


def ours(both: Path, *words: str, options: Sequence[str] = (), **more: str) -> Any:
    """What our tool counts; ``options`` are its own."""
    folder = both / "counts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    subprocess.run(
        [both / "tare-valgrind", "--tool=tareinst", "--command-line-only=yes", "--vgdb=no",
         "--quiet", f"--count-folder={folder}", *options, *words],
        env=valgrind_environment(both, **more), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    (count,) = instrument.read_counts(folder)
    return count


def collected(both: Path, *words: str, options: Sequence[str] = (), **more: str) -> int:
    """The instructions that callgrind collects; ``options`` are its own."""
    said = theirs(both, "callgrind", "--callgrind-out-file=/dev/null", *options, *words, **more)
    match = re.search(r"Collected : (\d+)", said)
    assert match, said
    return int(match[1])
