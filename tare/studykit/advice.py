"""What the actions of several studies share: how a place reads, and the command that shows whether
an action's gain came true."""

from __future__ import annotations

import shlex

from tare.base.text import shortened
from tare.heap_traces.frames import LONGEST_FRAME
from tare.records.actions import Action, Certainty, Gain, Kind, Place
from tare.records.header import Header

_DEFAULT = "glibc"
"""What a study that names no manager runs a program under."""


def named(place: Place) -> str:
    """``read_orders (hold.cpp:32)``, with the module where there is no file."""
    function = shortened(place.function, LONGEST_FRAME)
    if place.file:
        line = f":{place.line}" if place.line else ""
        return f"{function} ({place.file.rpartition('/')[2]}{line})"
    module = place.module.rpartition("/")[2]
    return f"{function} ({module})" if module and module not in function else function


def at(place: Place) -> str:
    """``hold.cpp:32``, or the function where there is no file."""
    return f"{place.file.rpartition('/')[2]}:{place.line}" if place.line else named(place)


def verifying(run: Header, study: str, program: str, other: str | None = None) -> str:
    """The command of ``study`` for a program of a results folder, under its baseline; with
    ``other``, beside that manager."""
    described = next(each for each in run.programs if each.name == program)
    words = ["tare", study]
    if other is not None or run.baseline != _DEFAULT:
        words += ["-m", run.baseline]
    if other is not None:
        words += ["-m", other]
    if run.baseline != _DEFAULT:
        words += ["--baseline", run.baseline]
    if described.stdin:
        words += ["-i", described.stdin]
    if described.ignore_output:
        words.append("--ignore-output")
    return shlex.join([*words, "--", *described.argv])


def saving(metric: str, before: float, saved: tuple[float, float, float], unit: str = "B") -> Gain:
    """A gain of ``saved``: value, low and high, of ``before``."""
    value, low, high = saved
    return Gain(metric, value, low, high, unit, 1 - value / before if before else 1.0)


def predicted(kind: Kind, text: str, gain: Gain, verify: str, place: Place) -> Action:
    return Action(kind, text, gain, Certainty.PREDICTED, verify, place)
