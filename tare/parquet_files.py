"""Whether a Parquet file from anywhere can be decoded: the libraries that do it can end the process
that asks them to decode a damaged one."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from tare.program import hash_file

_DECODE = """
import sys
import polars, pyarrow.parquet
for _ in pyarrow.parquet.ParquetFile(sys.argv[1]).iter_batches(): pass
polars.scan_parquet(sys.argv[1], glob=False).select(polars.all().hash().max()).collect()
"""


def is_sound(path: Path, digest: str = "") -> bool:
    """Whether ``path`` has the SHA-256 that it had when it was written; where none is known,
    whether another process can decode all of it. OSError where it cannot be looked at."""
    status = path.stat()
    content = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return _is_sound(path, digest, content)


@lru_cache(maxsize=1024)
def _is_sound(path: Path, digest: str, _content: tuple[int, ...]) -> bool:
    if digest:
        return hash_file(path) == digest
    command = [sys.executable, "-P", "-c", _DECODE, str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
