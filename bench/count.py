"""What counting instructions costs over running under Valgrind's core at all."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.row import Row
from tare import instrument
from tare.errors import MissingError

TRIES = 7
MOST_RATIO = 1.15
VALGRIND = "valgrind.bin"

MAP_CHURN = """
#include <cstdint>
#include <map>
#include <string>
int main() {
  std::map<std::uint32_t, std::string> live;
  std::uint32_t random = 1;
  for (int i = 0; i < 400000; ++i) {
    random = random * 1664525u + 1013904223u;
    const std::uint32_t key = random >> 12;
    live[key] = std::string(20 + (key & 31), 'x');
    if (live.size() > 10000) live.erase(live.begin());
  }
  return live.size() == 10000 ? 0 : 1;
}
"""
PROGRAMS = {
    "gawk": ["gawk", 'BEGIN{for(i=0;i<600000;i++)a[i%5000]=i "x"; print length(a)}'],
    "perl": ["perl", "-e", "my %h; $h{$_ % 9999} .= $_ for 1..700000; print scalar keys %h"],
    "lua": ["lua5.4", "-e", "local t={} for i=1,500000 do t[i%5000]=tostring(i) end print(#t)"],
    "sqlite3": [
        "sqlite3",
        ":memory:",
        "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where "
        "x<90000) insert into t select x,hex(x) from c; select sum(length(b)) from t;",
    ],
    "bc": ["bc", "-q", "{folder}/sum.bc"],
}
SUM = "for (i = 0; i < 1500; i++) a[i % 50] = i ^ 60\na[7]\nquit\n"


def rows() -> list[Row]:
    """Each program under Valgrind's none tool and under ours in turn; the ratio of medians."""
    try:
        ours = [str(instrument.launcher()), "--tool=tareinst"]
    except MissingError as error:
        return [Row("count", error.message)]
    if shutil.which(VALGRIND) is None:
        return [Row("count", "the package valgrind, to compare with, is missing")]
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, command in _commands(folder).items():
            none, counted = _medians([VALGRIND, "--tool=none"], ours, command, folder)
            native = statistics.median(_seconds(command) for _ in range(TRIES))
            ratio = counted / none
            found.append(
                Row(
                    f"count of {program}, slowdown over Valgrind's none",
                    f"{ratio:.2f}x (none {none / native:.1f}x, count {counted / native:.1f}x "
                    "of native)",
                    f"at most {MOST_RATIO}x",
                    ratio <= MOST_RATIO,
                )
            )
    return found


def _commands(folder: Path) -> dict[str, list[str]]:
    (folder / "sum.bc").write_text(SUM)
    (folder / "churn.cpp").write_text(MAP_CHURN)
    churn = str(folder / "churn")
    subprocess.run(["c++", "-O2", "-o", churn, folder / "churn.cpp"], check=True)
    commands = {
        name: [word.replace("{folder}", str(folder)) for word in command]
        for name, command in PROGRAMS.items()
        if shutil.which(command[0])
    }
    return {**commands, "a C++ map": [churn]}


def _medians(
    none: list[str], ours: list[str], command: list[str], folder: Path
) -> tuple[float, float]:
    options = ["--command-line-only=yes", "--quiet", "--vgdb=no"]
    tools = ([*none, *options], [*ours, *options, f"--count-folder={folder}"])
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(TRIES):
        for words, measured in zip(tools, times, strict=True):
            measured.append(_seconds([*words, *command]))
    return statistics.median(times[0]), statistics.median(times[1])


def _seconds(command: list[str]) -> float:
    environment = {**os.environ, "VALGRIND_LIB": "/usr/libexec/valgrind"}
    begun = time.perf_counter()
    subprocess.run(
        command,
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - begun
