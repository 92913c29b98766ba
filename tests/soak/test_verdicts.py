"""Real bills of a manager against itself, behind `make soak`: how often a difference is claimed.

TARE_SOAK_BILLS is how many: 1,000 by default.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import tare
from tare.memory_managers.manager import resolve
from tare.records.evidence import ERROR, Evidence
from tare.studies.compare.weigh import compared

pytestmark = pytest.mark.timeout(4 * 3600)

BILLS = int(os.environ.get("TARE_SOAK_BILLS", "1000"))
COPIES = 4
ROUNDS = 6
"""The fewest from which a verdict by time is given."""
PROGRAM = """
#include <stdlib.h>
int main(void) {
  static char* live[1000];
  unsigned random = 1;
  for (long i = 0; i < 20000; ++i) {
    random = random * 1664525u + 1013904223u;
    char** slot = &live[(random >> 8) % 1000];
    free(*slot);
    *slot = malloc(16 + (random >> 22));
    **slot = 1;
  }
}
"""


def false_claims(evidence: Evidence) -> list[str]:
    """A difference that is named, or the truth that is excluded."""
    return [
        f"{evidence.metric} {manager}: {judged}"
        for manager, judged in evidence.judged.items()
        if judged.word in ("lower", "higher")
        or (judged.sure is not None and not judged.sure.holds(1.0))
    ]


def test_a_manager_against_itself_is_called_different_in_one_bill_of_twenty(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", "p", "p.c"], cwd=tmp_path, check=True)
    server = resolve("jemalloc").server
    assert server is not None
    copies = [tmp_path / f"copy{number}.so" for number in range(COPIES)]
    for copy in copies:
        shutil.copy(server, copy)
    names = [str(copy) for copy in copies]
    told, false = 0, []
    for number in range(BILLS):
        folder = tmp_path / "r"
        results = tare.weigh(
            [str(tmp_path / "p")], names, only=["time"], runs=ROUNDS, seed=number, folder=folder
        )
        found = compared(results)
        each = [*found.times, found.memory]
        told += all(judged.sure is not None for judged in found.times[0].judged.values())
        if claims := [claim for evidence in each for claim in false_claims(evidence)]:
            false.append(claims)
        shutil.rmtree(folder)
    print(f"{len(false)} of {BILLS} bills made a false claim")
    assert told >= 0.9 * BILLS, "there were too few runs to claim anything"
    allowed = ERROR * BILLS + 2.5 * (ERROR * (1 - ERROR) * BILLS) ** 0.5
    assert len(false) <= allowed, false
