"""Which call of a thread follows another: of births and frees of a trace, as arrays."""

from __future__ import annotations

from typing import TypeAlias

from tare.base.libraries import NDArray, np

Threads: TypeAlias = "NDArray[np.uint32]"
Times: TypeAlias = "NDArray[np.uint64]"


def in_order(threads: Threads, times: Times) -> tuple[Threads, Times]:
    """The calls by thread, and those of a thread by time."""
    order = np.argsort(threads, kind="stable")
    threads, times = threads[order], times[order]
    for part in np.split(times, _starts(threads)[1:]):
        part.sort()
    return threads, times


def following(
    threads: Threads, times: Times, of_threads: Threads, of_times: Times
) -> NDArray[np.intp]:
    """For each of some calls the place of the first one in ``of_…`` that is later and of the same
    thread; the number of these where there is none. They are as from ``in_order``."""
    found = np.full(len(times), len(of_times))
    starts = _starts(of_threads)
    numbers = of_threads[starts]
    order = np.argsort(threads, kind="stable")
    begins, stops = (np.searchsorted(threads[order], numbers, side) for side in ("left", "right"))
    ends = np.append(starts, len(of_threads))[1:]
    for start, end, begin, stop in zip(starts, ends, begins, stops, strict=True):
        mine = order[begin:stop]
        place = start + np.searchsorted(of_times[start:end], times[mine], side="right")
        found[mine] = np.where(place < end, place, len(of_times))
    return found


def _starts(threads: Threads) -> NDArray[np.intp]:
    """Where each thread begins, in ascending ones."""
    return np.flatnonzero(np.diff(threads, prepend=threads[:1] + 1))
