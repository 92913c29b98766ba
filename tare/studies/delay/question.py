"""`tare.delay`: which runs it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tare.campaign.session import Command, Planned, Where, check_counts, measure, programs_of
from tare.campaign.watching import Watcher
from tare.memory_managers.layers import delay as delay_layer
from tare.programs.program import Program
from tare.records.results import Results
from tare.records.runs import Limits
from tare.studies.delay import report as delay_study
from tare.studykit.instrumented import is_built
from tare.studykit.sweeps import NOT_BUILT, Variant, swept, timed_rounds


def delay(
    programs: Command | Sequence[Program],
    managers: Sequence[str] = (),
    *,
    sizes: Sequence[int] = (),
    scope: str = "thread",
    buffer: str = "grow",
    order: str = "fifo",
    runs: int = 10,
    warmup: int = 1,
    live: bool = True,
    seed: int | None = None,
    limits: Limits | None = None,
    folder: Path | str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Time, memory and pauses of programs when their frees are held back and done in bulk.

    ``managers`` are the allocators that the delays stand before; none means the installed defaults.
    ``sizes`` are bytes to hold back, to which 1 is added; none means 4 KiB to 2 MiB. ``scope``,
    ``buffer`` and ``order`` are options of the layer. With ``live`` the program's live bytes are
    counted, in one run under the instrument, unless that would take too long.
    """
    check_counts(runs, warmup)
    given = {"scope": scope, "buffer": buffer, "order": order}
    defaults = {option.name: option.default for option in delay_layer.RECIPE.options}
    changed = {name: value for name, value in given.items() if value != defaults[name]}
    sizes = sizes or delay_study.DEFAULT_SIZES

    def variants(allocators: Sequence[str]) -> list[Variant]:
        return delay_study.variants(allocators, sizes, changed)

    chosen = programs_of(programs)
    resolved, baseline = swept(managers, variants)
    left_out = "it was not asked for" if not live else "" if is_built() else NOT_BUILT

    def plan(seed: int) -> Planned:
        timed = timed_rounds(delay_study, chosen, resolved, baseline, runs, warmup, seed)
        whole = delay_study.Plan(timed, live=not left_out)
        return Planned(
            lambda records: delay_study.next_round(whole, records), delay_study.planned_runs(whole)
        )

    asked = {"runs": runs, "warmup": warmup, "live": live}
    where = Where(seed, limits, folder, watcher)
    return measure(
        delay_study.STUDY,
        "time and memory of delays",
        chosen,
        resolved,
        baseline,
        asked,
        plan,
        where,
        live_left_out=left_out,
    )
