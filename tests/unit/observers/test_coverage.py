"""What the lines of ``tare-coverage`` say, and the judgement of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.memory_managers.manager import OWN, resolve
from tare.observers.coverage import coverage_of, judged, refusal, with_own_allocators
from tare.observers.private_allocators import private_allocator
from tare.records.coverage import Coverage, Covered, Mapped, OwnAllocator
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome

LINE = ["2", "memory", "7", "99", "1000", "400", "30", "20", "/bin/a", "500", "", "100"]


def test_processes_are_added_by_file() -> None:
    other = ["2", "memory", "8", "98", "500", "0", "1", "2", "/lib/b.so", "50", "/bin/a", "450"]
    assert coverage_of([LINE, other]) == Coverage(
        1500, 31, 22, (Mapped("/bin/a", 950), Mapped("", 100), Mapped("/lib/b.so", 50))
    )


def test_files_beyond_the_eight_largest_are_one() -> None:
    sizes = [word for number in range(1, 12) for word in (f"/f{number}", str(number))]
    found = coverage_of([[*LINE[:8], *sizes]])
    assert found is not None
    assert len(found.files) == 9
    assert found.files[-1] == Mapped("*", 1 + 2 + 3)


@pytest.mark.parametrize(
    "line",
    [
        ["2", "start", "7", "1", "99", "/bin/a", "/lib/libc.so", *"------"],
        LINE[:7],
        LINE[:9],
        [*LINE[:4], "-1", *LINE[5:]],
        [*LINE[:-1], "much"],
        ["2", "memory"],
        [""],
    ],
)
def test_what_is_no_such_line_is_left_out(line: list[str]) -> None:
    assert coverage_of([line]) is None
    assert coverage_of([line, LINE]) == coverage_of([LINE])


def test_where_nothing_was_allocated_all_is_covered() -> None:
    assert Coverage(0, 0, 0).share == 1.0
    assert Coverage(5, 0, 0, (Mapped("/bin/a", 9),)).share == 0.0


def test_below_the_bound_there_is_no_figure() -> None:
    good = Outcome(Status.OK, values={"wall_seconds": 1.0})
    found = Coverage(1000, 0, 0, (Mapped("/bin/none", 800), Mapped("", 100)))
    covered = judged(good, found, resolve("glibc"), Limits())
    assert covered.status is Status.OK
    assert covered.values == good.values
    assert covered.details_as(Covered).coverage == found
    refused = judged(good, found, resolve("glibc"), Limits(least_coverage=0.2))
    assert (refused.status, refused.values) == (Status.NOT_COVERED, {})
    assert refused.reason == (
        "glibc served 10% of the program's 1000 B; none mapped 800 B for itself; "
        "--least-coverage 0 measures it anyway"
    )
    as_it_is = judged(good, found, resolve(OWN), Limits(least_coverage=1))
    assert as_it_is.status is Status.OK


PRIVATE = ["2", "private", "7", "1", "99", "/bin/a", "_rjem_", "12", "led"]


def test_allocators_that_programs_bring_along_are_told_once() -> None:
    good = Outcome(Status.OK, values={"wall_seconds": 1.0})
    lines = [PRIVATE, [*PRIVATE[:6], "mi_", "8", "found"], [*PRIVATE[:7], "13", "led"], LINE]
    outcome = with_own_allocators(good, lines)
    assert outcome.details_as(Covered).own_allocators == (
        OwnAllocator("/bin/a", "_rjem_", 13, True),
        OwnAllocator("/bin/a", "mi_", 8, False),
    )
    one_process_did_not = with_own_allocators(good, [PRIVATE, [*PRIVATE[:8], "found"]])
    assert not one_process_did_not.details_as(Covered).own_allocators[0].is_redirected


@pytest.mark.parametrize(
    "line", [PRIVATE[:8], [*PRIVATE[:7], "-2", "led"], ["2", "private"], ["2", "refused"], [""]]
)
def test_what_tells_of_no_allocator_is_left_out(line: list[str]) -> None:
    good = Outcome(Status.OK, values={"wall_seconds": 1.0})
    assert with_own_allocators(good, [line]) == good


def test_a_call_that_nothing_can_serve_takes_the_figure() -> None:
    failed = Outcome(Status.FAILED, "it ended with exit status 126", {"wall_seconds": 1.0})
    line = ["2", "refused", "7", "1", "99", "mi_heap_destroy"]
    outcome = with_own_allocators(failed, [PRIVATE, line])
    assert (outcome.status, outcome.values) == (Status.NOT_COVERED, {})
    assert outcome.reason.startswith("it calls mi_heap_destroy of its own allocator")


def test_what_could_be_redirected_counts_as_served() -> None:
    found = Coverage(1000, 0, 0, (Mapped("/bin/a", 700), Mapped("/lib/b.so", 250)))
    alone = judged(Outcome(Status.OK), found, resolve(OWN), Limits())
    assert "/bin/a" not in refusal(alone, Limits(least_coverage=0.04))
    assert refusal(alone, Limits()).startswith("malloc served 5.0% of the program's 1000 B; a")
    redirectable = with_own_allocators(alone, [[*PRIVATE[:8], "found"]])
    assert refusal(redirectable, Limits(least_coverage=0.7)) == ""
    assert "b.so mapped 250 B" in refusal(redirectable, Limits(least_coverage=0.8))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b"\0_rjem_mallctlbymib\0", "jemalloc"),
        (b"<jemalloc>: Invalid conf", "jemalloc"),
        (b"mi_heap_malloc", "mimalloc"),
        (b"PYTHONMALLOC: unknown", "CPython's pymalloc"),
        (b"\xff Go buildinf:", "the runtime of Go"),
        (b"nothing of all that", None),
        (b"", None),
    ],
)
def test_allocators_are_known_by_what_stands_in_their_files(
    tmp_path: Path, text: bytes, name: str | None
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\x7fELF" + text if text else b"")
    found = private_allocator(file)
    assert (found.name if found else None) == name


def test_what_is_no_file_holds_no_allocator(tmp_path: Path) -> None:
    assert private_allocator(tmp_path) is None
    assert private_allocator(tmp_path / "gone") is None
    assert private_allocator(Path("/dev/zero")) is None
