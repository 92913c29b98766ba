"""Keeps objects of known lines. With the word tracemalloc, says what that tells of each line."""

import os
import sys
import tracemalloc

if sys.argv[1:] == ["tracemalloc"]:
    tracemalloc.start(1)


class Point:
    __slots__ = ("x", "y")

    def __init__(self, number: int) -> None:
        self.x = str(number) * 10
        self.y = number << 200


def halves(count: int) -> list[bytes]:
    made = [bytes(number) for number in range(count)]
    return made[::2]


def main() -> None:
    kept: list[object] = []
    kept.append([Point(number) for number in range(2000)])
    kept.append(halves(3000))
    kept.append([f"a text {number}" for number in range(1000)])
    kept.append([bytearray(500) for _ in range(300)])
    kept.append("".join(str(number) for number in range(20_000)))
    grown: list[int] = []
    for number in range(5000):
        grown.append(number + (1 << 40))  # too large for a free list of numbers
    kept.append(grown)
    kept.append([[number, number] for number in range(2000)])
    kept.append([{"a": number} for number in range(1000)])
    if tracemalloc.is_tracing():
        for line in tracemalloc.take_snapshot().statistics("lineno"):
            if line.traceback[0].filename == __file__:
                print(line.traceback[0].lineno, line.size, line.count)
    sys.stdout.flush()
    os._exit(0)


main()
