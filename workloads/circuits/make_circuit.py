"""Writes a combinational circuit in BLIF: sums, comparisons and random logic over its inputs.

usage: make_circuit.py FILE INPUTS NODES
"""

import random
import sys


def main() -> None:
    path, inputs, nodes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(1)
    names = [f"in{i}" for i in range(inputs)]
    tables: list[str] = []
    used: set[str] = set()
    for number in range(nodes):
        # Recent signals are chosen more often, so that the circuit becomes deep.
        pool = names[-60:] if rng.random() < 0.7 else names
        fanins = rng.sample(pool, rng.randrange(2, 6))
        used.update(fanins)
        cubes = {"".join(rng.choice("01--") for _ in fanins) for _ in range(rng.randrange(2, 6))}
        cubes.discard("-" * len(fanins))
        cubes = cubes or {"1" * len(fanins)}
        name = f"n{number}"
        rows = "\n".join(f"{cube} 1" for cube in sorted(cubes))
        tables.append(f".names {' '.join(fanins)} {name}\n{rows}\n")
        names.append(name)
    outputs = [name for name in names[inputs:] if name not in used]
    with open(path, "w", encoding="ascii") as file:
        file.write(f".model circuit\n.inputs {' '.join(names[:inputs])}\n")
        file.write(f".outputs {' '.join(outputs)}\n")
        file.writelines(tables)
        file.write(".end\n")


if __name__ == "__main__":
    main()
