"""The study behind `tare delay`: what it does to a program when its frees are held back.

Each allocator M runs bare, and under `delay(M, size=…)` with each size. What a delay changes is
seen against size=1B, which holds nothing back; what the layer itself costs is 1B against M.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tare.base.libraries import pl
from tare.base.units import format_bytes, format_floor, format_percent, parse_size
from tare.campaign import rounds
from tare.memory_managers.layers import delay as layer
from tare.records import summary
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record, Run
from tare.records.summary import Row
from tare.report.comparison import (
    INTERVAL,
    MEMORY,
    OF_ALL_RUNS,
    TIME,
    change,
    compared,
    measured,
    medians,
    runs,
    summary_rows,
)
from tare.report.fields import Field, Kind, exact_ratios, table, text, texts
from tare.report.model import Figure, Section, Table
from tare.studies.count import report as count
from tare.studies.delay.details import Details
from tare.studykit import sweeps
from tare.studykit.instrumented import run_seconds, too_long
from tare.studykit.published import published
from tare.studykit.safety import is_quarantine, quarantined, safety_tables
from tare.studykit.sweep_tables import (
    DIFFERENT,
    Sweep,
    effect,
    good_runs,
    option_sizes,
    pause_fields,
    pause_figure,
    pauses_of,
    ratio_figure,
    sweeps_of,
    with_pauses,
)
from tare.studykit.sweeps import Variant, size_text, variant

STUDY = "delay"
TITLE = "Delayed reclamation"
NO_DELAY = 1
"""Bytes: with this size each object is released by its own free."""
DEFAULT_SIZES = (NO_DELAY, 4 << 10, 64 << 10, 512 << 10, 1 << 20, 2 << 20)
LIVE_SECONDS_ALLOWED = 30.0
"""The run for the live bytes may take so long, or as long as all the timed runs together."""
_PAUSE_TABLE_ROWS_ON_A_TERMINAL = 14
_BEHIND_TIME = (
    "user_seconds",
    "system_seconds",
    "cpu_instructions",
    "cpu_cycles",
    "cache_misses",
    "tlb_misses",
    "minor_faults",
)
_SOURCE = (
    "published: Sareen and Blackburn, Better Understanding the Costs and Benefits of Automatic "
    "Memory Management, MPLR 2022, section 7: one volume for all threads, against 1B, means over "
    "SPEC CPU2006 and over the programs of mimalloc-bench, on an AMD Zen 3."
)
_PUBLISHED_SIZE = 2 << 20
_BARE = 0
"""Bytes: stands for an allocator without the layer."""
_NOTHING = 0.0005
"""Multiples below are shown as 0."""


# ---- what runs ----


@dataclass(frozen=True)
class Plan:
    """``live`` says whether the program's live bytes are to be counted, in one run more."""

    timed: rounds.Plan
    live: bool = True


def variants(
    allocators: Sequence[str],
    sizes: Sequence[int],
    options: Mapping[str, str],
    quarantine: bool = False,
) -> list[Variant]:
    """Each allocator bare, then under the layer with each of the sizes and 1B, and if asked in
    quarantine. ``options`` are the layer's others."""
    found = []
    for allocator in allocators:
        found.append(Variant(allocator))
        for size in sweeps.ascending({NO_DELAY, *sizes}):
            given = {"size": size_text(size), **options}
            found.append(sweeps.layered(allocator, layer.NAME, given))
        if quarantine:
            found.append(quarantined(allocator))
    return found


def reference_of(manager: str) -> str:
    """What a manager of the study is held against: a delay against 1B, 1B against the allocator."""
    each = variant(manager)
    if not each.layer:
        return manager
    if is_quarantine(each) or _size(each) == NO_DELAY:
        return each.allocator
    return each.changed(size=size_text(NO_DELAY)).name


def references(managers: Sequence[str]) -> tuple[str, ...]:
    """What others are held against: they run as often as a baseline."""
    return tuple(dict.fromkeys(map(reference_of, managers)))


