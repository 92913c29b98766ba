"""The tables that the instrument leaves of a process, read whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.base.errors import TareError
from tare.base.libraries import NDArray, np
from tare.heap_traces.recording import TableReader
from tare.observers.instrument import Operation
from tare.studies.breakdown.perf_map import Pieces

_MOST_ROWS = 1 << 26


def read_columns(path: Path, name: str, columns: tuple[str, ...]) -> dict[str, NDArray[np.uint64]]:
    """TareError where the file is damaged, or too large."""
    reader = TableReader(path, name, columns)
    batches = []
    for batch in reader:
        batches.append(batch)
        if reader.rows > _MOST_ROWS:
            raise TareError(f"{path} is too large to be the instrument's")
    if reader.damage:
        raise TareError(f"{path} is damaged: {reader.damage}")
    return {
        column: np.concatenate([batch[column] for batch in batches])
        if batches
        else np.zeros(0, np.uint64)
        for column in columns
    }


@dataclass(frozen=True)
class ProcessTables:
    """The tables of one process, as columns; ``made`` is what it told of code of no file."""

    code: Mapping[str, NDArray[np.uint64]]
    executions: Mapping[str, NDArray[np.uint64]]
    objects: Sequence[Mapping[str, Any]]
    contexts: Sequence[Mapping[str, Any]]
    operations: Mapping[str, Operation]
    made: Pieces
