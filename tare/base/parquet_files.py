"""Which of some Parquet files from anywhere is damaged: the libraries that decode one, or only read
what it says of itself, can end the process that asks them to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from tare.base.files import hash_file

_Content = tuple[Path, str, int, int, int, int]
_DECODE = """
import sys
import polars, pyarrow.parquet
for path in sys.argv[1:]:
    for _ in pyarrow.parquet.ParquetFile(path).iter_batches(): pass
    polars.scan_parquet(path, glob=False).select(polars.all().hash().max()).collect()
    print("sound", flush=True)
"""


def first_damaged(digests: Mapping[Path, str]) -> Path | None:
    """The first file that does not have the SHA-256 of when it was written. Those of which none is
    known, an empty text, another process decodes as a trial. OSError where one cannot be read."""

    def content(path: Path) -> _Content:
        status = path.stat()
        found = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return path, digests[path], *found

    return _first_damaged(tuple(map(content, digests)))


@lru_cache(maxsize=256)
def _first_damaged(files: tuple[_Content, ...]) -> Path | None:
    for path, digest, *_ in files:
        if digest and hash_file(path) != digest:
            return path
    unknown = [path for path, digest, *_ in files if not digest]
    if not unknown:
        return None
    command = [sys.executable, "-P", "-c", _DECODE, *map(str, unknown)]
    told = subprocess.run(command, capture_output=True, check=False).stdout.count(b"sound")
    return unknown[told] if told < len(unknown) else None
