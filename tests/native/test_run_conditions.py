"""Processors, huge pages and memory nodes: what was asked for is what the program has."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.base.native import native_file
from tare.memory_managers.manager import resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.conditions import Conditions
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

WHERE = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static void show(const char *file, const char *label) {
  char line[512];
  FILE *status = fopen(file, "r");
  while (status && fgets(line, sizeof line, status))
    if (!strncmp(line, label, strlen(label))) fputs(line, stdout);
  if (status) fclose(status);
}
int main(int argc, char **argv) {
  size_t huge = 2 << 20, size = 8 * huge;
  char *block = aligned_alloc(huge, size);
  madvise(block, size, MADV_HUGEPAGE);
  memset(block, 1, size);
  show("/proc/self/status", "Cpus_allowed_list");
  show("/proc/self/status", "THP_enabled");
  show("/proc/self/smaps_rollup", "AnonHugePages");
  printf("prctl:\t%d\n", prctl(42, 0, 0, 0, 0));
  fflush(stdout);
  if (argc == 1) return execl(argv[0], argv[0], "again", (char *)0);
  return 0;
}
"""


def places_shown(
    tmp_path: Path, program: Path, asked: Conditions, manager: str = "glibc"
) -> list[dict[str, str]]:
    """What the program shows of itself, and then once more in the image that it becomes."""
    kept = tmp_path / "kept"
    kept.unlink(missing_ok=True)
    outcome = run_once(
        Program("where", (str(program),)),
        resolve(manager),
        Limits(conditions=asked),
        tmp_path,
        kept,
    )
    assert outcome.status is Status.OK, outcome
    shown = [line.split(":") for line in kept.read_text().splitlines() if ":" in line]
    half = len(shown) // 2
    return [{n: text.strip() for n, text in part} for part in (shown[:half], shown[half:])]


def test_a_program_has_the_processors_that_were_asked_for(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    program = compile_c(WHERE)
    here = os.sched_getaffinity(0)
    for each in sorted(here)[:2]:
        for shown in places_shown(tmp_path, program, Conditions(cpus=str(each))):
            assert shown["Cpus_allowed_list"] == str(each)
    one = min(here)
    under = f"machine(glibc, cpus={one})"
    assert places_shown(tmp_path, program, Conditions(), under)[1]["Cpus_allowed_list"] == str(one)
    assert os.sched_getaffinity(0) == here


def test_a_program_gets_no_huge_pages_where_that_was_asked_for(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    """Though it asks the kernel for them; a layer above, and its own name, change nothing."""
    program = compile_c(WHERE)
    for shown in (
        *places_shown(tmp_path, program, Conditions(hugepages="never")),
        *places_shown(tmp_path, program, Conditions(), "machine(delay(glibc), hugepages=never)"),
    ):
        assert shown["THP_enabled"] == "0"
        assert shown["AnonHugePages"] == "0 kB"
        assert shown["prctl"] == "1"
    under = "machine(glibc, hugepages=as-is)"
    for shown in places_shown(tmp_path, program, Conditions(hugepages="never"), under):
        assert shown["THP_enabled"] == "1"


def launched(*words: str) -> dict[str, Any]:
    command = [str(native_file("bin/tare-launch")), *words]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return dict(json.loads(made.stdout))


@pytest.mark.parametrize(
    ("word", "enabled", "prctl"),
    [("never", "0", "1"), ("where-advised", "1", "3"), ("as-the-machine-says", "1", "0")],
)
def test_the_kernel_s_words_for_huge_pages(
    tmp_path: Path, compile_c: Callable[..., Path], word: str, enabled: str, prctl: str
) -> None:
    said = tmp_path / "said"
    report = launched("--huge-pages", word, "--stdout", str(said), "--", str(compile_c(WHERE)), "x")
    older = [int(number) for number in os.uname().release.split(".")[:2]] < [6, 18]
    if word == "where-advised" and older and report["end"] == "error":
        pytest.skip("this kernel is older than 6.18, which alone leaves huge pages to who asks")
    assert report["setting_broken"] == ""
    lines = dict(line.split(":\t") for line in said.read_text().splitlines() if ":\t" in line)
    assert (lines["THP_enabled"], lines["prctl"]) == (enabled, prctl)


def test_memory_is_taken_from_the_nodes_that_were_asked_for(tmp_path: Path) -> None:
    maps = Path("/proc/self/numa_maps")
    if not maps.exists():
        pytest.skip("this kernel knows no memory nodes")
    said = tmp_path / "said"
    report = launched("--memory-nodes", "0", "--stdout", str(said), "--", "cat", str(maps))
    assert report["end"] == "exited"
    assert all(line.split()[1] == "bind:0" for line in said.read_text().splitlines())
    assert launched("--memory-nodes", "1000", "--", "true")["error_what"] == "setting"


def test_a_processor_that_is_not_there_starts_nothing() -> None:
    report = launched("--processors", f"{min(os.sched_getaffinity(0))},1000", "--", "true")
    assert (report["end"], report["error_what"]) == ("error", "setting")
    launcher = str(native_file("bin/tare-launch"))
    for text in ("", "x", "0-", "2-1", "0,", "1024", "-1"):
        made = subprocess.run(
            [launcher, "--processors", text, "--", "true"], capture_output=True, check=False
        )
        assert made.returncode == 2, text


def test_a_program_that_leaves_its_processors_has_no_figure(tmp_path: Path) -> None:
    one, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip("a program cannot leave its only processor")
    limits = Limits(conditions=Conditions(cpus=str(one)))

    def run(command: str) -> Outcome:
        program = Program("test", ("sh", "-c", command))
        return run_once(program, resolve("glibc"), limits, tmp_path)

    outcome = run(f"taskset -c {others[0]} sleep 0.2")
    assert outcome.status is Status.NOT_LOADED
    assert f"runs on processors {others[0]}" in outcome.reason
    assert not outcome.values
    assert run(f"taskset -c {one} sleep 0.05").status is Status.OK
    assert not list(tmp_path.glob("run-*")), "a run left its files behind"
