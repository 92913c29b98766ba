"""Chains of records in a table, in CPython: the same work as the other programs of this folder.

records.py [ITERATIONS] [SLOTS] [RECORDS]
"""

import os
import sys
import time

MOST_DEPTH = 8
MASK = 0xFFFFFFFF


class Record:
    __slots__ = ("depth", "key", "next", "previous", "values")

    def __init__(self, key, depth, following):
        self.key = key
        self.values = [key, key ^ 1, key ^ 2, key ^ 3]
        self.depth = depth
        self.next = following
        self.previous = None
        if following is not None:
            following.previous = self


def iterate(slots, records):
    """Makes records, each in front of the chain of a slot, and drops chains that are long."""
    table = [None] * slots
    state, digest = 1, 0
    for _ in range(records):
        state = (state * 1664525 + 1013904223) & MASK
        slot = (state >> 8) % slots
        old = table[slot]
        if old is not None and old.depth < MOST_DEPTH:
            record = Record(state, old.depth + 1, old)
        else:
            record = Record(state, 0, None)
        table[slot] = record
        following = record.next
        while following is not None:
            digest = (digest * 31 + following.values[following.depth & 3]) & MASK
            following = following.next
    return digest


def main():
    given = [int(word) for word in sys.argv[1:]]
    iterations, slots, records = given + [10, 5_000, 50_000][len(given) :]
    path = os.environ.get("TARE_ITERATIONS")
    with open(path or os.devnull, "w") as times:
        times.write("iteration,start_ns,end_ns,cpu_ns\n")
        for number in range(iterations):
            start, cpu = time.monotonic_ns(), time.process_time_ns()
            digest = iterate(slots, records)
            end, used = time.monotonic_ns(), time.process_time_ns() - cpu
            times.write(f"{number},{start},{end},{used}\n")
    print(f"{digest:08x}")


main()
