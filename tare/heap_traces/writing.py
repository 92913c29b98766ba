"""Writes the Parquet files of a heap trace, a row group at a time."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tare.base.libraries import NDArray, np, pa, pq
from tare.heap_traces.recording import BATCH_ROWS
from tare.heap_traces.trace import (
    STORED,
    TABLES,
    arrow_schema,
    filled_up,
    table_file,
    with_distances,
)

_LEVEL = 6
"""Of zstd. 3 makes the trace of a compiler 7% larger; 9 makes it 1% smaller, in half as much more
time."""
_PAGE_BYTES = 8 << 20
"""A column of a row group is one page: the compressor then sees all of it."""
_TRIAL_ROWS = 1 << 16
"""The last of the first row group: a program begins otherwise than it goes on."""
_DICTIONARY, _PLAIN = "DICTIONARY", "PLAIN"
"""For few different values; for what repeats in ways that the compressor finds, and any other
encoding hides from it."""
_DELTA = "DELTA_BINARY_PACKED"
"""For numbers that grow, or stay near the one before."""
_SPLIT, _SPLIT_SAVES = "BYTE_STREAM_SPLIT", 0.8
"""For numbers of one magnitude, where it takes so little beside the others: reading a column of it
takes twice as long."""


def _options(encodings: Mapping[str, str]) -> dict[str, Any]:
    """For a writer of a file whose columns have these encodings."""
    return {
        "version": "2.6",
        "data_page_version": "1.0",
        "compression": "zstd",
        "compression_level": _LEVEL,
        "use_dictionary": [name for name, kind in encodings.items() if kind == _DICTIONARY],
        "column_encoding": {name: kind for name, kind in encodings.items() if kind != _DICTIONARY},
        "data_page_size": _PAGE_BYTES,
        "dictionary_pagesize_limit": _PAGE_BYTES,
        "max_rows_per_page": 1 << 30,
        "store_schema": False,
    }


def _smallest_encoding(column: Any) -> str:
    """The encoding in which a column, a pyarrow.Table of its own, takes least room."""
    (name,) = column.column_names
    if column[name].null_count == len(column):
        return _DICTIONARY
    kinds = [_DICTIONARY, _PLAIN]
    if pa.types.is_integer(column[name].type):
        kinds += [_DELTA, _SPLIT]

    def size(kind: str) -> float:
        file = io.BytesIO()
        pq.write_table(column, file, **_options({name: kind}))
        return file.tell() / (_SPLIT_SAVES if kind == _SPLIT else 1)

    return min(kinds, key=size)


class TableWriter:
    """A table of a trace in the folder ``folder``; a context manager.

    Rows are gathered until they are enough for a row group. ``ArrowException`` and ``OSError``
    leave it as they are.
    """

    def __init__(self, folder: Path, name: str) -> None:

        self._name = name
        self._path = table_file(folder, name)
        self._distances = name == "objects"
        self.schema = arrow_schema(STORED[name])
        self._writer: Any = None
        self._waiting: list[Any] = []

    def write(self, columns: Mapping[str, Any]) -> None:
        """Add rows: columns of ``tare.heap_traces.trace.TABLES`` as pyarrow arrays, all of one
        length. A column that is not there is empty."""
        columns = filled_up(columns, TABLES[self._name])
        if self._distances:
            columns = with_distances(columns)
        arrays = [columns[name] for name in self.schema.names]
        self._waiting.append(pa.Table.from_arrays(arrays, schema=self.schema))
        if sum(len(part) for part in self._waiting) >= BATCH_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._waiting.clear()
            if self._writer is None:
                self._open(rows.slice(max(0, len(rows) - _TRIAL_ROWS)))
            self._writer.write_table(rows, row_group_size=len(rows))

    def _open(self, first: Any) -> None:
        """The file, whose columns are encoded as is best for these rows."""
        encodings = {name: _smallest_encoding(first.select([name])) for name in self.schema.names}
        self._writer = pq.ParquetWriter(
            self._path, self.schema, memory_pool=pa.system_memory_pool(), **_options(encodings)
        )

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._write_group()
                if self._writer is None:
                    self._open(self.schema.empty_table())
        finally:
            if self._writer is not None:
                self._writer.close()


def constant(value: int, rows: int) -> Any:
    """A pyarrow uint32 array of ``rows`` times ``value``."""
    return pa.array(np.full(rows, value, np.uint32))


def numbers(values: NDArray[np.uint64], *, kind: str = "u64") -> Any:
    """``values``, a column without empty places, as a pyarrow array."""
    return pa.array(values.astype(np.uint32) if kind == "u32" else values)


def known(values: NDArray[np.uint64], *, kind: str = "u64") -> Any:
    """``values`` as a pyarrow array in which 0 is empty."""
    absent = values == 0
    plain = values.astype(np.uint32) if kind == "u32" else values
    return pa.array(plain, mask=absent) if absent.any() else pa.array(plain)


def words(indices: NDArray[np.uint64], choices: tuple[str | None, ...]) -> Any:
    """The words of ``choices`` at ``indices``, as a pyarrow array of text; None is empty."""
    return pa.DictionaryArray.from_arrays(
        pa.array(indices.astype(np.int32)), pa.array(choices)
    ).cast(pa.string())
