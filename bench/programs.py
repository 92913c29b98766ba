"""Programs that allocate all the time, and their times under several tools in turn."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TRIES = 3
VALGRIND = "valgrind.bin"
OPTIONS = ("--command-line-only=yes", "--quiet", "--vgdb=no")

MAP_CHURN = """
#include <cstdint>
#include <map>
#include <string>
int main() {
  std::map<std::uint32_t, std::string> live;
  std::uint32_t random = 1;
  for (int i = 0; i < 4000000; ++i) {
    random = random * 1664525u + 1013904223u;
    const std::uint32_t key = random >> 12;
    live[key] = std::string(20 + (key & 31), 'x');
    if (live.size() > 10000) live.erase(live.begin());
  }
  return live.size() == 10000 ? 0 : 1;
}
"""
PROGRAMS = {
    "gawk": ["gawk", 'BEGIN{for(i=0;i<2500000;i++)a[i%5000]=i "x"; print length(a)}'],
    "perl": ["perl", "-e", "my %h; $h{$_ % 9999} .= $_ for 1..3000000; print scalar keys %h"],
    "lua": ["lua5.4", "-e", "local t={} for i=1,2500000 do t[i%5000]=tostring(i) end print(#t)"],
    "sqlite3": [
        "sqlite3",
        ":memory:",
        "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where "
        "x<700000) insert into t select x,hex(x) from c; select sum(length(b)) from t;",
    ],
    "bc": ["bc", "-q", "{folder}/sum.bc"],
}
"""Long enough, about 0.3 s by themselves, that the start of Valgrind does not hide the rest."""
SUM = "for (i = 0; i < 15000; i++) a[i % 50] = i ^ 60\na[7]\nquit\n"


def commands(folder: Path) -> dict[str, list[str]]:
    """The programs that are installed, and one that is compiled into ``folder``."""
    (folder / "sum.bc").write_text(SUM)
    (folder / "churn.cpp").write_text(MAP_CHURN)
    churn = str(folder / "churn")
    subprocess.run(["c++", "-O2", "-o", churn, folder / "churn.cpp"], check=True)
    found = {
        name: [word.replace("{folder}", str(folder)) for word in command]
        for name, command in PROGRAMS.items()
        if shutil.which(command[0])
    }
    return {**found, "a C++ map": [churn]}


def medians(tools: Mapping[str, Sequence[str]], command: Sequence[str]) -> dict[str, float]:
    """Seconds of the command behind the words of each tool, the median; one after the other, so
    that what disturbs the machine disturbs all."""
    times: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(TRIES):
        for name, words in tools.items():
            times[name].append(_seconds([*words, *command]))
    return {name: statistics.median(each) for name, each in times.items()}


def _seconds(command: Sequence[str]) -> float:
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
