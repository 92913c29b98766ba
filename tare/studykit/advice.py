"""What the actions of several studies share: gains, and the command that shows whether one came
true."""

from __future__ import annotations

import shlex

from tare.base.text import shortened
from tare.records.actions import LONGEST_FUNCTION, Action, Certainty, Gain, Kind, Place
from tare.records.header import DescribedProgram, Header

_DEFAULT = "glibc"
"""What a study that names no manager runs a program under."""


def called(place: Place, caller: Place | None) -> str:
    """``copy (text.c:32)`` or ``copy (text.c:32, called by set at settings.c:20)``."""
    if caller is None:
        return place.name
    by = f"called by {shortened(caller.function, LONGEST_FUNCTION)}"
    by += f" at {caller.file.rpartition('/')[2]}:{caller.line}" if caller.line else ""
    return f"{place.name[:-1]}, {by})" if " (" in place.name else f"{place.name} ({by})"


def verifying(run: Header, study: str, program: str, other: str | None = None) -> str:
    """The command of ``study`` for a program of a results folder, under its baseline; with
    ``other``, beside that manager."""
    described = {each.name: each for each in run.programs}[program]
    words = ["tare", study]
    if other is not None or run.baseline != _DEFAULT:
        words += ["-m", run.baseline]
    if other is not None:
        words += ["-m", other]
    if run.baseline != _DEFAULT:
        words += ["--baseline", run.baseline]
    return shlex.join([*words, *run_as(described)])


def run_as(program: DescribedProgram) -> list[str]:
    """The words of a command of Tare from its program's input on."""
    words = ["-i", program.stdin] if program.stdin else []
    if program.ignore_output:
        words.append("--ignore-output")
    return [*words, "--", *program.argv]


def saving(metric: str, before: float, saved: tuple[float, float, float], unit: str = "B") -> Gain:
    """A gain of ``saved``: value, low and high, of ``before``."""
    value, low, high = saved
    return Gain(metric, value, low, high, unit, 1 - value / before if before else 1.0)


def predicted(
    kind: Kind, text: str, gain: Gain, verify: str, place: Place, others: tuple[Place, ...] = ()
) -> Action:
    return Action(kind, text, gain, Certainty.PREDICTED, verify, place, others)
