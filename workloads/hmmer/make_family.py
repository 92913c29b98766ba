"""Writes a family of proteins as an alignment, and a set of sequences to search it in.

usage: make_family.py ALIGNMENT SEQUENCES COUNT
"""

import random
import sys

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
LENGTH = 180


def mutate(rng: random.Random, sequence: str, rate: float) -> str:
    return "".join(rng.choice(LETTERS) if rng.random() < rate else letter for letter in sequence)


def main() -> None:
    alignment, sequences, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rng = random.Random(1)
    ancestor = "".join(rng.choices(LETTERS, k=LENGTH))
    with open(alignment, "w", encoding="ascii") as file:
        file.write("# STOCKHOLM 1.0\n")
        for number in range(30):
            file.write(f"member{number:<10} {mutate(rng, ancestor, 0.3)}\n")
        file.write("//\n")
    with open(sequences, "w", encoding="ascii") as file:
        for number in range(count):
            text = "".join(rng.choices(LETTERS, k=rng.randrange(80, 300)))
            if number % 10 == 0:
                start = rng.randrange(60)
                text = text[:40] + mutate(rng, ancestor[start : start + 110], 0.45) + text[40:]
            file.write(f">sequence{number}\n{text}\n")


if __name__ == "__main__":
    main()
