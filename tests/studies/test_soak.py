"""`tare soak`: a trace followed again and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tare.answers.building import build_report
from tare.records.results import load, read_records
from tare.studies.soak.details import Details, Soaked
from tests.conftest import Completed
from tests.support.traces import Row, objects_frame, write_trace_folder

KIB = 1 << 10
# Two objects live to the end; of the others one lives at a time.
ROWS: list[Row] = [
    {"birth": 1, "size": 64 * KIB, "first": 1, "last": 90},
    {"birth": 2, "size": 32 * KIB, "first": 2, "last": 90},
    *(
        {"birth": 10 + place, "size": 4 * KIB, "first": 10 + place, "free": 11 + place}
        for place in range(0, 60, 2)
    ),
]
# Every 16th free is forgotten.
LEAKS = """
#include <stddef.h>
extern void* __libc_malloc(size_t);
extern void __libc_free(void*);
void* malloc(size_t size) { return __libc_malloc(size); }
void free(void* object) {
  static int calls;
  if (object && ++calls % 16) __libc_free(object);
}
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace_folder(tmp_path / "service.tare", objects_frame(ROWS))


def soaked(folder: Path) -> list[Soaked]:
    found = [record.outcome.details_as(Details).soak for record in read_records(folder)]
    assert all(each is not None for each in found)
    return [each for each in found if each is not None]


def test_a_trace_is_followed_for_the_time(
    tare: Callable[..., Completed], trace: Path, tmp_path: Path, browser: Any
) -> None:
    done = tare(
        *("soak", "--for", "1s", "-n", "1", "-m", "glibc", "-m", "delay(glibc, size=64KiB)"),
        *("-o", "out", trace),
    )
    assert done.returncode == 0, done.stderr
    for each in soaked(tmp_path / "out"):
        assert each.seconds >= 1
        assert each.rounds >= len(each.looks) > 0
        # What is left of a round is alive with what the next brings in its place, never twice.
        assert each.peak_bytes == 100 * KIB
        assert each.end_bytes == 96 * KIB
        assert all(look.at_peak >= each.peak_bytes for look in each.looks)
    assert done.stdout.startswith("tare soak: prog\n")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto((tmp_path / "out/report.html").as_uri())
    assert page.locator("figure svg").count() == 2  # for wide and for narrow pages
    assert "tare-replay" not in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_a_manager_that_forgets_frees_grows(
    tare: Callable[..., Completed], compile_c: Callable[..., Path], trace: Path, tmp_path: Path
) -> None:
    leaks = compile_c(LEAKS, "-shared", "-fPIC", name="libleaks.so")
    done = tare("soak", "--for", "1s", "-n", "1", "-m", leaks, "-o", "out", "--no-page", trace)
    assert done.returncode == 0, done.stderr
    first = soaked(tmp_path / "out")
    leaking = max(first, key=lambda each: each.looks[-1].at_peak / each.rounds)
    assert leaking.looks[-1].at_peak > 10 * leaking.peak_bytes


