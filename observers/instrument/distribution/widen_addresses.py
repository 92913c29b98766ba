#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Give programs under the instrument 64 TB of addresses, where Valgrind's core gives them 128 GB.

Allocators reserve more than that without using it: snmalloc 256 GB for its map of pages. The bound
is not a parameter of the core but a constant of VG_(am_startup), so it is changed in a copy of the
packaged object, which is linked before the library. The constants must be there as often as
expected, or nothing is written: another build of the core is another thing to look at.

    widen_addresses.py AR LIBRARY MEMBER OUTPUT
"""

import subprocess
import sys
from pathlib import Path

LAST, NEW_LAST = (128 << 30) - 1, (64 << 40) - 1
END_OF_STACK = LAST - (16 << 20) + 4096
"""Left where it is: programs that hash the addresses of local variables count as under Valgrind."""


def widened(content: bytes) -> bytes:
    """``content`` with the constants changed; SystemExit where it is not what is expected."""
    for address, times in ((LAST, 1), (END_OF_STACK, 2)):
        if content.count(address.to_bytes(8, "little")) != times:
            sys.exit(f"{address:#x} is not in the object {times} times: an unknown build")
    return content.replace(LAST.to_bytes(8, "little"), NEW_LAST.to_bytes(8, "little"))


def main() -> None:
    """Extract, change, write."""
    ar, library, member, output = sys.argv[1:]
    content = subprocess.run([ar, "p", library, member], check=True, capture_output=True).stdout
    Path(output).write_bytes(widened(content))


if __name__ == "__main__":
    main()
