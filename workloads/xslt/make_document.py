"""Writes an XML document: a catalogue of parts with nested groups and references.

usage: make_document.py FILE PARTS
"""

import random
import sys


def main() -> None:
    path, parts = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write('<?xml version="1.0"?>\n<catalogue>\n')
        for start in range(0, parts, 20):
            file.write(f'<group name="group {start // 20}">\n')
            for number in range(start, min(start + 20, parts)):
                uses = "".join(
                    f'<use part="p{rng.randrange(parts)}" count="{rng.randrange(1, 9)}"/>'
                    for _ in range(rng.randrange(4))
                )
                file.write(
                    f'<part id="p{number}" price="{rng.randrange(1, 10_000) / 100:.2f}">'
                    f"<name>part {rng.getrandbits(24):06x}</name>{uses}</part>\n"
                )
            file.write("</group>\n")
        file.write("</catalogue>\n")


if __name__ == "__main__":
    main()
