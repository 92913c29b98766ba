#!/usr/bin/env python3
"""Put the files of a wheel, and the lines of its RECORD, in the order of their names.

    scripts/sort_wheel.py WHEEL…

The build backend writes the files of the folder .dist-info in the order in which the file system
lists them, which is not the same on every machine.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path


def main() -> int:
    for wheel in sys.argv[1:]:
        sort_wheel(Path(wheel))
    return 0


def sort_wheel(wheel: Path) -> None:
    partial = wheel.with_suffix(".partial")
    with zipfile.ZipFile(wheel) as unsorted, zipfile.ZipFile(partial, "w") as ordered:
        for entry in sorted(unsorted.infolist(), key=lambda entry: _place(entry.filename)):
            content = unsorted.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                content = _sorted_record(content)
            ordered.writestr(entry, content)
    os.replace(partial, wheel)


def _place(name: str) -> tuple[bool, bool, str]:
    """The folder .dist-info comes last, as the format of wheels wants it, and RECORD at its end."""
    return ".dist-info/" in name, name.endswith("/RECORD"), name


def _sorted_record(content: bytes) -> bytes:
    lines = content.decode().splitlines(keepends=True)
    return "".join(sorted(lines, key=lambda line: _place(line.partition(",")[0]))).encode()


if __name__ == "__main__":
    sys.exit(main())
