"""Writes the makefile of a large application: modules, sources, generated lists and functions.

usage: make_makefile.py FILE MODULES
"""

import random
import sys

HEAD = """\
CC = cc
CFLAGS = -O2 -Wall
include_flags = $(addprefix -I,$(sort $(dir $(1))))
upper = $(subst a,A,$(subst e,E,$(subst i,I,$(subst o,O,$(1)))))
.SUFFIXES:
.PHONY: all
all: application
"""


def module(rng: random.Random, number: int) -> str:
    name = f"module{number}"
    sources = [f"{name}/file{i}.c" for i in range(rng.randrange(8, 24))]
    headers = [f"{name}/file{i}.h" for i in range(len(sources))]
    needs = sorted({rng.randrange(number) for _ in range(4)}) if number else []
    lines = [
        f"{name}_sources := {' '.join(sources)}",
        f"{name}_objects := $(patsubst %.c,build/%.o,$({name}_sources))",
        f"{name}_flags = $(CFLAGS) $(call include_flags,{' '.join(headers)}) "
        f"-D$(call upper,{name})",
        f"libraries += build/lib{name}.a",
        f"build/lib{name}.a: $({name}_objects) {' '.join(f'build/libmodule{i}.a' for i in needs)}",
        "\tar rc $@ $^",
    ]
    for source, header in zip(sources, headers, strict=True):
        lines += [
            f"build/{source[:-2]}.o: {source} {header} {rng.choice(headers)}",
            f"\t$(CC) $({name}_flags) -c $(filter %.c,$^) -o $@",
        ]
    # The sources are targets without a recipe, so that a dry run needs no files.
    lines.append(f"{' '.join(sources + headers)}:")
    return "\n".join(lines) + "\n"


def main() -> None:
    path, modules = sys.argv[1], int(sys.argv[2])
    rng = random.Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write(HEAD)
        for number in range(modules):
            file.write(module(rng, number))
        file.write("application: $(libraries)\n\t$(CC) -o $@ $(sort $(libraries))\n")


if __name__ == "__main__":
    main()
