"""A client of a Dask scheduler, and what is told when that or its workers are not there."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tare.base.errors import MissingError, TareError, UsageError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10.0
LOOK_SECONDS = 1.0
"""How long something may go unnoticed on the cluster."""

_GOES_ON = "to resume: the same command with -o and the results folder"


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the scheduler at ``address``. UsageError or MissingError where there is none,
    TareError when it goes while the client is used."""
    try:
        from distributed import Client
        from distributed.comm import CommClosedError, get_address_host_port
    except ImportError:
        raise MissingError(
            "--scheduler needs the Python package distributed", "pip install 'tare[cluster]'"
        ) from None
    with _dask_silenced():  # what is wrong is told here
        try:
            # A client of Dask that finds nobody leaves threads behind, so look first.
            socket.create_connection(get_address_host_port(address), CONNECT_SECONDS).close()
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except ValueError as error:
            raise UsageError(f"{address} is not the address of a scheduler: {error}") from None
        except OSError:
            raise MissingError(
                f"no scheduler answers at {address}",
                "start one with `dask scheduler`, which shows its address, like tcp://HOST:8786",
            ) from None
        try:
            yield client
        except TareError:
            raise
        except Exception as error:
            if client.status == "running" and not isinstance(error, CommClosedError):
                raise
            raise scheduler_gone(address) from None
        finally:
            with contextlib.suppress(OSError):
                client.close(timeout=CONNECT_SECONDS)


@contextlib.contextmanager
def _dask_silenced() -> Iterator[None]:
    """After Dask was imported, which sets the levels of its loggers."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    loggers = [logging.getLogger(name) for name in (*names, "tornado.application", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def workers_of(client: Client, address: str) -> set[str]:
    """The addresses of the workers. TareError when the scheduler has gone."""
    if client.status != "running":
        raise scheduler_gone(address)
    try:
        return set(client.nthreads())
    except OSError:
        raise scheduler_gone(address) from None


def scheduler_gone(address: str) -> TareError:
    return TareError(
        f"the scheduler at {address} is gone",
        f"finished work is kept; start the scheduler again; {_GOES_ON}",
    )


def nobody_there(address: str, begun: bool) -> TareError:
    """What is told when there is no worker; ``begun`` when there were some."""
    if begun:
        return TareError("all workers are gone", f"start workers; {_GOES_ON}")
    return MissingError(
        f"the scheduler at {address} has no workers", f"start one with: dask worker {address}"
    )
