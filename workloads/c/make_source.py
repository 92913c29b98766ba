"""Writes a C file without includes: many functions over structures, lists, tables and switches.

usage: make_source.py FILE FUNCTIONS
"""

import random
import sys

TYPES = """\
typedef unsigned long word;
struct cell { struct cell *next; word key; word value; short kind; char name[16]; };
struct table { struct cell *buckets[64]; word count; };
extern void *fetch(word);
extern word emit(const char *, word);
"""


def expression(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["a", "b", "c", "p->key", "p->value", str(rng.randrange(1, 999)) + "ul"])
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    operator = rng.choice(["+", "-", "*", "^", "&", "|", "<<", ">>"])
    if operator in ("<<", ">>"):
        right = str(rng.randrange(1, 31))
    return f"({left} {operator} {right})"


def statement(rng: random.Random, number: int, depth: int) -> str:
    kind = rng.randrange(6)
    if kind == 0 and depth > 0:
        inner = statement(rng, number, depth - 1)
        other = statement(rng, number, depth - 1)
        return f"if ({expression(rng, 2)} > b) {{ {inner} }} else {{ {other} }}"
    if kind == 1 and depth > 0:
        inner = statement(rng, number, depth - 1)
        return f"for (p = t->buckets[a & 63]; p; p = p->next) {{ {inner} }}"
    if kind == 2 and depth > 0:
        cases = " ".join(
            f"case {value}: {statement(rng, number, 0)} break;"
            for value in rng.sample(range(64), rng.randrange(3, 9))
        )
        return f"switch (c & 63) {{ {cases} default: c++; }}"
    if kind == 3 and number > 0:
        return f"c += function_{rng.randrange(number)}(t, {expression(rng, 1)}, b);"
    if kind == 4:
        return f'b = emit("text {rng.randrange(10_000)}", {expression(rng, 2)});'
    return f"{rng.choice('abc')} = {expression(rng, 3)};"


def function(rng: random.Random, number: int) -> str:
    body = "\n  ".join(statement(rng, number, 3) for _ in range(rng.randrange(6, 18)))
    return (
        f"word function_{number}(struct table *t, word a, word b)\n{{\n"
        f"  word c = {number};\n  struct cell *p = t->buckets[b & 63];\n"
        f"  if (!p) p = fetch(a);\n  {body}\n  return a + b + c;\n}}\n"
    )


def main() -> None:
    path, functions = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write(TYPES)
        for number in range(functions):
            file.write(function(rng, number))


if __name__ == "__main__":
    main()