def next_round(plan: Plan, records: Sequence[Record]) -> list[Run]:
    """The runs to do next, given those that are done; empty when the study is complete. The run for
    the live bytes comes last."""
    if timed := rounds.next_round(plan.timed, records, STUDY):
        return timed
    if not plan.live:
        return []
    counted = {r.run.program for r in records if r.run.study == count.STUDY}
    for program in plan.timed.programs:
        if program not in counted and not live_left_out(records, program, plan.timed.baseline):
            order = 1 + max(r.run.order for r in records)
            observer = count.OBSERVER
            return [Run(count.STUDY, program, plan.timed.baseline, 0, order, observer=observer)]
    return []


def planned_runs(plan: Plan) -> int:
    """How many runs the plan takes when nothing fails."""
    return rounds.planned_runs(plan.timed) + plan.live * len(plan.timed.programs)


def live_left_out(records: Sequence[Record], program: str, baseline: str) -> str:
    """Why the live bytes of a program are not counted, judged by its timed runs, or ""."""
    timed = [
        r
        for r in records
        if (r.run.study, r.run.program) == (STUDY, program) and r.outcome.status is Status.OK
    ]
    a_run = "a run under the instrument"
    return too_long(timed, baseline, run_seconds, LIVE_SECONDS_ALLOWED, a_run)


# ---- what it shows ----


summarise = summary.by_reference(reference_of)


def section(results: Results, identifier: str = STUDY, title: str = TITLE) -> Section:
    """Findings, tables and figures of the delays in a results folder."""
    records = read_records(results.folder)
    mine = results.measurements.filter(results.measurements["study"] == STUDY)
    swept = sweeps_of(
        summarise(mine, "", results.run.seed), sweeps.by_allocator(_managers(results))
    )
    tables: list[Table] = []
    sentences: list[str] = []
    for number, sweep in enumerate(swept, 1):
        live = live_memory(results, records, sweep.program)
        sentences += [sweep.named + each for each in findings(sweep, live)]
        tables += [
            delay_table(sweep, live.bytes, f"table-delay-{number}"),
            layer_table(sweep, f"table-layer-{number}"),
            pause_table(sweep, f"table-pauses-{number}"),
            *where_tables(sweep, f"table-where-{number}"),
        ]
    if not any(row["runs"] for sweep in swept[:1] for row in sweep.rows.values()):
        sentences = ["No run succeeded."]
    else:
        tables += [*safety_tables(results, STUDY, records), published_table(swept)]
    return Section(
        identifier=identifier,
        title=title,
        findings=sentences,
        tables=tables,
        figures=_figures(results, records, mine, swept),
    )


def _managers(results: Results) -> list[str]:
    """In the order of the study: of each allocator the bare one first, then the delays by size."""
    of_study = results.measurements.filter(results.measurements["study"] == STUDY)
    allocators = list(results.run.managers)

    def place(name: str) -> tuple[int, int]:
        each = variant(name)
        known = each.allocator in allocators
        return allocators.index(each.allocator) if known else len(allocators), _size(each)

    delays = [
        name for name in dict.fromkeys(of_study["manager"]) if not is_quarantine(variant(name))
    ]
    return sorted(delays, key=place)


def _size(each: Variant) -> int:
    return parse_size(each.option("size")) if each.layer else _BARE


@dataclass(frozen=True)
class Live:
    """The most bytes, as asked for, that a program held at a time, or the reason why they are not
    known; and how many volumes of their own the layer gave to its threads."""

    bytes: float | None
    reason: str = ""
    volumes: int = 1


def live_memory(results: Results, records: Sequence[Record], program: str) -> Live:
    """What is known of the program's live memory."""
    counted = [r for r in records if (r.run.study, r.run.program) == (count.STUDY, program)]
    for record in counted:
        if record.outcome.status is Status.OK:
            most = record.outcome.values["max_live_bytes"]
            told = "" if most else "the program allocates nothing"
            return Live(most or None, told, _volumes(records, program))
    if counted:
        status = counted[0].outcome.status
        return Live(None, f"the run under the instrument did not complete: {status}")
    told = results.run.live_left_out
    return Live(None, told or live_left_out(records, program, results.run.baseline))


def _volumes(records: Sequence[Record], program: str) -> int:
    threads = [
        len(record.outcome.details_as(Details).delay.threads)
        for record in records
        if (record.run.study, record.run.program) == (STUDY, program)
        and variant(record.run.manager).option("scope") != "global"
    ]
    return max([1, *threads])


