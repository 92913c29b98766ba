"""Bills whose runs take a known time, without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tare.studykit.budget import Setting, WeighSection
from tare.weighing.plan import Plan


@dataclass
class Bill:
    """What was done of a bill whose runs take ``slowness`` times as long as they are judged to."""

    runs: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


def carried_out(
    found: Sequence[WeighSection], whole: Setting, slowness: Mapping[str, float] | float = 1.0
) -> Bill:
    done, plan = Bill(), Plan(found, whole)
    while (step := plan.next()) is not None:
        section, part = step
        name = section.IDENTIFIER
        assert len(done.order) < 100, "a plan without end"
        judged = replace(part, pace=1.0, pilot_seconds=whole.pilot_seconds)
        one = section.expected_seconds(judged) / max(1, section.expected_runs(judged))
        factor = slowness if isinstance(slowness, float) else slowness.get(name, 1.0)
        runs = max(section.expected_runs(part), done.runs.get(name, 0))
        done.order.append(name)
        done.runs[name] = runs
        done.seconds[name] = runs * one * factor
        plan.took(section, part, done.seconds[name], runs)
    return done
