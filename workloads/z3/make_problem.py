"""Writes an SMT problem: a schedule of jobs on machines that must end by a limit.

usage: make_problem.py FILE JOBS SLACK

SLACK is the limit minus the work of the busiest machine; below zero there is no schedule.
"""

import itertools
import random
import sys

MACHINES = 4


def main() -> None:
    path, jobs, slack = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(1)
    out = ["(set-option :smt.random_seed 1)", "(set-option :sat.random_seed 1)"]
    durations = [[rng.randrange(2, 12) for _ in range(MACHINES)] for _ in range(jobs)]
    for job in range(jobs):
        for step in range(MACHINES):
            out.append(f"(declare-const t{job}_{step} Int)(assert (>= t{job}_{step} 0))")
        order = rng.sample(range(MACHINES), MACHINES)
        for one, two in itertools.pairwise(order):
            out.append(f"(assert (>= t{job}_{two} (+ t{job}_{one} {durations[job][one]})))")
    for machine in range(MACHINES):
        for one in range(jobs):
            for two in range(one + 1, jobs):
                a, b = f"t{one}_{machine}", f"t{two}_{machine}"
                out.append(
                    f"(assert (or (>= {a} (+ {b} {durations[two][machine]})) "
                    f"(>= {b} (+ {a} {durations[one][machine]}))))"
                )
    limit = max(sum(row[machine] for row in durations) for machine in range(MACHINES)) + slack
    for job in range(jobs):
        for machine in range(MACHINES):
            out.append(f"(assert (<= (+ t{job}_{machine} {durations[job][machine]}) {limit}))")
    out.append("(check-sat)")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