def findings(
    sweep: Sweep,
    live: Live,
) -> list[str]:
    """When a delay helps or hurts and by how much, a sentence for each allocator."""
    sentences = []
    for allocator, each in sweep.groups.items():
        time, memory = (_delayed(sweep, each, metric) for metric in (TIME, MEMORY))
        if time:
            sentences.append(_sentence(allocator, time, memory) + _published(allocator))
    sentences += _layer_sentence(sweep)
    sizes = sorted(set(map(_size, sweep.with_layer)))
    if not sizes:
        return sentences
    return [*sentences, _as_a_heap(sizes[-1], live)]


def _as_a_heap(size: int, live: Live) -> str:
    if not live.bytes:
        return f"The delays are not compared with live memory: {live.reason}."
    share = size / live.bytes
    each = f", in each of {live.volumes} threads" if live.volumes > 1 else ""
    most = f" to {_times(1 + share * live.volumes)}" if live.volumes > 1 else ""
    return (
        f"The program's live memory is at most {format_bytes(live.bytes)}, as asked for; "
        f"{size_text(size)} held back is {_times(share)} of that{each}. It is like garbage that "
        f"waits for a collector in a heap of {_times(1 + share)}{most} the live memory. This is "
        "rough, since what is held back is counted in the allocator's sizes."
    )


def _sentence(
    allocator: str, time: Sequence[tuple[str, Row]], memory: Sequence[tuple[str, Row]]
) -> str:
    verdicts = {row["verdict"] for _, row in time} & {*DIFFERENT}
    if not verdicts:
        return f"Under {allocator}: {effect(time, 'time')}; {effect(memory, 'memory')}."
    does = {"higher": "hurts", "lower": "helps"}
    word = " and ".join(does[verdict] for verdict in sorted(verdicts))
    return f"Under {allocator} a delay {word}: {effect(time, 'time')}; {effect(memory, 'memory')}."


def _layer_sentence(sweep: Sweep) -> list[str]:
    costs = {
        allocator: row
        for allocator, group in sweep.groups.items()
        for each in group
        if _size(each) == NO_DELAY
        and (row := sweep.row(each, TIME)) is not None
        and row["ratio"] is not None
    }
    if not costs:
        return []
    seen = [
        f"{allocator} {change(row, 'time')}"
        for allocator, row in costs.items()
        if row["verdict"] in DIFFERENT
    ]
    others = " under the others" if seen else ""
    if len(seen) < len(costs):
        seen.append(f"no difference in time seen{others}")
    return [f"The layer itself, 1B against the bare allocator: {'; '.join(seen)}."]


def _delayed(sweep: Sweep, group: Sequence[Variant], metric: str) -> list[tuple[str, Row]]:
    """The rows of the delays that gave a ratio, by their size."""
    return [
        (each.option("size"), row)
        for each in group
        if each.layer
        and _size(each) != NO_DELAY
        and (row := sweep.row(each, metric)) is not None
        and row["ratio"] is not None
    ]


def _published(allocator: str) -> str:
    name = allocator.split("(")[0].removeprefix("google-").rstrip("0123456789")
    figures = [row for row in published(STUDY) if row["allocator"] == name]
    if not figures:
        return ""
    said = [
        f"{_more(row['time'])} more time and {_more(row['memory'])} more memory over "
        f"{row['programs']}"
        for row in figures
    ]
    size = size_text(_PUBLISHED_SIZE)
    return f" Published for {figures[0]['title']} at {size}: {', '.join(said)}."


def _more(ratio: float) -> str:
    return format_percent(ratio - 1)


def _times(number: float) -> str:
    if number < _NOTHING:
        return "0×"
    return f"{number:.2g}×" if number < 10 else f"{number:.0f}×"


