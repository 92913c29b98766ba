"""The study behind `tare frequency`: what collecting more or less often does to the program itself.

Each allocator M runs bare, and under `marksweep(M, every=…, reclaim=…)`: never collecting, tracing
only (`reclaim=0`), and reclaiming at each Nth trace, with several periods. Mutator time is wall
time without the collections, so what is left of a period's effect is indirect: caches that a trace
displaced, and memory that is used again sooner or later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tare.base.libraries import pl
from tare.base.units import format_percent, parse_size
from tare.campaign import rounds
from tare.memory_managers.layers import marksweep as layer
from tare.records import summary
from tare.records.metrics import METRICS
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.records.summary import Row
from tare.report.comparison import (
    MEMORY,
    OF_ALL_RUNS,
    TIME,
    compared,
    measured,
    measured_cells,
    medians,
    runs,
)
from tare.report.fields import Field, numbers, table, texts
from tare.report.model import Cell, Figure, Section, Table
from tare.studies.frequency.details import Details
from tare.studykit import sweeps
from tare.studykit.sweep_tables import (
    Curve,
    Panel,
    Sweep,
    effect,
    good_runs,
    pause_fields,
    pause_figure,
    pauses_of,
    ratio_figure,
    sweeps_of,
    with_pauses,
)
from tare.studykit.sweeps import Variant, size_text, variant

STUDY = "frequency"
TITLE = "How often to collect"
MUTATOR = "mutator_seconds"
NEVER = "never"
TRACE_ONLY = 0
EACH_TIME = 1
DEFAULT_ALLOCATORS = ("glibc",)
DEFAULT_PERIODS = (256 << 10, 1 << 20, 4 << 20, 16 << 20)
DEFAULT_RECLAIM = (EACH_TIME, 4, 16)
_PUBLISHED = (
    "Published for mimalloc behind a collector of Java's DaCapo programs (Sareen and Blackburn, "
    "MPLR 2022, section 5): periods of 8, 16 and 32 MB hardly change the mutator's time; three "
    "programs gain more than 1% from longer periods, through later reclamation and not through "
    "fewer traces."
)


# ---- what runs ----


def variants(
    allocators: Sequence[str], periods: Sequence[int], reclaim: Sequence[int]
) -> list[Variant]:
    """Each allocator bare, then under the layer without collections, then with each period: tracing
    only, reclaiming each time, and at each Nth time."""
    found = []
    for allocator in allocators:
        never = sweeps.layered(allocator, layer.NAME, {"every": NEVER})
        found += [Variant(allocator), never]
        for period in sweeps.ascending(set(periods)):
            for number in sorted({TRACE_ONLY, EACH_TIME, *reclaim}):
                found.append(never.changed(every=size_text(period), reclaim=str(number)))
    return found


def reference_of(manager: str) -> str:
    """What a manager of the study is held against: reclaiming against tracing only in the same
    period, tracing against not collecting, and that against the allocator."""
    each = variant(manager)
    if not each.layer:
        return manager
    if each.option("every") == NEVER:
        return each.allocator
    if _reclaim(each) == TRACE_ONLY:
        return _never(each).name
    return each.changed(reclaim=str(TRACE_ONLY)).name


def _never(each: Variant) -> Variant:
    others = {name: value for name, value in each.options if name not in ("every", "reclaim")}
    return sweeps.layered(each.allocator, each.layer, {"every": NEVER, **others})


def _period(each: Variant) -> int:
    return parse_size(each.option("every"))


def _reclaim(each: Variant) -> int:
    return int(each.option("reclaim") or EACH_TIME)


def _collects(each: Variant) -> bool:
    return bool(each.layer) and each.option("every") != NEVER


def references(managers: Sequence[str]) -> tuple[str, ...]:
    """What others are held against: they run as often as a baseline."""
    return tuple(name for name in managers if variant(name).option("every") == NEVER)


next_round = partial(rounds.next_round, study=STUDY)


# ---- what it shows ----


summarise = summary.by_reference(reference_of)


def section(results: Results) -> Section:
    """Findings, tables and figures of a results folder."""
    records = read_records(results.folder)
    mine = results.measurements.filter(results.measurements["study"] == STUDY)
    groups = _groups(results, mine)
    periods = sorted({_period(e) for group in groups.values() for e in group if _collects(e)})
    shortest = size_text(periods[0]) if periods else ""

    def against(reference: Callable[[str], str]) -> list[Sweep]:
        return sweeps_of(summary.summarise_against(mine, reference, results.run.seed), groups)

    swept = against(reference_of)
    by_period = against(lambda name: _with(name, every=shortest))
    by_reclaim = against(lambda name: _with(name, reclaim=str(EACH_TIME)))
    tables: list[Table] = []
    sentences: list[str] = []
    figures: list[Figure | None] = []
    for number, each in enumerate(zip(swept, by_period, by_reclaim, strict=True), 1):
        sweep = each[0]
        sentences += [sweep.named + sentence for sentence in findings(*each)]
        tables += [
            period_table(sweep, f"table-periods-{number}"),
            layer_table(sweep, f"table-layer-{number}"),
            pause_table(sweep, f"table-pauses-{number}"),
        ]
        if len(swept) == 1:
            figures = [
                *_direct_figures(sweep, periods),
                *_relative_figures(*each[1:], periods),
                _pause_figure(records, sweep),
            ]
    if any(row["runs"] for sweep in swept[:1] for row in sweep.rows.values()):
        sentences.append(_PUBLISHED)
    else:
        sentences = ["No run succeeded."]
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=sentences,
        tables=tables,
        figures=[figure for figure in figures if figure is not None],
    )


def _groups(results: Results, measurements: pl.DataFrame) -> dict[str, list[Variant]]:
    """The variants of each allocator, in the order of the study."""
    order = {name: place for place, name in enumerate(results.run.managers)}
    names = sorted(dict.fromkeys(measurements["manager"]), key=lambda name: order.get(name, 0))
    return sweeps.by_allocator(names)


def _with(manager: str, **options: str) -> str:
    """The manager with other options, if it collects at all."""
    each = variant(manager)
    return each.changed(**options).name if _collects(each) else manager


def _label(each: Variant) -> str:
    return size_text(_period(each))


def _seen(
    sweep: Sweep, group: Sequence[Variant], metric: str, reclaim: int
) -> list[tuple[str, Row]]:
    """The rows with ratios of the variants that reclaim at each such trace, by their period."""
    return [
        (_label(each), row)
        for each in group
        if _collects(each)
        and _reclaim(each) == reclaim
        and (row := sweep.row(each, metric)) is not None
        and row["ratio"] is not None
        and row["verdict"] != "baseline"
    ]


def findings(sweep: Sweep, by_period: Sweep, by_reclaim: Sweep) -> list[str]:
    """What tracing, reclaiming and the two periods change, a paragraph for each allocator."""
    what = METRICS[MUTATOR].title
    paragraphs = []
    for allocator, group in sweep.groups.items():
        sentences = []
        if traced := _seen(sweep, group, MUTATOR, TRACE_ONLY):
            sentences.append(
                f"Under {allocator}, tracing without reclaiming, compared with no collections: "
                f"{effect(traced, what, 'every')}."
            )
        if reclaimed := _seen(sweep, group, MUTATOR, EACH_TIME):
            memory = _seen(sweep, group, MEMORY, EACH_TIME)
            sentences.append(
                f"Reclaiming at each trace, compared with tracing only: "
                f"{effect(reclaimed, what, 'every')}; {effect(memory, 'memory', 'every')}."
            )
        if longer := _seen(by_period, group, MUTATOR, EACH_TIME):
            sentences.append(
                f"Longer periods, compared with the shortest ({_shortest(group)}), reclaiming at "
                f"each trace: {effect(longer, what, 'every')}."
            )
        rarer = [
            (f"{label} × {number}", row)
            for number in sorted({_reclaim(each) for each in group if _collects(each)})
            if number > EACH_TIME
            for label, row in _seen(by_reclaim, group, MUTATOR, number)
        ]
        if rarer:
            sentences.append(
                "Reclaiming at every Nth trace only, compared with every trace: "
                f"{effect(rarer, what, 'every')}."
            )
        if sentences := [*sentences, *_collecting(sweep, group)]:
            paragraphs.append(" ".join(sentences))
    return paragraphs


def _shortest(group: Sequence[Variant]) -> str:
    return size_text(min(_period(each) for each in group if _collects(each)))


def _collecting(sweep: Sweep, group: Sequence[Variant]) -> list[str]:
    shares = {}
    for each in group:
        if _collects(each) and _reclaim(each) == EACH_TIME:
            wall, collecting = (
                measured_cells(sweep.row(each, metric))[0].key
                for metric in (TIME, "collector_seconds")
            )
            if isinstance(wall, float) and isinstance(collecting, float):
                shares[_label(each)] = collecting / wall
    if not shares:
        return []
    texts = [f"{format_percent(share)} every {label}" for label, share in shares.items()]
    return [f"Share of the wall time in collections: {', '.join(texts)}."]


def period_table(sweep: Sweep, identifier: str) -> Table:
    """A line for each allocator, period and reclamation: mutator time, against what differs in one
    thing only."""
    reference = (
        "Of tracing only (reclaim 0): median divided by that without collections. Of the others: "
        "divided by that of tracing only in the same period."
    )
    mutator, wall, memory = sweep.of(MUTATOR), sweep.of(TIME), sweep.of(MEMORY)

    def related(each: Variant) -> Row | None:
        """Without a ratio where there is no reference."""
        row = mutator(each)
        return row if row is None or _collects(each) else {**row, "verdict": "", "ratio": None}

    fields: list[Field[Variant]] = [
        *_SETTING,
        *measured("mutator", METRICS[MUTATOR].explanation + OF_ALL_RUNS, reference, related),
        medians("wall time", METRICS[TIME].explanation, wall, essential=False),
        medians("memory", METRICS[MEMORY].explanation + OF_ALL_RUNS, memory),
        compared("ratio", reference, lambda each: memory(each) if _collects(each) else None),
        runs(wall),
    ]
    notes = [
        "ratios of tracing only (reclaim 0) are to no collections (never), those of reclaiming to "
        "tracing only in the same period.",
        "coloured: a difference beyond noise; dim: no difference seen. Where nothing differs, one "
        "95% interval in twenty misses 1 by chance.",
    ]
    title = f"Mutator time and memory: {sweep.program}"
    return table(identifier, title, sweep.with_layer, fields, notes)


def _period_cell(each: Variant) -> Cell:
    return Cell(_label(each), _period(each)) if _collects(each) else Cell(NEVER, float("inf"))


_SETTING: Sequence[Field[Variant]] = (
    texts("manager", "The allocator under the collector.", lambda each: each.allocator),
    Field("every", "Bytes allocated between two collections.", _period_cell),
    numbers(
        "reclaim",
        "Objects are freed at every Nth collection; 0: never, it only traces.",
        lambda each: _reclaim(each) if _collects(each) else None,
    ),
)


def layer_table(sweep: Sweep, identifier: str) -> Table:
    """A line for each allocator: what the layer changes that never collects, and never frees."""
    never, alone = "under the layer that never collects.", "under the allocator alone."
    time, memory = sweep.of(TIME), sweep.of(MEMORY)
    second = "Divided by the bare time."
    fields: list[Field[Variant]] = [
        texts("manager", "The allocator under the layer.", lambda each: each.allocator),
        medians(
            "bare time",
            f"Median wall time {alone}",
            lambda each: sweep.rows.get((sweep.program, each.allocator, TIME)),
        ),
        *measured("time", f"Median wall time {never}", second, time),
        *measured("memory", f"Median peak memory {never}", f"Divided by that {alone}", memory),
    ]
    shown = [each for each in sweep.with_layer if not _collects(each)]
    notes = [
        "under the layer the program's own frees have no effect: this saves their time, and costs "
        "memory."
    ]
    title = f"The layer itself, never collecting, against the bare allocator: {sweep.program}"
    return table(identifier, title, shown, fields, notes)


def pause_table(sweep: Sweep, identifier: str) -> Table:
    """A line for each allocator, period and reclamation: how often, how long, how much."""
    marked, swept = "marked_bytes", "swept_bytes"
    fields = [
        *_SETTING,
        *pause_fields(sweep),
        medians("marked", METRICS[marked].explanation, sweep.of(marked)),
        medians("swept", METRICS[swept].explanation, sweep.of(swept)),
    ]
    shown = [each for each in with_pauses(sweep) if _collects(each)]
    notes = ["medians of the runs."]
    return table(identifier, f"Collections: {sweep.program}", shown, fields, notes, essential=False)


# ---- figures ----


_DOTS = (
    "Dot: ratio of the medians, filled if it differs; line: its 95% interval. The steps are not "
    "to scale."
)


def _direct_figures(sweep: Sweep, periods: Sequence[int]) -> list[Figure | None]:
    figures = []
    for identifier, title, number, against in (
        ("tracing", "What traces that reclaim nothing cost", TRACE_ONLY, "relative to none"),
        ("reclaiming", "What reclaiming at each trace changes", EACH_TIME, "relative to tracing"),
    ):
        curves = [
            _curve(sweep, allocator, group, periods, number)
            for allocator, group in sweep.groups.items()
        ]
        panel = Panel(sweep.program, curves, _floor(sweep, number))
        figures.append(
            ratio_figure(
                f"frequency-{identifier}",
                title,
                _DOTS + (" Shaded: the noise floor." if panel.floor else ""),
                [panel],
                [[size_text(period)] for period in periods],
                ("bytes allocated between collections", f"mutator time, {against}"),
            )
        )
    return figures


def _curve(
    sweep: Sweep, name: str, group: Sequence[Variant], periods: Sequence[int], reclaim: int
) -> Curve:
    by_period = {
        _period(each): sweep.row(each, MUTATOR)
        for each in group
        if _collects(each) and _reclaim(each) == reclaim
    }
    return Curve(name, [by_period.get(period) for period in periods])


def _floor(sweep: Sweep, reclaim: int) -> float | None:
    """The noise floor where all dots share one: of a single allocator, against no collections."""
    if len(sweep.groups) > 1 or reclaim != TRACE_ONLY:
        return None
    (group,) = sweep.groups.values()
    return next((row["noise_floor"] for _, row in _seen(sweep, group, MUTATOR, reclaim)), None)


def _relative_figures(
    by_period: Sweep, by_reclaim: Sweep, periods: Sequence[int]
) -> list[Figure | None]:
    numbers = sorted({_reclaim(each) for each in by_period.with_layer if _collects(each)})
    reclaiming = [number for number in numbers if number != TRACE_ONLY]
    over_periods = [
        Panel(
            allocator,
            [_curve(by_period, _told(number), group, periods, number) for number in numbers],
        )
        for allocator, group in by_period.groups.items()
    ]
    over_reclaim = [
        Panel(
            allocator,
            [
                Curve(f"every {size_text(period)}", [rows.get(number) for number in reclaiming])
                for period in periods
                if (rows := _by_reclaim(by_reclaim, group, period))
            ],
        )
        for allocator, group in by_reclaim.groups.items()
    ]
    found = [
        ratio_figure(
            "frequency-period",
            "Mutator time against the collection period",
            f"Each line is relative to its own shortest period. {_DOTS}",
            over_periods,
            [[size_text(period)] for period in periods],
            (
                "bytes allocated between collections",
                f"mutator time, relative to every {size_text(periods[0])}" if periods else "",
            ),
        )
    ]
    if len(reclaiming) > 1:
        found.append(
            ratio_figure(
                "frequency-reclamation",
                "Mutator time against the reclamation period",
                f"Each line is relative to reclaiming at each collection. {_DOTS}",
                over_reclaim,
                [[str(number)] for number in reclaiming],
                ("collections for each one that reclaims", "mutator time, relative to 1"),
            )
        )
    return found


def _told(reclaim: int) -> str:
    match reclaim:
        case 0:
            return "traces only"
        case 1:
            return "each reclaims"
        case _:
            return f"one in {reclaim} reclaims"


def _by_reclaim(sweep: Sweep, group: Sequence[Variant], period: int) -> dict[int, Row | None]:
    return {
        _reclaim(each): sweep.row(each, MUTATOR)
        for each in group
        if _collects(each) and _period(each) == period
    }


def _pause_figure(records: Sequence[Record], sweep: Sweep) -> Figure | None:
    drawn = []
    for allocator, group in sweep.groups.items():
        rows = [
            pauses_of(
                good_runs(records, STUDY, sweep.program, each.name),
                lambda outcome: outcome.details_as(Details).marksweep.pause_histogram,
                _label(each),
            )
            for each in group
            if _collects(each) and _reclaim(each) == EACH_TIME
        ]
        drawn.append((allocator, [row for row in rows if row.histogram]))
    return pause_figure(
        "frequency-pauses",
        "How long the collections took",
        "For each period, reclaiming at each collection: the shares of the collections by how long "
        "they took, in powers of two, over all runs. Heights are square roots, so that rare ones "
        "show. Tick: the longest.",
        drawn,
    )
