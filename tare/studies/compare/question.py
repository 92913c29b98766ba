"""`tare.compare`: which runs a comparison asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tare.campaign import executor, rounds
from tare.campaign.cluster import Cluster
from tare.campaign.session import (
    Command,
    Planned,
    Where,
    check_counts,
    managers_of,
    measure,
    programs_of,
)
from tare.campaign.watching import Watcher
from tare.observers.protocol import Observe
from tare.programs.program import Program
from tare.records.results import Results, default_folder
from tare.records.runs import Limits
from tare.studies.compare import report as compare_study
from tare.studykit.least_heap import runtime_heaps


def compare(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    baseline: str = "",
    runs: int = 10,
    warmup: int = 1,
    seed: int | None = None,
    precision: float | None = None,
    most_runs: int = 100,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
    study: str = compare_study.STUDY,
    label: str = "",
    observe: Observe | None = None,
    cluster: Cluster | None = None,
    canary: bool = False,
) -> Results:
    """Time and memory of programs under each manager.

    ``managers`` empty means the installed defaults; ``baseline`` is added to them when it is not
    among them, and is ``glibc`` or else the first. ``precision`` 0.01 measures until each interval
    of the wall-time ratio is within 1% of it, ``most_runs`` at most. A ``folder`` that holds an
    interrupted study of the same question is resumed. ``observe`` watches the runs instead of the
    runner. With ``cluster`` its workers do the runs; ``canary`` also looks whether the machine
    drifts, as is always done on a cluster.
    """
    check_counts(runs, warmup, most_runs, precision)
    chosen = programs_of(programs)
    resolved, baseline = managers_of(managers, baseline)
    asked = {"runs": runs, "warmup": warmup, "precision": precision, "most_runs": most_runs}
    heaps: dict[str, Any] = {}
    if runtime_heaps.has_multiples(resolved):
        folder = Path(folder) if folder else default_folder(study, label or chosen[0].argv[0])
        beside = folder.with_name(f"{folder.name}-least-heaps")
        settled, heaps = runtime_heaps.in_bytes(chosen, resolved, limits, beside, watcher)
        observe = runtime_heaps.observer(settled, observe or executor.OBSERVERS["runner"])
        resolved = settled[chosen[0].name]

    def plan(seed: int) -> Planned:
        whole = rounds.Plan(
            programs=tuple(program.name for program in chosen),
            managers=tuple(resolved),
            baseline=baseline,
            runs=runs,
            warmup=warmup,
            seed=seed,
            precision=precision,
            most_runs=most_runs,
        )
        return Planned(
            partial(compare_study.next_round, whole),
            rounds.planned_runs(whole),
            {
                name: partial(compare_study.next_round, replace(whole, programs=(name,)))
                for name in whole.programs
            },
        )

    where = Where(seed, limits, folder, watcher, label, cluster, canary)
    facts: dict[str, Any] = {"heaps": heaps} if heaps else {}
    observers = {**executor.OBSERVERS, **({"runner": observe} if observe else {})}
    return measure(
        study,
        "time and memory",
        chosen,
        resolved,
        baseline,
        asked,
        plan,
        where,
        observers,
        **facts,
    )
