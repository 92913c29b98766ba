"""`tare space`: programs whose layout is known."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tare as api
from tare.answers.building import build_report
from tare.base.errors import UsageError
from tare.heap_traces import growth
from tare.memory_managers.catalogue import load_recipes, object_path
from tare.programs.program import program_from_command
from tare.records.results import Results, read_records
from tare.records.runs import Limits
from tare.report.page import render_page
from tare.studies.space import report as space
from tare.studies.space.ranges import without
from tare.studies.space.snapshot import (
    PAGE,
    TOUCHED_BYTES,
    read_snapshot,
)
from tare.studies.space.split import PARTS
from tests.conftest import Completed
from tests.support import ROOT


def test_old_and_new_kernels_show_the_same_pages(tmp_path: Path) -> None:
    program = tmp_path / "harness"
    folders = [f"-I{ROOT / 'observers/recorder'}", f"-I{ROOT / 'platform/include'}"]
    source = ROOT / "tests/studies/space_harness.cpp"
    subprocess.run(["c++", "-std=c++20", "-O1", *folders, "-o", program, source], check=True)
    entries, scan = (tmp_path / f"1.{number}.snapshot.peak" for number in range(2))
    status = subprocess.run([program, entries, scan], check=False).returncode
    if status == 3:
        pytest.skip("this kernel cannot scan pages (it takes Linux 6.7)")
    assert status == 0
    one, other = (read_snapshot(path).runs for path in (entries, scan))
    # The page of zeros is in neither.
    assert 8 << 20 < 4 * int((other[:, 1] - other[:, 0]).sum()) < 64 << 20
    different = without(one, other), without(other, one)
    assert sum(int((rows[:, 1] - rows[:, 0]).sum()) for rows in different) <= 4 * PAGE


# ---- real programs ----

REPORT_RSS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <pthread.h>
/* A new peak in which the program does nothing but look at itself. */
static void look(void) {
  static char line[256];
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  while (fgets(line, sizeof line, file)) if (!strncmp(line, "Rss", 3)) fputs(line, stdout);
  fclose(file);
}
"""
NO_BUILTIN = "-fno-builtin"
"""Or the compiler takes allocations away that nobody reads."""
HALVES = (
    REPORT_RSS
    + """
int main(int count, char **words) {
  int objects = atoi(words[1]), size = atoi(words[2]), keep = atoi(words[3]);
  char **all = malloc(objects * sizeof *all);
  memset(all, 0, objects * sizeof *all);
  for (int i = 0; i < objects; i++) memset(all[i] = malloc(size), 1, size);
  for (int i = 0; i < objects; i++) if (i % keep) free(all[i]);
  long extra = (long)objects * size / 2;
  memset(malloc(extra), 1, extra);  /* so that the peak is after the frees */
  look();
}
"""
)
SMALL_AFTER_LARGE = (
    REPORT_RSS
    + """
int main(void) {
  enum { LARGE = 150, SMALL = 300000 };
  static char *large[LARGE];
  for (int i = 0; i < LARGE; i++) memset(large[i] = malloc(60000), 1, 60000);
  malloc(10);  /* so that glibc keeps what is freed */
  for (int i = 0; i < LARGE; i++) free(large[i]);
  for (int i = 0; i < SMALL; i++) memset(malloc(16), 2, 16);
  look();
}
"""
)
OBJECT_COUNT, OBJECT_SIZE = 60_000, 112


def looked_at(folder: Path, manager: str, *command: str | Path) -> tuple[dict[str, Any], int]:
    """The details of the one run, and the resident bytes that the program printed of itself."""
    results = api.space(
        [str(word) for word in command],
        [manager],
        baseline=manager,
        folder=folder,
        limits=Limits(least_coverage=0),
    )
    (record,) = read_records(results.folder)
    assert record.outcome.status == "ok", record.outcome.reason
    (output,) = (folder / "outputs").iterdir()
    printed = [int(line.split()[1]) for line in output.read_text().splitlines() if "Rss" in line]
    return dict(record.outcome.details), 1024 * printed[0] if printed else 0


def check_sum(details: dict[str, Any], printed: int = 0) -> None:
    for moment in details["timeline"]:
        assert sum(moment["parts"].values()) == moment["resident"]
        assert abs(moment["parts"]["unexplained"]) <= 0.01 * moment["resident"]
    peak = details["peak"]
    if printed:
        assert peak["resident"] + peak["observer"] == pytest.approx(
            printed, rel=0.02, abs=TOUCHED_BYTES
        )


