"""Writes a minimum-cost flow problem (DIMACS): vehicles and the trips they can serve in turn.

usage: make_network.py FILE TRIPS
"""

import random
import sys


def main() -> None:
    path, trips = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    starts = sorted(rng.randrange(1440) for _ in range(trips))
    ends = [start + rng.randrange(10, 90) for start in starts]
    source, sink = 1, 2
    arcs: list[str] = []
    for trip in range(trips):
        first, last = 3 + 2 * trip, 4 + 2 * trip
        arcs.append(f"a {source} {first} 0 1 {1000 + rng.randrange(200)}")
        arcs.append(f"a {last} {sink} 0 1 {rng.randrange(200)}")
        later = [other for other in range(trip + 1, trips) if starts[other] > ends[trip] + 5]
        for other in rng.sample(later[:200], min(12, len(later[:200]))):
            arcs.append(f"a {last} {3 + 2 * other} 0 1 {starts[other] - ends[trip]}")
    nodes = [f"n {source} {trips}", f"n {sink} {-trips}"]
    # Each trip is served once: one unit leaves its first node and one enters at its last.
    arcs.append(f"a {source} {sink} 0 {trips} 0")
    for trip in range(trips):
        nodes += [f"n {3 + 2 * trip} -1", f"n {4 + 2 * trip} 1"]
    with open(path, "w", encoding="ascii") as file:
        file.write(f"p min {2 + 2 * trips} {len(arcs)}\n")
        file.write("\n".join(nodes + arcs) + "\n")


if __name__ == "__main__":
    main()
