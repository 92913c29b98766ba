"""Writes a PLA: the truth table of random cubes, for two-level minimisation.

usage: make_pla.py FILE INPUTS OUTPUTS CUBES
"""

import random
import sys


def main() -> None:
    path = sys.argv[1]
    inputs, outputs, cubes = (int(argument) for argument in sys.argv[2:5])
    rng = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write(f".i {inputs}\n.o {outputs}\n.p {cubes}\n")
        for _ in range(cubes):
            cube = "".join(rng.choice("01-") for _ in range(inputs))
            wanted = "".join(rng.choice("0001") for _ in range(outputs))
            file.write(f"{cube} {wanted}\n")
        file.write(".e\n")


if __name__ == "__main__":
    main()
