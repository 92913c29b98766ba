"""Instructions a call of the classics, beside those published for the allocators they follow.

Published: Detlefs, Dosser and Zorn 1994, tables IV to VI, for Gawk 2.11 and Perl 4.10 on a
DECstation. Their programs and inputs were others, and so was the machine: what can be compared is
which design takes more, and about how much.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import tare
from bench.row import Row
from tare.base.errors import MissingError

PROGRAMS = {
    "Gawk": ("gawk", 'BEGIN { for (i = 0; i < 20000; i++) a[i % 500] = i "x"; print length(a) }'),
    "Perl": (
        "perl",
        "-e",
        "for (1..20000) { push @q, {word => $_, of => [1, 2]}; shift @q if @q > 500 } print $#q",
    ),
}
PUBLISHED = {
    ("Gawk", "kingsley"): ("Ultrix", 49, 18, 67),
    ("Gawk", "haertel"): ("Gnu'", 84, 81, 165),
    ("Gawk", "lea93"): ("G++", 54, 8, 62),
    ("Gawk", "quickfit"): ("Qf", 39, 32, 71),
    ("Perl", "kingsley"): ("Ultrix", 46, 18, 64),
    ("Perl", "haertel"): ("Gnu'", 82, 82, 163),
    ("Perl", "lea93"): ("G++", 44, 8, 52),
    ("Perl", "quickfit"): ("Qf", 37, 31, 68),
}
"""Instructions a malloc, a free, an object allocated; by program and the classic."""
OTHERS = {
    "Gawk": ["windowsxp", "hoard-classic", "perclass", "stacklike", "obstack", "region", "glibc"],
    "Perl": ["glibc"],
}


def per_call(program: str, managers: list[str]) -> dict[str, tuple[float, float, float]]:
    """Instructions a malloc, a free and an object, by manager."""
    import polars as pl

    with tempfile.TemporaryDirectory() as name:
        results = tare.count(
            PROGRAMS[program], managers, repeat=False, folder=Path(name) / "results"
        )
        rows = results.measurements.filter(pl.col("status") == "ok")
    found = {}
    for manager in managers:
        of = dict(rows.filter(pl.col("manager") == manager).select("metric", "value").rows())
        found[manager] = (
            of["malloc_instructions"] / of["malloc_calls"],
            of["free_instructions"] / of["free_calls"],
            of["manager_instructions"] / of["objects"],
        )
    return found


def written(malloc: float, free: float, an_object: float) -> str:
    """Three numbers in words."""
    return f"{malloc:.0f} a malloc, {free:.0f} a free, {an_object:.0f} an object"


def rows() -> list[Row]:
    """A row for each program and manager, with what was published where there is some."""
    found = []
    for program, command in PROGRAMS.items():
        if shutil.which(command[0]) is None:
            found.append(Row(f"classics, {program}", f"{command[0]} is not installed"))
            continue
        classics = [classic for of, classic in PUBLISHED if of == program]
        try:
            counted = per_call(program, [*classics, *OTHERS[program]])
        except MissingError as error:
            found.append(Row(f"classics, {program}", error.message))
            continue
        for manager, values in counted.items():
            measured = written(*values)
            if (program, manager) in PUBLISHED:
                name, *numbers = PUBLISHED[program, manager]
                measured += f" (published for {name}: {written(*numbers)})"
            found.append(Row(f"instructions of {manager}, {program}", measured))
    return found
