"""Writes a Fortran 77 program of many subroutines with loops, branches, commons and formats.

usage: make_source.py FILE SUBROUTINES
"""

import random
import sys


def expression(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["x", "y", "z", "a(i)", "b(i,j)", "real(n)", f"{rng.randrange(99)}.5"])
    operator = rng.choice(["+", "-", "*", "/"])
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    return rng.choice([f"({left}{operator}{right})", f"max({left},{right})", f"sin({left})"])


def line(text: str) -> str:
    """One statement in fixed form: columns 7 to 72, continued where it is longer."""
    parts = [text[start : start + 66] for start in range(0, len(text), 66)]
    return "      " + "\n     &".join(parts) + "\n"


def subroutine(rng: random.Random, number: int) -> str:
    out = [
        line(f"subroutine sub{number}(a, b, n, x)"),
        line("integer n, i, j, k"),
        line("real a(n), b(n,n), x, y, z"),
        line(f"common /block{number % 17}/ y, z, k"),
        line("data i, j /1, 1/"),
    ]
    label = 10
    for _ in range(rng.randrange(4, 12)):
        kind = rng.randrange(4)
        if kind == 0:
            out.append(line(f"do {label} i = 1, n"))
            out.append(line(f"do {label} j = 1, i"))
            out.append(line(f"b(i,j) = {expression(rng, 2)}"))
            out.append(f"{label:5d} continue\n")
        elif kind == 1:
            out.append(line(f"if ({expression(rng, 2)} .gt. y) then"))
            out.append(line(f"z = {expression(rng, 3)}"))
            out.append(line("else"))
            out.append(line(f"y = {expression(rng, 2)}"))
            out.append(line("end if"))
        elif kind == 2 and number > 0:
            out.append(line(f"call sub{rng.randrange(number)}(a, b, n, {expression(rng, 1)})"))
        else:
            out.append(line(f"write (6, {label}) x, y, z"))
            out.append(f"{label:5d} format (1x, 'values ', 3f{rng.randrange(8, 14)}.4)\n")
        label += 10
    out += [line("return"), line("end")]
    return "".join(out)


def main() -> None:
    path, subroutines = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        for number in range(subroutines):
            file.write(subroutine(rng, number))


if __name__ == "__main__":
    main()