def delay_table(
    sweep: Sweep,
    live: float | None,
    identifier: str,
) -> Table:
    """A line for each allocator and size: time and memory against no delay."""

    def against_none(metric: str) -> Callable[[Variant], Row | None]:
        return lambda each: _against_no_delay(each, sweep.row(each, metric))

    fields: list[Field[Variant]] = [
        _ALLOCATOR,
        replace(_DELAY, help="Bytes that are held back before all are released; 1B is no delay."),
        Field(
            "of live",
            "The delay as a multiple of the program's live memory.",
            lambda each: Kind(_times).cell(_size(each) / live if live else None),
            shown=bool(live),
        ),
        *measured(
            "time",
            METRICS[TIME].explanation + OF_ALL_RUNS,
            "Median time divided by that with 1B.",
            against_none(TIME),
            INTERVAL,
        ),
        *measured(
            "memory",
            METRICS[MEMORY].explanation + OF_ALL_RUNS,
            "Median peak memory divided by that with 1B.",
            against_none(MEMORY),
            INTERVAL,
        ),
        runs(sweep.of(TIME)),
    ]
    shown = [each for each in sweep.with_layer if sweep.row(each, TIME)]
    floors = dict.fromkeys(
        (each.allocator, row["noise_floor"])
        for each in shown
        if _size(each) != NO_DELAY
        and (row := sweep.row(each, TIME))
        and row["noise_floor"] is not None
    )
    notes = ["coloured: a difference beyond noise; dim: no difference seen."]
    if floors:
        said = [f"{allocator} {format_floor(floor)}" for allocator, floor in floors]
        notes.append(f"noise floor of the time, 1B against itself: {', '.join(said)}.")
    notes.append("where nothing differs, one 95% interval in twenty misses 1 by chance.")
    return table(identifier, f"Against no delay (1B): {sweep.program}", shown, fields, notes)


_ALLOCATOR: Field[Variant] = texts(
    "manager", "The allocator under the layer that delays frees.", lambda each: each.allocator
)


_DELAY: Field[Variant] = option_sizes(
    "delay", "Bytes that are held back before all are released.", _size
)


