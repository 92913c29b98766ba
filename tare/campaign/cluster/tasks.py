"""Work that may be done on any worker, and by several at once: it measures no time."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, TypeVar

from tare.base.errors import TareError
from tare.campaign.cluster import PATIENCE_SECONDS
from tare.campaign.cluster.connection import LOOK_SECONDS, connected, nobody_there, workers_of

if TYPE_CHECKING:
    from distributed import Client, Future

Made = TypeVar("Made")


def each_done(
    tasks: Mapping[int, Callable[[], Made]],
    address: str,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[tuple[int, Made | BaseException]]:
    """What each task gave, or raised, with its number, in the order in which they end.

    A task whose worker goes, or goes with the result, is done again by another, until Dask takes it
    for the cause: after four, unless the cluster has other ``allowed-failures``. UsageError,
    MissingError or TareError where the scheduler at ``address`` is not there, goes, or has had no
    workers for ``patience_seconds``.
    """
    with connected(address) as client:
        ended: queue.SimpleQueue[Future] = queue.SimpleQueue()

        def submit(number: int) -> Future:
            future = client.submit(tasks[number], pure=False)
            future.add_done_callback(ended.put)
            return future

        waiting = {number: submit(number) for number in tasks}
        presence = _presence(client, address, patience_seconds)
        while waiting:
            next(presence)
            try:
                future = ended.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
            number = next(each for each, its in waiting.items() if its.key == future.key)
            if future.status == "error":
                answer = _told(future.exception())
            else:
                try:
                    answer = future.result(timeout=LOOK_SECONDS)
                except TimeoutError:
                    # Slow, or gone with its worker, and made again.
                    ended.put(future)
                    continue
                except CancelledError:
                    # The scheduler goes, which the next look tells, or forgot all that it knew.
                    time.sleep(LOOK_SECONDS)
                    workers_of(client, address)
                    waiting[number] = submit(number)
                    continue
            del waiting[number]
            yield number, answer


def _told(error: BaseException) -> BaseException:
    from distributed import KilledWorker

    if not isinstance(error, KilledWorker):
        return error
    return TareError(f"{error.allowed_failures + 1} workers in a row were lost while they did it")


def _presence(client: Client, address: str, patience_seconds: float) -> Iterator[None]:
    """Each step looks, if the last look was a while ago, whether somebody is there to work."""
    begun = False
    seen, looked = time.monotonic(), float("-inf")
    while True:
        if time.monotonic() - looked >= LOOK_SECONDS:
            looked = time.monotonic()
            if workers_of(client, address):
                begun, seen = True, looked
            elif looked - seen >= patience_seconds:
                raise nobody_there(address, begun)
        yield
