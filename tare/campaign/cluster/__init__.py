"""Measured runs on the machines of a Dask cluster.

connection.py  a client of the scheduler, and what is told when nobody is there
tasks.py       work that measures no time, on whatever worker is free
machines.py    which machines are alike, and which cannot take part
worker.py      what is done on a worker
campaign.py    hands out runs, one at a time to a worker, and collects what comes back
"""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Cluster:
    """Where runs are done instead of on this machine.

    Workers take the programs from their own copy of ``suite``, a name or a path; without one they
    are given them. ``patience_seconds`` is how long a study waits for workers, and a program for
    another machine like the one that it was measured on.
    """

    scheduler: str
    suite: str = ""
    patience_seconds: float = PATIENCE_SECONDS