def _against_no_delay(each: Variant, row: Row | None) -> Row | None:
    if row is None or not row["runs"] or _size(each) != NO_DELAY:
        return row
    return {**row, "verdict": "baseline", "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0}


def layer_table(sweep: Sweep, identifier: str) -> Table:
    """A line for each allocator: what the layer costs that delays nothing."""
    one_byte = "Median time with the layer, which holds nothing back."
    alone = "Divided by that under the allocator alone."
    time, memory = (sweep.of(metric) for metric in (TIME, MEMORY))
    fields: list[Field[Variant]] = [
        replace(_ALLOCATOR, help="The allocator under the layer."),
        medians(
            "bare time",
            "Median time under the allocator alone.",
            lambda each: sweep.rows.get((sweep.program, each.allocator, TIME)),
        ),
        *measured("1B time", one_byte, "Divided by the bare time.", time),
        *measured("1B memory", "Median peak memory with the layer.", alone, memory),
    ]
    shown = [each for each in sweep.with_layer if _size(each) == NO_DELAY and time(each)]
    title = f"The layer itself, 1B against the bare allocator: {sweep.program}"
    return table(identifier, title, shown, fields)


def where_tables(sweep: Sweep, identifier: str) -> list[Table]:
    """A line for each allocator and size: what is behind a difference in time."""
    metrics = [m for m in _BEHIND_TIME if any(metric == m for _, _, metric in sweep.rows)]
    fields = [
        _ALLOCATOR,
        _DELAY,
        *(
            compared(
                METRICS[metric].title,
                f"{METRICS[metric].explanation} Divided by that with 1B.",
                sweep.of(metric),
            )
            for metric in metrics
        ),
    ]
    shown = [each for each in sweep.with_layer if _size(each) != NO_DELAY]
    if not metrics or not shown:
        return []
    title = f"Behind the time, against no delay (1B): {sweep.program}"
    notes = ["ratios of medians. Coloured: a difference beyond noise; dim: no difference seen."]
    return [table(identifier, title, shown, fields, notes, essential=False)]


def pause_table(sweep: Sweep, identifier: str) -> Table:
    """A line for each allocator and size: how often, how long and how much was held."""
    by_capacity, held = "capacity_collections", "quarantined_bytes"
    fields = [
        _ALLOCATOR,
        _DELAY,
        *pause_fields(sweep),
        medians(
            "by capacity",
            METRICS[by_capacity].explanation,
            sweep.of(by_capacity),
            essential=False,
        ),
        medians("held", METRICS[held].explanation, sweep.of(held)),
    ]
    shown = with_pauses(sweep)
    notes = [
        "medians of the runs. An object of at least the delay's size is released at once, and "
        "moved by the allocator's own realloc: at 1B nothing is held, and more with longer delays.",
        "of short pauses, and of all at 1B, only a sample is timed: sums and means are estimates.",
    ]
    few = len(shown) <= _PAUSE_TABLE_ROWS_ON_A_TERMINAL
    return table(identifier, f"Pauses: {sweep.program}", shown, fields, notes, essential=few)


def published_table(swept: Sequence[Sweep]) -> Table:
    """What was measured here at the largest delay, above what was published."""
    fields: list[Field[Row]] = [
        texts("manager", "", "title"),
        Field("from", "", lambda row: row.get("from", text("published", "quiet")), numeric=False),
        texts("programs", "", "programs"),
        option_sizes(
            "delay",
            "Bytes held back before all are released.",
            lambda row: row.get("size", _PUBLISHED_SIZE),
        ),
        exact_ratios("time", "Divided by that with 1B.", "time"),
        exact_ratios("memory", "Peak memory, divided by that with 1B.", "memory"),
    ]
    lines: list[Row] = []
    for sweep in swept:
        for allocator, group in sweep.groups.items():
            times = dict(_delayed(sweep, group, TIME))
            memory = dict(_delayed(sweep, group, MEMORY))
            if not times:
                continue
            largest = max(times, key=parse_size)
            lines.append(
                {
                    "title": allocator,
                    "from": text("here"),
                    "programs": sweep.program,
                    "size": parse_size(largest),
                    "time": times[largest]["ratio"],
                    "memory": memory[largest]["ratio"] if largest in memory else None,
                }
            )
    lines += published(STUDY)
    title = "Beside published figures"
    return table("table-delay-published", title, lines, fields, [_SOURCE], essential=False)


# ---- figures ----


def _figures(
    results: Results,
    records: Sequence[Record],
    measurements: pl.DataFrame,
    swept: Sequence[Sweep],
) -> list[Figure]:
    sizes = sorted({_size(each) for sweep in swept for each in sweep.with_layer})
    alone = swept[0] if len(swept) == 1 else None
    live = live_memory(results, records, alone.program).bytes if alone else None
    labels = {size: [size_text(size), *([_times(size / live)] if live else [])] for size in sizes}
    across = "bytes held back; × the live memory" if live else "bytes held back"
    found = []
    for name, reference, steps, against in (
        ("delay", _no_delay, sizes, "1B"),
        ("layer", _bare, [_BARE, *sizes], "the bare allocator"),
    ):
        rows = summary_rows(summary.summarise_against(measurements, reference, results.run.seed))
        against_it = [replace(sweep, rows=rows) for sweep in swept]
        for metric in (TIME, MEMORY):
            panels = [sweep.panel(metric, _size, steps) for sweep in against_it]
            found.append(
                ratio_figure(
                    f"{name}-{metric}",
                    f"{METRICS[metric].title.capitalize()} of each delay, against {against}",
                    "Dot: ratio of the medians, filled if it differs; line: its 95% interval. "
                    "Above 1 is more. The steps are not to scale."
                    + (" Shaded: the noise floor." if any(each.floor for each in panels) else ""),
                    panels,
                    [labels.get(size, ["bare"]) for size in steps],
                    (across, f"{METRICS[metric].title}, relative to {against}"),
                )
            )
    if alone:
        found.append(_pause_figure(records, alone))
    return [figure for figure in found if figure is not None]


def _no_delay(manager: str) -> str:
    each = variant(manager)
    return each.changed(size=size_text(NO_DELAY)).name if each.layer == layer.NAME else manager


def _bare(manager: str) -> str:
    return variant(manager).allocator


def _pause_figure(records: Sequence[Record], sweep: Sweep) -> Figure | None:
    drawn = [
        (
            allocator,
            [
                pauses_of(
                    good_runs(records, STUDY, sweep.program, each.name),
                    lambda outcome: outcome.details_as(Details).delay.pause_histogram,
                    each.option("size"),
                )
                for each in group
                if each.layer
            ],
        )
        for allocator, group in sweep.groups.items()
    ]
    return pause_figure(
        "delay-pauses",
        "How long the collections took",
        "For each delay, the shares of its collections by how long they took, in powers of two, "
        "over all runs. Heights are square roots, so that rare ones show. Tick: the longest.",
        [(allocator, [row for row in rows if row.histogram]) for allocator, rows in drawn],
    )
