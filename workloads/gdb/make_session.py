"""Writes a program with a deep call tree, and the commands of a session that debugs it.

usage: make_session.py SOURCE COMMANDS FUNCTIONS
"""

import random
import sys


def main() -> None:
    source, commands, functions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rng = random.Random(1)
    with open(source, "w", encoding="ascii") as file:
        file.write("struct node { struct node *next; long value; char name[16]; };\n")
        file.write("static struct node nodes[64];\n")
        for number in range(functions):
            callees = sorted({rng.randrange(number) for _ in range(2)}) if number else []
            file.write(
                f"struct state_{number} {{ long a[{rng.randrange(2, 9)}]; struct node *first; }};\n"
                f"long function_{number}(long x, struct node *list)\n{{\n"
                f"  struct state_{number} state = {{{{x, x + 1}}, list}};\n"
                "  long sum = state.a[0] + list->value;\n"
            )
            for callee in callees:
                file.write(
                    f"  if (x > 0) sum += function_{callee}(x - 1, &nodes[{number % 64}]);\n"
                )
            file.write("  return sum;\n}\n")
        file.write(f"int main(void)\n{{\n  return function_{functions - 1}(9, nodes) == 42;\n}}\n")
    with open(commands, "w", encoding="ascii") as file:
        for number in range(0, functions, 5):
            file.write(f"break function_{number}\n")
        file.write("run\n")
        for _ in range(40):
            file.write("backtrace 8\nup 3\ninfo locals\nprint *list\ncontinue\n")
        for number in range(0, functions, 3):
            file.write(f"ptype struct state_{number}\ninfo scope function_{number}\n")
            file.write(f"info line function_{number}\n")
        file.write("info breakpoints\nkill\nquit\n")


if __name__ == "__main__":
    main()
