"""What a bill advises to do, across its sections."""

from __future__ import annotations

from collections.abc import Sequence

from tare.records.actions import Action, ranked
from tare.records.results import Results
from tare.weighing.sections import of_results


def actions_of(results: Results) -> Sequence[Action]:
    """Of all sections that have a function ``actions(results)``, the best first."""
    found: list[Action] = []
    for section in of_results(results):
        if given := getattr(section, "actions", None):
            found += given(results)
    return ranked(found)