@pytest.mark.parametrize("manager", ["glibc", "jemalloc", "mimalloc"])
def test_every_second_object_freed_is_external(
    compile_c: Callable[..., Path], tmp_path: Path, manager: str
) -> None:
    program = compile_c(HALVES, NO_BUILTIN, "-g")  # sites of one function, told apart by lines
    numbers = (str(OBJECT_COUNT), str(OBJECT_SIZE), "2")
    details, printed = looked_at(tmp_path / "r", manager, program, *numbers)
    check_sum(details, printed)
    parts = details["peak"]["parts"]
    kept, freed = OBJECT_COUNT // 2, OBJECT_COUNT // 2
    asked = kept * OBJECT_SIZE + OBJECT_COUNT * 8 + OBJECT_COUNT * OBJECT_SIZE // 2
    assert parts["requested"] == pytest.approx(asked, rel=0.01)
    assert parts["external"] == pytest.approx(freed * OBJECT_SIZE, rel=0.1)
    assert parts["retained"] <= 0.05 * parts["external"]
    site = details["sites"][0]
    assert site["kept"] == pytest.approx(parts["external"], rel=0.05)
    assert site["objects"] == kept
    assert details["largest_live"] >= OBJECT_COUNT * (OBJECT_SIZE + 8)


def test_glibc_has_eight_bytes_of_header_an_object(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    numbers = (str(OBJECT_COUNT), "120", "2")
    details, _ = looked_at(tmp_path / "r", "glibc", compile_c(HALVES, NO_BUILTIN), *numbers)
    parts = details["peak"]["parts"]
    # Chunks of 128 bytes: 120 usable and a header; the usable size of a dead one was as large.
    assert parts["metadata"] == pytest.approx(8 * OBJECT_COUNT, rel=0.2)
    assert parts["internal"] < 0.02 * parts["requested"]


@pytest.mark.parametrize(("manager", "header", "usable"), [("glibc", 8, 24), ("scudo", 16, 16)])
def test_headers_where_larger_objects_were_are_metadata(
    compile_c: Callable[..., Path], tmp_path: Path, manager: str, header: int, usable: int
) -> None:
    if manager == "scudo" and object_path(load_recipes()[manager]) is None:
        pytest.skip(f"the manager {manager} is not built here")
    program = compile_c(SMALL_AFTER_LARGE, NO_BUILTIN)
    details, _ = looked_at(tmp_path / "r", manager, program)
    peak = details["peak"]["parts"]
    assert peak["internal"] == pytest.approx((usable - 16) * 300_000, rel=0.02, abs=4096)
    assert peak["metadata"] >= 0.98 * header * 300_000
    assert peak["external"] <= 0.02 * header * 300_000


def test_one_object_a_page_keeps_the_page(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    # Chunks of 128 bytes: 32 to a page, and every 32nd one stays.
    numbers = (str(OBJECT_COUNT), "120", "32")
    details, _ = looked_at(tmp_path / "r", "glibc", compile_c(HALVES, NO_BUILTIN), *numbers)
    parts, site = details["peak"]["parts"], details["sites"][0]
    heap_pages = OBJECT_COUNT // 32
    reused = (
        OBJECT_COUNT * 120 // 2 / 128 / 32
    )  # the last allocation may take free chunks? it is larger
    assert reused
    assert site["sparse_pages"] == pytest.approx(heap_pages, rel=0.05)
    assert site["sparse_bytes"] == pytest.approx(heap_pages * 120, rel=0.05)
    assert parts["external"] == pytest.approx(31 / 32 * OBJECT_COUNT * 120, rel=0.1)
    assert parts["external"] > 10 * parts["retained"]


RETAINED = (
    REPORT_RSS
    + """
int main(int count, char **words) {
  char *last = 0, *all[4000];
  for (int i = 0; i < 4000; i++) memset(all[i] = malloc(1000), 1, 1000);
  last = malloc(100);  /* keeps the end of the heap */
  for (int i = 0; i < 4000; i++) free(all[i]);
  if (count > 1) malloc_trim(0);
  char *more = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(more, 1, 8 << 20);
  look();
  return last == 0;
}
"""
)


def test_freed_pages_are_retained_until_they_are_given_back(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = compile_c(RETAINED, NO_BUILTIN)
    held, printed = looked_at(tmp_path / "held", "glibc", program)
    trimmed, _ = looked_at(tmp_path / "trimmed", "glibc", program, "trim")
    for details in (held, trimmed):
        check_sum(details)
        # The program's own mapping is no heap.
        assert details["peak"]["parts"]["other"] >= 8 << 20
    assert held["peak"]["parts"]["retained"] == pytest.approx(4000 * 1008, rel=0.02)
    assert trimmed["peak"]["parts"]["retained"] < 64 << 10
    assert held["peak"]["resident"] + held["peak"]["observer"] == pytest.approx(printed, rel=0.02)


@pytest.mark.parametrize("objects", [100, 300, 1100, 2200])
def test_the_peak_is_before_the_frees_that_end_it(
    compile_c: Callable[..., Path], tmp_path: Path, objects: int
) -> None:
    source = """
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    int main(int count, char **words) {
      int objects = atoi(words[1]);
      char **all = malloc(objects * sizeof *all);
      for (int i = 0; i < objects; i++) memset(all[i] = malloc(1000), 1, 1000);
      char *last = malloc(100);  /* keeps the end of the heap */
      for (int i = 0; i < objects; i++) free(all[i]);
      free(all);
      return puts("done") < 0 || last == 0;  /* touches more of the C library */
    }"""
    program = compile_c(source, NO_BUILTIN)
    details, _ = looked_at(tmp_path / "r", "glibc", program, str(objects))
    parts = details["peak"]["parts"]
    assert parts["requested"] == pytest.approx(objects * 1008 + 100, rel=0.02)
    assert parts["retained"] == 0


@pytest.mark.parametrize("manager", ["glibc", "snmalloc"])
def test_a_program_that_never_allocates_has_a_peak(
    compile_c: Callable[..., Path], tmp_path: Path, manager: str
) -> None:
    details, _ = looked_at(tmp_path / "r", manager, compile_c("int main(void) { return 0; }"))
    assert details["peak"]["live"] == 0
    assert details["largest_live"] == 0
    assert details["peak"]["resident"] > 0
    check_sum(details)


def test_objects_that_a_layer_holds_are_delayed(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = (
        REPORT_RSS
        + """
    int main(void) {
      for (int i = 0; i < 4000; i++) { char *p = malloc(1000); memset(p, 1, 1000); free(p); }
      look();
    }"""
    )
    program = compile_c(source, NO_BUILTIN)
    details, _ = looked_at(tmp_path / "r", "delay(glibc, size=2MiB)", program)
    check_sum(details)
    parts = details["peak"]["parts"]
    assert 1 << 20 < parts["delayed"] <= (2 << 20) * 1.05
    assert parts["requested"] < 100_000


def test_zero_pages_that_are_only_read_are_not_resident(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = (
        REPORT_RSS
        + """
    int main(void) {
      volatile char *p = calloc(1, 32 << 20);
      char sum = 0;
      for (long i = 0; i < 32 << 20; i += 4096) sum += p[i];
      free(malloc(1 << 20));
      look();
      return sum;
    }"""
    )
    details, printed = looked_at(tmp_path / "r", "glibc", compile_c(source, NO_BUILTIN))
    check_sum(details, printed)
    assert details["peak"]["resident"] < 16 << 20
    assert details["peak"]["live"] > 32 << 20


def test_stacks_of_threads_are_no_heap(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    source = (
        REPORT_RSS
        + """
    static pthread_barrier_t all;
    static void *work(void *unused) {
      char deep[2 << 20];
      memset(deep, 1, sizeof deep);
      char *p = malloc(100000);
      memset(p, 1, 100000);
      pthread_barrier_wait(&all);
      pthread_barrier_wait(&all);
      free(p);
      return deep[5] == 2 ? deep : 0;
    }
    int main(void) {
      pthread_t threads[4];
      pthread_barrier_init(&all, 0, 5);
      for (int i = 0; i < 4; i++) pthread_create(threads + i, 0, work, 0);
      pthread_barrier_wait(&all);
      free(malloc(1 << 20));
      look();
      pthread_barrier_wait(&all);
      for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    }"""
    )
    details, printed = looked_at(
        tmp_path / "r", "jemalloc", compile_c(source, "-pthread", NO_BUILTIN)
    )
    # At earlier moments the threads write, between the kernel's sum and its list of pages.
    check_sum({**details, "timeline": [details["peak"]]}, printed)
    parts = details["peak"]["parts"]
    assert parts["other"] > 4 * (2 << 20)
    assert 400_000 - 0.02 * printed < parts["requested"] < 500_000
    assert parts["metadata"] < 4 << 20


def test_of_several_processes_the_largest_is_shown(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = (
        REPORT_RSS
        + """
    int main(void) {
      char *mine = malloc(1 << 20);
      memset(mine, 1, 1 << 20);
      if (fork() == 0) {
        char *all[100];
        for (int i = 0; i < 100; i++) memset(all[i] = malloc(100000), 1, 100000);
        free(malloc(1 << 20));
        look();
        exit(0);
      }
      wait(0);
    }"""
    )
    details, printed = looked_at(tmp_path / "r", "glibc", compile_c(source, NO_BUILTIN))
    check_sum(details, printed)
    assert details["forked"]
    assert len(details["processes"]) == 2
    # The parent's object is the child's as well.
    assert details["peak"]["parts"]["requested"] == pytest.approx((1 << 20) + 10_000_000, rel=0.02)


GROWING = """
#include <stdlib.h>
#include <string.h>
char *leak(void) { return malloc(200); }
char *hold(void) { return malloc(300); }
int main(void) {
  char *ring[500] = {0};
  for (int i = 0; i < 60000; i++) {
    if (i % 3 == 0) leak();
    free(ring[i % 500]);
    ring[i % 500] = hold();
  }
}
"""


def test_a_leak_is_told_from_a_ring_of_objects(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    details, _ = looked_at(tmp_path / "r", "glibc", compile_c(GROWING, "-g", "-O0", NO_BUILTIN))
    growing = details["growth"]["sites"]
    assert [site["frames"][0]["function"] for site in growing] == ["leak"]
    assert growing[0]["kind"] == growth.GROWS
    assert details["growth"]["never_freed"][0]["never_freed_objects"] == 20_000
    text = " ".join(space.findings(read_records(tmp_path / "r"), "glibc"))
    assert "One call site has objects that grow" in text


def test_snapshots_stay_few_however_long_the_run(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = """
    #include <stdlib.h>
    int main(void) { for (int i = 0; i < 30000; i++) free(malloc(100000)); }"""
    details, _ = looked_at(tmp_path / "r", "glibc", compile_c(source, NO_BUILTIN))
    assert 20 <= len(details["timeline"]) <= 65
    clock = [moment["allocated"] for moment in details["timeline"]]
    assert clock == sorted(clock)
    assert clock[-1] > 0.9 * details["allocated_bytes"]


# ---- the command ----


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("space")
    code, program = folder / "p.c", folder / "p"
    code.write_text(HALVES)
    subprocess.run(["cc", "-O1", NO_BUILTIN, "-o", program, code], check=True)
    words = [str(program), "20000", "100", "2"]
    chatty = replace(program_from_command(words), ignore_output=True)
    return api.space(chatty, ["glibc", "mimalloc"], folder=folder / "r")


def test_the_metrics_are_those_of_the_design(looked: Results) -> None:
    rows = looked.measurements
    assert set(rows["metric"]) >= {f"{name}_bytes" for name in (*PARTS, "resident", "unexplained")}
    for manager in ("glibc", "mimalloc"):
        mine = rows.filter(pl.col("manager") == manager)
        values = dict(zip(mine["metric"], mine["value"], strict=True))
        parts = sum(values[f"{name}_bytes"] for name in (*PARTS, "unexplained"))
        assert parts == values["resident_bytes"]
        assert values["heap_expansion_ratio"] >= 1
    summary = api.summary(looked)
    assert set(summary["metric"]) == set(rows["metric"])


def test_the_page_shows_parts_time_and_pages(looked: Results) -> None:
    report = build_report(looked)
    (section,) = report.sections
    identifiers = [figure.identifier for figure in section.figures]
    assert identifiers[0] == "figure-space"
    assert {"figure-space-time-1", "figure-space-map-1", "figure-space-full-2"} <= set(identifiers)
    page = render_page(report)
    assert len(page) < 2 << 20
    assert "Heap expansion beside published figures" in page


def test_damaged_results_are_refused_in_words(looked: Results, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", looked.folder, folder], check=True)
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    for line in lines:
        line["details"].pop("peak", None)
    (folder / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UsageError, match="damaged"):
        build_report(api.load(folder))


def test_the_command_prints_a_table_and_json(tare: Callable[..., Completed]) -> None:
    done = tare("space", "-m", "glibc", "--no-page", "--json", "out.json", "-o", "r", "--", "true")
    assert done.returncode == 0, done.stderr
    assert "Resident memory at the peak" in done.stdout


def test_a_program_that_fails_gives_no_figure(tare: Callable[..., Completed]) -> None:
    done = tare("space", "-m", "glibc", "-o", "r", "--", "false")
    assert done.returncode == 1
    assert "exit status 1" in done.stdout
