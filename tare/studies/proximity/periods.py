"""How often to collect, so that there are as many collections as were asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tare.base.errors import UsageError
from tare.memory_managers.layers import split_name
from tare.memory_managers.manager import parse_name, resolve
from tare.memory_managers.runtimes.jvm import NAME as JVM
from tare.memory_managers.runtimes.jvm.collectors import COLLECTORS
from tare.records.results import Results
from tare.studies.proximity.report import Variant
from tare.studykit.sweeps import size_text

LEAST_COLLECTIONS, MOST_COLLECTIONS, MOST_NUMBERS = 10, 100_000, 6
_LEAST_PERIOD = 64 << 10
_LEAST_UNITS = 8
_PILOT_PERIODS = {"period": 16 << 20, "young": 16 << 20, "every": 1 << 20}
"""By the option that says how often collections come: what it is in the run that shows how much the
program allocates."""
_CLASHES = {
    "period": ("young", "period", "full-period"),
    "young": ("young",),
    "every": ("every", "heap"),
}


def chosen_periods(
    names: Sequence[str], collections: Sequence[int], measure: Callable[[Sequence[str]], Results]
) -> list[Variant]:
    """Each manager with each period that gives so many collections after the warm-up. ``measure``
    does the study once, under managers with a period that is known."""
    numbers = sorted(set(collections))
    if len(numbers) > MOST_NUMBERS or not all(
        LEAST_COLLECTIONS <= number <= MOST_COLLECTIONS for number in numbers
    ):
        raise UsageError(
            "--collections: these numbers are not possible",
            f"give up to {MOST_NUMBERS} from {LEAST_COLLECTIONS} to {MOST_COLLECTIONS}",
        )
    options = {name: period_option(name) for name in names}
    pilots = {name: with_option(name, key, _PILOT_PERIODS[key]) for name, key in options.items()}
    results = measure(list(pilots.values()))
    counted = {
        row["manager"]: row["value"]
        for row in results.measurements.iter_rows(named=True)
        if row["metric"] == "pauses" and row["value"] is not None
    }
    variants = []
    for name, key in options.items():
        pilot = resolve(pilots[name]).name
        if pilot not in counted:
            raise UsageError(
                f"how much the program allocates under {pilot} is not known",
                f"see {results.folder}, or give {key}= instead of --collections",
            )
        allocated = counted[pilot] * _PILOT_PERIODS[key]
        for number in numbers:
            varied = with_option(name, key, rounded_period(name, allocated / number))
            variants.append(Variant(resolve(varied).name, name, number))
    return variants


def period_option(name: str) -> str:
    """The option of a manager that says how often it collects. UsageError where there is none, or
    where it is given."""
    setting = resolve(name).runtime
    if setting is None:
        key = "every"
    elif setting.runtime == JVM and COLLECTORS[setting.collector].unit:
        key = "period"
    elif setting.runtime == JVM and COLLECTORS[setting.collector].young:
        key = "young"
    else:
        raise UsageError(
            f"how often {name} collects cannot be set",
            "leave out --collections, or give jvm.serial, jvm.parallel, jvm.g1 or marksweep(…)",
        )
    layered = split_name(name)
    given = layered.options if layered else parse_name(name)[1]
    if clash := [option for option in _CLASHES[key] if option in given]:
        raise UsageError(
            f"{name}: --collections sets how often it collects",
            f"leave out {' and '.join(clash)}",
        )
    return key


def with_option(name: str, key: str, size: int) -> str:
    """A manager's name with one more option."""
    setting = f"{key}={size_text(size)}"
    bare = name.strip()
    return f"{bare.removesuffix(')')}, {setting})" if bare.endswith(")") else f"{bare}({setting})"


def rounded_period(name: str, size: float) -> int:
    """The nearest period that the manager can have. UsageError where it is too short for any."""
    setting = resolve(name).runtime
    unit = least = _LEAST_PERIOD
    if setting is not None and (grain := COLLECTORS[setting.collector].unit):
        unit, least = grain, _LEAST_UNITS * grain
    period = round(size / unit) * unit
    if period < least:
        raise UsageError(
            f"{name} cannot collect every {size_text(math.ceil(size))} that the program allocates: "
            f"{size_text(least)} is the least",
            "let the program do more, or ask for fewer collections",
        )
    return period
