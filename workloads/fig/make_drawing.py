"""Writes an xfig drawing: circles and splines, duplicated, moved and resized many times.

usage: make_drawing.py FILE OBJECTS
"""

import random
import sys


def circle(rng: random.Random, x: int, y: int, radius: int) -> str:
    return (
        f"1 3 0 {rng.randrange(1, 4)} {rng.randrange(32)} {rng.randrange(32)} "
        f"{rng.randrange(900)} -1 {rng.randrange(41)} 0.000 1 0.0000 "
        f"{x} {y} {radius} {radius} {x} {y} {x + radius} {y}\n"
    )


def spline(rng: random.Random, x: int, y: int, size: int) -> str:
    count = rng.randrange(5, 30)
    points = [(x + rng.randrange(size), y + rng.randrange(size)) for _ in range(count)]
    shapes = [0.0, *([1.0] * (count - 2)), 0.0]
    return (
        f"3 4 0 1 {rng.randrange(32)} 7 {rng.randrange(900)} -1 -1 0.000 0 0 0 {count}\n\t"
        + " ".join(f"{px} {py}" for px, py in points)
        + "\n\t"
        + " ".join(f"{shape:.3f}" for shape in shapes)
        + "\n"
    )


def text(rng: random.Random, x: int, y: int) -> str:
    return f"4 0 0 50 -1 {rng.randrange(35)} 12 0.0000 4 135 700 {x} {y} label {x} {y}\\001\n"


def main() -> None:
    path, objects = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write("#FIG 3.2\nLandscape\nCenter\nMetric\nA4\n100.00\nSingle\n-2\n1200 2\n")
        for _ in range(objects):
            x, y, size = rng.randrange(12_000), rng.randrange(9_000), rng.randrange(40, 900)
            file.write(circle(rng, x, y, size))
            file.write(spline(rng, x, y, size))
            # A copy, moved and made smaller.
            file.write(circle(rng, x + 450, y + 450, size // 2 + 1))
            if rng.randrange(4) == 0:
                file.write(text(rng, x, y))


if __name__ == "__main__":
    main()
