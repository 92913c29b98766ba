"""Writes the entries of a directory as LDIF.

make_directory.py FILE ENTRIES
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

NAMES = "ada ben cleo dora emil fay gus hana ivan june kurt lena max nora otto pia".split()
PLACES = "Berlin Bern Graz Linz Bonn Jena Kiel Ulm".split()


def entries(count: int) -> list[str]:
    source = random.Random(9)
    parts = ["dn: dc=example\nobjectClass: domain\ndc: example\n"]
    parts.append("dn: ou=people,dc=example\nobjectClass: organizationalUnit\nou: people\n")
    for number in range(count):
        first, last = source.choice(NAMES), source.choice(NAMES)
        lines = [
            f"dn: uid=u{number},ou=people,dc=example",
            "objectClass: person",
            f"uid: u{number}",
            f"cn: {first} {last}",
            f"sn: {last}",
            f"mail: {first}.{last}{number}@example.org",
            f"l: {source.choice(PLACES)}",
            *(
                f"telephoneNumber: +49 {source.randrange(10**9)}"
                for _ in range(source.randrange(3))
            ),
            f"description: {' '.join(source.choices(NAMES, k=source.randrange(4, 30)))}",
        ]
        parts.append("\n".join(lines) + "\n")
    return parts


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("\n".join(entries(int(sys.argv[2]))), encoding="ascii")
