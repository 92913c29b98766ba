"""The section of `tare weigh` takes what fits."""

from __future__ import annotations

from dataclasses import replace

from tare.studies.space import weigh as space_section
from tare.studykit.budget import TOTAL_SECONDS, Effort, Setting


def setting(effort: Effort, seconds: float) -> Setting:
    return Setting(
        "p", ("glibc", "jemalloc", "mimalloc"), "glibc", effort, seconds, TOTAL_SECONDS[effort], 1
    )


def test_the_section_takes_what_fits() -> None:
    assert space_section.expected_runs(setting(Effort.QUICK, 0.1)) == 1
    assert space_section.expected_runs(setting(Effort.DEFAULT, 0.1)) == 3
    assert space_section.expected_runs(setting(Effort.DEFAULT, 100.0)) == 0
    assert space_section.expected_runs(setting(Effort.THOROUGH, 100.0)) == 3
    assert space_section.next_runs(setting(Effort.DEFAULT, 100.0), []) == []
    (run,) = space_section.next_runs(setting(Effort.DEFAULT, 0.1), [])
    own = replace(setting(Effort.DEFAULT, 0.1), managers=("own", "glibc"), baseline="own")
    assert [each.manager for each in space_section.next_runs(own, [])] == ["glibc"]
    assert (run.study, run.manager, run.observer) == ("space", "glibc", "space")
