"""The plan of a bill, made again after each part with what it really took.

First comes the least of each section, the cheap and telling ones before the others, as long as it
fits: a few runs with call sites tell more than many whose times show no difference. Then come
enough runs for a verdict by time, and what is left goes in turns to the sections that know what to
do with more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.studykit.budget import TIMED, Effort, Setting, WeighSection, names_of, worth

_ROUNDED = 1 + 1e-9
_PACES = (0.1, 10.0)


@dataclass
class _Progress:
    seconds: float = 0.0
    runs: int = 0
    pace: float = 1.0
    turns: int = 0
    is_done: bool = False


class Plan:
    """``next`` says what to do, and ``took`` is told what it took. The section on time is done in
    any case: it shows whether the program runs at all, and how long it usually takes."""

    def __init__(self, sections: Sequence[WeighSection], whole: Setting) -> None:
        self._sections = [each for each in sections if each.least_seconds(whole) > 0]
        self._whole = replace(whole, bill_seconds=whole.budget_seconds)
        self._known = {each.IDENTIFIER: _Progress() for each in self._sections}
        self._sections.sort(key=lambda each: each.least_seconds(whole) / worth(each))

    @property
    def left_seconds(self) -> float:
        spent = sum(each.seconds for each in self._known.values())
        return max(0.0, self._whole.budget_seconds - spent)

    def next(self) -> tuple[WeighSection, Setting] | None:
        return self._least() or self._verdict() or self._more()

    def took(self, section: WeighSection, setting: Setting, seconds: float, runs: int) -> None:
        """``seconds`` and ``runs`` are all of the section's so far, earlier parts and those of a
        bill that was interrupted included."""
        known = self._known[section.IDENTIFIER]
        known.is_done = bool(known.turns) and runs == known.runs
        known.turns += 1
        known.seconds, known.runs = seconds, runs
        planned = section.expected_runs(replace(setting, pace=1.0))
        expected = section.expected_seconds(replace(setting, pace=1.0))
        if planned and known.runs and expected > 0:
            pace = (known.seconds / known.runs) / (expected / planned)
            known.pace = min(max(pace, _PACES[0]), _PACES[1])
        if _is_timed(section) and known.turns == 1:
            seconds = self._whole.pilot_seconds * known.pace
            self._whole, known.pace = replace(self._whole, pilot_seconds=seconds), 1.0

    def _setting(self, section: WeighSection, seconds: float) -> Setting:
        pace = self._known[section.IDENTIFIER].pace
        return replace(self._whole, budget_seconds=seconds * _ROUNDED, pace=pace)

    def _least(self) -> tuple[WeighSection, Setting] | None:
        pending = [each for each in self._sections if not self._known[each.IDENTIFIER].turns]
        needed = {each.IDENTIFIER: each.least_seconds(self._whole) for each in pending}
        reserved = sum(needed[each.IDENTIFIER] for each in pending if _is_timed(each))
        for section in pending:
            least = needed[section.IDENTIFIER]
            free = self.left_seconds - (0.0 if _is_timed(section) else reserved)
            if least <= free or _is_timed(section) or self._whole.effort is Effort.THOROUGH:
                return section, self._setting(section, least)
        return None

    def _verdict(self) -> tuple[WeighSection, Setting] | None:
        """As many rounds as a verdict by time takes, if there is time for all of them."""
        for section in self._begun():
            known = self._known[section.IDENTIFIER]
            enough = replace(self._whole, pace=known.pace, runs=FEWEST_FOR_INTERVAL)
            seconds = section.least_seconds(enough)
            if (
                _is_timed(section)
                and not self._whole.runs
                and known.seconds < seconds <= known.seconds + self.left_seconds
                and section.expected_runs(self._setting(section, seconds)) > known.runs
            ):
                return section, self._setting(section, seconds)
        return None

    def _more(self) -> tuple[WeighSection, Setting] | None:
        begun = sorted(self._begun(), key=lambda each: self._known[each.IDENTIFIER].turns)
        begun.sort(key=_is_timed)
        left = self.left_seconds
        able = [each for each in begun if self._could_do_more(each, left)]
        for part in (len(able), 1):
            for section in able:
                known = self._known[section.IDENTIFIER]
                setting = self._setting(section, known.seconds + left / part)
                if section.expected_runs(setting) > known.runs:
                    return section, setting
        return None

    def _could_do_more(self, section: WeighSection, left: float) -> bool:
        known = self._known[section.IDENTIFIER]
        return section.expected_runs(self._setting(section, known.seconds + left)) > known.runs

    def _begun(self) -> list[WeighSection]:
        known = self._known
        return [
            each
            for each in self._sections
            if known[each.IDENTIFIER].turns and not known[each.IDENTIFIER].is_done
        ]


def _is_timed(section: WeighSection) -> bool:
    return TIMED in names_of(section)
