"""Weighs programs with planted faults: `python -m tests.planted [NAME…]`.

Each is compiled with its fault and with its fix, what the fix brings is measured, and the bill of
the faulty one judged by it. Ends with 1 where a fault was not named, a gain is not within 3 points,
or a healthy program was accused.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.planted.collection import Planted, collection
from tests.planted.judging import Judgement
from tests.planted.trials import Trial

_FORM = "{:<16} {:<13} {:<13} {:>4}  {:<5} {:<22} {:>9} {:>8}  {}"
_HEAD = (
    "program",
    "fault",
    "named",
    "rank",
    "right",
    "metric",
    "predicted",
    "measured",
    "within 3",
)


def main() -> int:
    programs = collection()
    parser = argparse.ArgumentParser(prog="python -m tests.planted")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--fixes", action="store_true", help="only what the fixes bring")
    parser.add_argument(
        "--bills", type=Path, metavar="DIR", help="keep bills there, and take those that are there"
    )
    request = parser.parse_args()
    if unknown := set(request.names) - set(programs):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    chosen = [programs[name] for name in request.names or programs]
    if request.fixes:
        return _show_fixes(chosen)
    return _show_judgements(chosen, request.bills)


def _show_fixes(chosen: Sequence[Planted]) -> int:
    for program in chosen:
        if program.fault is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            effect = Trial(program, Path(folder)).fix()
        numbers = f"{effect.before:>15,.6g} {effect.after:>15,.6g} {effect.gain:>6.1%}"
        print(
            f"{program.name:<16} {program.fault:<13} {program.improves:<20} {numbers}", flush=True
        )
    return 0


def _show_judgements(chosen: Sequence[Planted], bills: Path | None) -> int:
    print(_FORM.format(*_HEAD))
    held = True
    for program in chosen:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(program, Path(folder))
            bill = (bills or Path(folder)) / f"{program.name}.json"
            if not bill.exists():
                bill.parent.mkdir(parents=True, exist_ok=True)
                trial.bill(bill)
            judgement = trial.judge(bill)
        held &= judgement.right and (judgement.within or program.fault is None)
        print(_row(judgement), flush=True)
    return 0 if held else 1


def _row(judgement: Judgement) -> str:
    program, action = judgement.program, judgement.action
    return _FORM.format(
        program.name,
        program.fault or "none",
        action.kind if action else "nothing",
        judgement.rank or "",
        _word(judgement.right),
        action.gain.metric if action else "",
        _share(judgement.predicted),
        _share(judgement.measured),
        _word(judgement.within) if program.fault else "",
    ).rstrip()


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _word(held: bool) -> str:
    return "yes" if held else "no"


if __name__ == "__main__":
    raise SystemExit(main())
