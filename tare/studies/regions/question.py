"""`tare.regions`: which runs it asks for."""

from __future__ import annotations

from tare.campaign.session import (
    Compared,
    Planned,
    Question,
    check_counts,
    measure,
    programs_of,
    rounds_of,
)
from tare.memory_managers import manager as managers_module
from tare.records.results import Results
from tare.studies.drag import observe as observe_drag
from tare.studies.drag.report import OBSERVER as DRAG_OBSERVER
from tare.studies.regions import observe as regions_share
from tare.studies.regions import report as regions_study
from tare.studies.regions.request import Regions
from tare.studykit.instrumented import is_built
from tare.studykit.request import answers
from tare.studykit.sweeps import NOT_BUILT, swept


@answers(Regions)
def regions(request: Regions) -> Results:
    """Time and memory of programs with their regions, and with these served in other ways.

    ``managers`` are the allocators that serve the regions' objects one by one; none means the
    installed defaults. Plain regions and reaps are tried under the first. With ``drag`` a run under
    the instrument shows what of the regions is unused, unless that would take too long.
    """
    check_counts(request.runs, request.warmup)
    chosen = programs_of(request.programs)
    resolved, baseline = swept(request.managers, regions_study.variants)
    counted = managers_module.resolve(regions_study.counted(baseline).name)
    left_out = "it was not asked for" if not request.drag else "" if is_built() else NOT_BUILT
    dragged = "" if left_out else regions_study.dragged(baseline).name

    def plan(seed: int) -> Planned:
        references = regions_study.references(tuple(resolved))
        timed = rounds_of(Compared(chosen, resolved, baseline), request, seed, references)
        shared = baseline if is_built() else ""
        whole = regions_study.Plan(timed, counted.name, dragged, shared)
        return Planned(
            lambda records: regions_study.next_round(whole, records),
            regions_study.planned_runs(whole),
        )

    question = Question(
        regions_study.STUDY,
        "time and memory of regions",
        Compared(chosen, {**resolved, counted.name: counted}, baseline),
        request.asked(),
        {
            regions_study.SHARE_OBSERVER: regions_share.run_once,
            DRAG_OBSERVER: observe_drag.run_once,
        },
        {"drag_left_out": left_out},
    )
    return measure(question, plan, request.where())
