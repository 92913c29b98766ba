#!/usr/bin/env python3
"""Give programs under the instrument 64 TB of addresses, where Valgrind's core gives them 128 GB.

Allocators reserve more than that without using it: snmalloc 256 GB for its map of pages. The bound
is not a parameter of the core but a constant of VG_(am_startup), so it is changed in a copy of the
packaged object, which is linked before the library. Every constant must be there as often as
expected, or nothing is written: another build of the core is another thing to look at.

    widen_addresses.py AR LIBRARY MEMBER OUTPUT
"""

import subprocess
import sys
from pathlib import Path

OLD_LAST, NEW_LAST = (128 << 30) - 1, (64 << 40) - 1
BELOW_STACK = (16 << 20) - 4096
"""The core puts the end of the program's stack so far below the last address."""
EXPECTED = {OLD_LAST: (NEW_LAST, 1), OLD_LAST - BELOW_STACK: (NEW_LAST - BELOW_STACK, 2)}


def widened(content: bytes) -> bytes:
    """``content`` with the constants changed; SystemExit where it is not what is expected."""
    for old, (new, times) in EXPECTED.items():
        before, after = (value.to_bytes(8, "little") for value in (old, new))
        if content.count(before) != times:
            sys.exit(f"the address {old:#x} is not in the object {times} times: an unknown build")
        content = content.replace(before, after)
    return content


def main() -> None:
    """Extract, change, write."""
    ar, library, member, output = sys.argv[1:]
    content = subprocess.run([ar, "p", library, member], check=True, capture_output=True).stdout
    Path(output).write_bytes(widened(content))


if __name__ == "__main__":
    main()
