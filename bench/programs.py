"""Programs that allocate all the time, and their times under several tools in turn."""

from __future__ import annotations

import math
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import pace
from bench.pace import seconds
from tare.base.statistics import Interval, median_interval, round_interval, rounds_needed

ERROR = 0.05
SEED = 1
VALGRIND = "valgrind.bin"
OPTIONS = ("--command-line-only=yes", "--quiet", "--vgdb=no")

MAP_CHURN = """
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
int main(int, char** words) {
  const int count = std::atoi(words[1]);
  std::map<std::uint32_t, std::string> live;
  std::uint32_t random = 1;
  for (int i = 0; i < count; ++i) {
    random = random * 1664525u + 1013904223u;
    const std::uint32_t key = random >> 12;
    live[key] = std::string(20 + (key & 31), 'x');
    if (live.size() > 10000) live.erase(live.begin());
  }
  return live.size() == 10000 ? 0 : 1;
}
"""
PROGRAMS: Mapping[str, tuple[int, Sequence[str]]] = {
    "gawk": (2_500_000, ("gawk", 'BEGIN{for(i=0;i<COUNT;i++)a[i%5000]=i "x"; print length(a)}')),
    "perl": (3_000_000, ("perl", "-e", "my %h; $h{$_ % 9999} .= $_ for 1..COUNT; print 0 + %h")),
    "lua": (
        2_500_000,
        ("lua5.4", "-e", "local t={} for i=1,COUNT do t[i%5000]=tostring(i) end print(#t)"),
    ),
    "sqlite3": (
        700_000,
        (
            "sqlite3",
            ":memory:",
            "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c "
            "where x<COUNT) insert into t select x,hex(x) from c; select sum(length(b)) from t;",
        ),
    ),
    "bc": (15_000, ("bc", "-q", "FOLDER/sum.bc")),
    "a C++ map": (4_000_000, ("FOLDER/churn", "COUNT")),
}
"""Each with its COUNT, by which it takes about 0.3 s by itself: long enough that the start of
Valgrind does not hide the rest."""
SUM = "for (i = 0; i < COUNT; i++) a[i % 50] = i ^ 60\na[7]\nquit\n"


def commands(folder: Path, share: float = 1.0) -> dict[str, list[str]]:
    """The programs that are installed, and one that is compiled into ``folder``; with that share of
    their work, for tools under which they take long."""
    churn = folder / "churn"
    churn.with_suffix(".cpp").write_text(MAP_CHURN)
    subprocess.run(["c++", "-O2", "-o", churn, churn.with_suffix(".cpp")], check=True)
    found = {}
    for name, (most, command) in PROGRAMS.items():
        count = str(int(most * share))
        words = [w.replace("COUNT", count).replace("FOLDER", str(folder)) for w in command]
        if name == "bc":
            (folder / "sum.bc").write_text(SUM.replace("COUNT", count))
        if shutil.which(words[0]):
            found[name] = words
    return found


@dataclass(frozen=True)
class Times:
    """Seconds of processor time under each tool, unless said otherwise, a value a round."""

    of: Mapping[str, Sequence[float]]

    def ratio(self, tool: str, other: str) -> Interval:
        """Of the time under ``tool`` to that under ``other``."""
        pairs = zip(self.of[tool], self.of[other], strict=True)
        interval = round_interval([([one], [two]) for one, two in pairs], ERROR)
        assert interval is not None
        return interval

    def quotients(self, tool: str, other: str) -> list[float]:
        """The time under ``tool`` divided by that under ``other``, a value a round."""
        return [one / two for one, two in zip(self.of[tool], self.of[other], strict=True)]

    def each(self, tool: str, divisor: float) -> Interval:
        """The time under ``tool`` divided by ``divisor``."""
        interval = median_interval([value / divisor for value in self.of[tool]], SEED)
        assert interval is not None
        return interval

    def more(self, tool: str, other: str, divisor: float = 1.0) -> Interval:
        """Seconds that ``tool`` took more than ``other`` in the same round, divided."""
        return self._of_rounds(lambda one, two: (one - two) / divisor, tool, other)

    def added(self, tool: str, other: str, bare: str) -> Interval:
        """What ``tool`` adds to ``bare``, as a share of what ``other`` adds."""
        return self._of_rounds(lambda one, two, own: (one - own) / (two - own), tool, other, bare)

    def _of_rounds(self, find: Callable[..., float], *tools: str) -> Interval:
        rounds = zip(*(self.of[tool] for tool in tools), strict=True)
        interval = median_interval([find(*each) for each in rounds], SEED)
        assert interval is not None
        return interval


def times(tools: Mapping[str, Sequence[str]], command: Sequence[str]) -> Times:
    """Of the command behind the words of each tool."""
    return in_turns({name: partial(seconds, [*words, *command]) for name, words in tools.items()})


def timed(walls: dict[str, list[float]], name: str, command: Sequence[str]) -> float:
    """Its processor time; its wall time joins those of that name."""
    begun = time.monotonic()
    used = seconds(command)
    walls.setdefault(name, []).append(time.monotonic() - begun)
    return used


def in_turns(measures: Mapping[str, Callable[[], float]], rounds: int = 0) -> Times:
    """What each gives, in an order drawn anew each round, so that what disturbs the machine
    disturbs all. By default as many rounds as a ratio needs for an interval. Reads the pace of the
    machine in each."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    drawn = random.Random(SEED)
    for _ in range(rounds or rounds_needed(ERROR, 1)):
        for name in drawn.sample(list(measures), len(measures)):
            found[name].append(measures[name]())
        pace.slowness(pace.FEW_TRIES)
    return Times(found)


def round_means(ratios: Mapping[str, Sequence[float]]) -> Interval:
    """Of the geometric means over all programs, one a round, from the ratios of each program."""
    means = [
        math.exp(statistics.fmean(map(math.log, each)))
        for each in zip(*ratios.values(), strict=True)
    ]
    interval = median_interval(means, SEED)
    assert interval is not None
    return interval
