"""`tare.delay`: which runs it asks for."""

from __future__ import annotations

from collections.abc import Sequence

from tare.campaign.session import (
    Compared,
    Planned,
    Question,
    check_counts,
    measure,
    programs_of,
    rounds_of,
)
from tare.memory_managers.layers import delay as delay_layer
from tare.records.results import Results
from tare.studies.delay import report as delay_study
from tare.studies.delay.request import Delay
from tare.studykit.instrumented import is_built
from tare.studykit.request import answers
from tare.studykit.sweeps import NOT_BUILT, Variant, swept


@answers(Delay)
def delay(request: Delay) -> Results:
    """Time, memory and pauses of programs when their frees are held back and done in bulk.

    ``managers`` are the allocators that the delays stand before; none means the installed defaults.
    ``sizes`` are bytes to hold back, to which 1 is added; none means 4 KiB to 2 MiB. ``scope``,
    ``buffer`` and ``order`` are options of the layer. With ``quarantine`` each allocator also runs
    under `marksweep(M, free=quarantine)`. With ``live`` the program's live bytes are
    counted, in one run under the instrument, unless that would take too long.
    """
    check_counts(request.runs, request.warmup)
    given = {"scope": request.scope, "buffer": request.buffer, "order": request.order}
    defaults = {option.name: option.default for option in delay_layer.RECIPE.options}
    changed = {name: value for name, value in given.items() if value != defaults[name]}
    sizes = request.sizes or delay_study.DEFAULT_SIZES

    def variants(allocators: Sequence[str]) -> list[Variant]:
        return delay_study.variants(allocators, sizes, changed, request.quarantine)

    chosen = programs_of(request.programs)
    resolved, baseline = swept(request.managers, variants)
    left_out = "it was not asked for" if not request.live else "" if is_built() else NOT_BUILT

    compared = Compared(chosen, resolved, baseline)

    def plan(seed: int) -> Planned:
        timed = rounds_of(compared, request, seed, delay_study.references(tuple(resolved)))
        whole = delay_study.Plan(timed, live=not left_out)
        return Planned(
            lambda records: delay_study.next_round(whole, records), delay_study.planned_runs(whole)
        )

    question = Question(
        delay_study.STUDY,
        "time and memory of delays",
        compared,
        request.asked(),
        facts={"live_left_out": left_out},
    )
    return measure(question, plan, request.where())
