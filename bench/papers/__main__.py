"""`python -m bench.papers`: run steps that are not done, collect what they gave, write the page.

python -m bench.papers run [--reduced] [--results DIR] [STEP…]
python -m bench.papers list [--reduced] [--results DIR]
python -m bench.papers collect [--reduced] [--results DIR]
python -m bench.papers write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.papers import measured
from bench.papers.page import PAGE, page
from bench.papers.steps import CHECKOUT, INTERRUPTED, Size, Step, code_of, run_all, steps
from tare.base.units import format_duration


def main() -> int:
    """0 done; 1 a step gave no figures; 2 wrong usage; 130 interrupted."""
    asked = _arguments()
    size = Size.REDUCED if asked.reduced else Size.FULL
    planned = steps(size)
    if unknown := set(asked.steps) - {step.name for step in planned}:
        _tell(f"no step {', '.join(sorted(unknown))}; `python -m bench.papers list` has them")
        return 2
    chosen = [step for step in planned if not asked.steps or step.name in asked.steps]
    default = "papers-results" if size is Size.FULL else "papers-results-reduced"
    results = (asked.results or CHECKOUT / default).absolute()
    if asked.what == "list":
        _list(chosen, results)
        return 0
    code = _run(chosen, results) if asked.what == "run" else 0
    if asked.what != "write":
        rows = measured.collect(chosen, results, size, _tell)
        measured.write(measured.merged(measured.read(), rows))
        _tell(f"{len(rows)} rows of {len({row.step for row in rows})} steps: {measured.FILE}")
    PAGE.write_text(page(measured.read()), encoding="utf-8")
    _tell(f"wrote {PAGE}")
    return code


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("run", "list", "collect", "write"))
    parser.add_argument("steps", nargs="*", metavar="STEP", help="only these")
    parser.add_argument("--reduced", action="store_true", help="a part of each, in minutes")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where the results are")
    return parser.parse_intermixed_args()


def _list(chosen: list[Step], results: Path) -> None:
    for step in chosen:
        code = code_of(step, results)
        state = {None: "not done", 0: "done"}.get(code, "done, and a program failed")
        print(f"{step.name:24} {format_duration(60 * step.minutes):>12}  {state}")
    total = sum(60 * step.minutes for step in chosen)
    print(f"{len(chosen)} steps, about {format_duration(total)} in all on two cores")


def _run(chosen: list[Step], results: Path) -> int:
    codes = run_all(chosen, results, _tell)
    for name, code in codes.items():
        if code not in (0, INTERRUPTED):
            _tell(f"{name} ended with {code}; {results / name}.txt and the lines above say more")
    if INTERRUPTED in codes.values():
        _tell("interrupted; the same command goes on")
        return INTERRUPTED
    return max(codes.values(), default=0) and 1


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