THREADS = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void* objects[64];
static void* work(void* unused) {
  for (int i = 0; i < 64; i++) free(objects[i]), objects[i] = malloc(1000 + i), usleep(2000);
  return unused;
}
int main(void) {
  pthread_t thread;
  for (int i = 0; i < 2; i++) {
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
  }
}
"""


def test_threads_and_pace_are_those_of_the_recording(
    tare: Callable[..., Completed], compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = compile_c(THREADS, "-pthread", "-fno-builtin")
    assert tare("trace", "-o", "threads.tare", "--", program).returncode == 0
    words = ("soak", "-n", "1", "-m", "glibc", "--threads", "recorded", "threads.tare")
    done = tare(*words, "--for", "1s", "--pace", "recorded", "-o", "out", "--no-page")
    assert done.returncode == 0, done.stderr
    assert "followed by 3 threads, at the recorded pace." in done.stdout
    (one,) = soaked(tmp_path / "out")
    assert one.seconds / one.rounds >= 128 * 0.002, "the waits between calls"
    assert all(look.at_peak >= one.peak_bytes >= 64_000 for look in one.looks)

    slow = tare(*words, "--for", "1s", "--pace", "0.01", "-o", "slow")
    assert slow.returncode == 2
    assert "longer than --for" in slow.stderr

    fast = tare(*words, "--for", "1s", "-o", "fast", "--no-page")
    assert fast.returncode == 0, fast.stderr
    assert soaked(tmp_path / "fast")[0].rounds > one.rounds


# Two cases that are known of services. jemalloc keeps its small objects apart from its large ones.
GIVES_BACK = "jemalloc(decay=0)"


def connections(number: int, size: int, birth: int) -> list[Row]:
    """Each has a buffer until all are closed, and leaves 64 bytes behind that stay."""
    rows: list[Row] = []
    for place in range(number):
        at = birth + 2 * place
        closed = birth + 10 * number + place
        rows.append({"birth": at, "size": size, "first": at, "free": closed})
        rows.append({"birth": at + 1, "size": 64, "first": at + 1, "last": 1_000_000})
    return rows


def soaked_by_manager(
    tare: Callable[..., Completed], folder: Path, rows: list[Row]
) -> dict[str, Soaked]:
    trace = write_trace_folder(folder / "connections.tare", objects_frame(rows))
    words = ("-n", "1", "-m", "glibc", "-m", GIVES_BACK, "-o", folder / "out", "--no-page")
    done = tare("soak", "--for", "1s", *words, trace)
    assert done.returncode == 0, done.stderr
    found = {}
    for record in read_records(folder / "out"):
        one = record.outcome.details_as(Details).soak
        assert one is not None
        found[record.run.manager] = one
    assert found.keys() == {"glibc", GIVES_BACK}
    return found


def test_memory_does_not_come_back_after_connections_close(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    """The last survivor holds the end of glibc's heap, which gives back only what lies there."""
    ending = {"birth": 900_000, "size": 64, "first": 900_000, "last": 1_000_000}
    found = soaked_by_manager(tare, tmp_path, [*connections(200, 64 * KIB, 10), ending])
    for one in found.values():
        assert one.peak_bytes > 200 * 64 * KIB
        assert one.end_bytes < 0.01 * one.peak_bytes
    last = {manager: one.looks[-1].at_end for manager, one in found.items()}
    assert last["glibc"] > 0.9 * found["glibc"].peak_bytes
    assert last[GIVES_BACK] < 0.2 * found[GIVES_BACK].peak_bytes
    (section, *_) = build_report(load(tmp_path / "out")).sections
    assert any(each.startswith("glibc keeps ") for each in section.findings)
    assert not any(each.startswith(f"{GIVES_BACK} keeps ") for each in section.findings)


def test_small_survivors_among_large_buffers_keep_them_from_larger_ones(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    """The second buffers do not fit between what the first ones left, in the first round: later
    ones put survivors elsewhere."""
    rows = [*connections(200, 64 * KIB, 10), *connections(200, 100 * KIB, 10_000)]
    found = soaked_by_manager(tare, tmp_path, rows)
    over = {manager: one.looks[0].at_peak / one.peak_bytes for manager, one in found.items()}
    assert over["glibc"] > 1.5
    assert over[GIVES_BACK] < 1.3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-m", "immix(heap=64MiB)"), "cannot follow a trace again and again"),
        (("--for", "0s"), "give one from 1s"),
        (("--pace", "recorded"), "has no times"),
        (("--pace", "fast"), "give recorded, or how many times as fast"),
        (("-n", "0"), "0 runs"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tare: Callable[..., Completed], trace: Path, words: tuple[str, ...], message: str
) -> None:
    done = tare("soak", "-m", "glibc", *words, trace)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_manager_without_memory_has_a_status(
    tare: Callable[..., Completed], compile_c: Callable[..., Path], trace: Path, tmp_path: Path
) -> None:
    source = LEAKS.replace(
        "return __libc_malloc(size);", "return size == 65536 ? NULL : __libc_malloc(size);"
    )
    refuses = compile_c(source, "-shared", "-fPIC", name="librefuses.so")
    done = tare("soak", "--for", "1s", "-n", "1", "-m", refuses, "-o", "out", "--no-page", trace)
    assert done.returncode == 1
    statuses = {record.outcome.status for record in read_records(tmp_path / "out")}
    assert "out-of-memory" in statuses
