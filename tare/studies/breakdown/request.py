"""`tare breakdown`: how many instructions go to storage management, and for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.studykit.request import AgainstBaseline, managers_option, option


@dataclass(frozen=True)
class Breakdown(AgainstBaseline):
    """How many of PROGRAM's instructions go to storage management, by component.

    Allocation, checks, header words, integer tags, the write barrier and the parts of collections
    of an OCaml or Haskell program; malloc, free and realloc of any other. The executable is used as
    it is. The program runs once under Valgrind's core, 10 to 30 times slower than alone; with
    --memory 20 to 100 times.
    """

    ANSWERED_BY: ClassVar[str] = "question.breakdown"
    EXAMPLES: ClassVar[str] = """\
  tare breakdown -- menhir --stdlib /usr/share/menhir grammar.mly
  tare breakdown --json out.json -- ocamllex.opt -o lexer.ml lexer.mll
  tare breakdown -m glibc -m mimalloc -- ./server --selftest
  tare breakdown --memory -- ocamllex.opt -o lexer.ml lexer.mll
  tare breakdown --model host --model decstation-5000-200 -- menhir grammar.mly
"""

    managers: Sequence[str] = managers_option(
        help="A manager that serves malloc; can be repeated. Default: glibc, or own for a program "
        "of 32 bits, which can have no other."
    )
    _: KW_ONLY
    runtime: str = option(
        "",
        metavar="NAME",
        help="The descriptor to use. Default: that of the runtime in the executable, or malloc.",
    )
    memory: bool = option(
        False,
        help="Simulate the memory system, too: that of a DECstation 5000/200, unless --model names "
        "another.",
    )
    models: Sequence[str] = option(
        (),
        "--model",
        multiple=True,
        metavar="NAME|FILE",
        help="A memory system to simulate; can be repeated. A path needs a slash; host is this "
        "machine's.",
    )


REQUESTS = (Breakdown,)
