#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Write a copy of a file with a unified diff applied, whose lines must be just where it says.

    apply_patch.py PATCH FILE OUTPUT

Text before the first hunk is for readers. Not patch(1): systems that have a compiler may lack it.
"""

import re
import sys
from pathlib import Path

HUNK = re.compile(r"^@@ -(\d+),\d+ \+\d+,\d+ @@.*\n", re.MULTILINE)


def applied(patch: str, text: str) -> str:
    """``text`` as ``patch`` has it; SystemExit where it is another text than the patch is for."""
    lines = text.splitlines(keepends=True)
    _, *parts = HUNK.split(patch)
    for first, hunk in reversed(list(zip(parts[::2], parts[1::2], strict=True))):
        changes = hunk.splitlines(keepends=True)
        before = [line[1:] for line in changes if line[0] in " -"]
        after = [line[1:] for line in changes if line[0] in " +"]
        start = int(first) - 1
        if lines[start : start + len(before)] != before:
            sys.exit(f"line {first} and what follows are not as the patch has them")
        lines[start : start + len(before)] = after
    return "".join(lines)


def main() -> None:
    patch, file, output = map(Path, sys.argv[1:])
    output.write_text(applied(patch.read_text(), file.read_text()))


if __name__ == "__main__":
    main()
