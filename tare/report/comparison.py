"""Tables, figures and findings of comparisons of managers, from their summary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tare.base.libraries import pl
from tare.base.statistics import FEWEST_FOR_INTERVAL, TOO_FEW_RUNS, Interval, verdict
from tare.base.units import format_floor, format_percent, format_ratio, format_value
from tare.records.coverage import NOTABLE, Covered
from tare.records.evidence import UNSEEN
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, counted, judged_status, read_records, reference_outputs
from tare.records.runs import Record
from tare.records.summary import Row, geometric_means
from tare.report.fields import (
    MANAGER,
    NOTHING,
    Field,
    R,
    entry,
    numbers,
    table,
    text,
    texts,
)
from tare.report.figures import comparison as figures
from tare.report.model import Cell, Figure, Section, Table

TIME = "wall_seconds"
MEMORY = "peak_resident_bytes"
ITERATION = "iteration_seconds"
_TONES = {"lower": "good", "higher": "bad", "no difference seen": "quiet"}
_DETAILS = (
    ITERATION,
    "processor_seconds",
    "user_seconds",
    "system_seconds",
    "minor_faults",
    "major_faults",
    "context_switches",
    "processes",
    "cpu_instructions",
    "cpu_cycles",
    "cache_misses",
    "tlb_misses",
)
_OF_COLLECTORS = (
    "collections",
    "full_collections",
    "collector_seconds",
    "max_pause_seconds",
    "collector_cpu_seconds",
    "stall_seconds",
    "heap_bytes",
    "max_used_after_bytes",
    "heap_allocated_bytes",
    "pauses",
    "pause_cpu_seconds",
    "mutator_seconds",
)
_ESSENTIAL_METRICS = 5
TABLES_ON_A_TERMINAL = 3
OF_TERMINALS = re.compile(r"\b(tty|terminal)\b", re.IGNORECASE)
NO_TERMINAL = (
    "a measured program has no terminal: its standard input is empty, and its output goes to a "
    "file. Give it the options for use in scripts, as in top -b or vim -es."
)
COLLECTIONS_TABLE = "table-collections"


def summary_rows(summary: pl.DataFrame) -> dict[tuple[str, str, str], Row]:
    """Rows of a summary by (program, manager, metric)."""
    return {(r["program"], r["manager"], r["metric"]): r for r in summary.iter_rows(named=True)}


def comparison_section(results: Results, summary: pl.DataFrame) -> Section:
    """The tables and figures of `tare compare`."""
    rows = summary_rows(summary)
    programs = list(dict.fromkeys(program for program, _, _ in rows))
    baseline = results.run.baseline
    measured = {manager for _, manager, _ in rows}
    managers = [manager for manager in results.run.managers if manager in measured]
    tables: list[Table] = []
    if len(programs) > 1:
        known = {metric for _, _, metric in rows}
        tables += [
            ratio_table(results, rows, programs, managers, metric)
            for metric in (ITERATION, TIME, MEMORY)
            if metric in known
        ]
    for number, program in enumerate(programs, 1):
        identifier = f"table-program-{number}"
        ranked = ranking(rows, program, managers, baseline)
        table = time_and_memory_table(rows, program, ranked, baseline, identifier)
        tables.append(replace(table, essential=len(programs) <= TABLES_ON_A_TERMINAL))
        if len(programs) == 1:
            tables.append(details_table(rows, program, ranked))
            if any((program, manager, "collector_seconds") in rows for manager in ranked):
                tables.append(collections_table(rows, program, ranked))
    return Section(
        identifier="compare",
        title="Time and memory under each manager",
        tables=tables,
        figures=comparison_figures(results, summary),
    )


def change(row: Row, what: str) -> str:
    """How much more or less of ``what`` a row shows than its reference, with the interval."""
    if row["verdict"] == TOO_FEW_RUNS:
        return f"too few runs to see a difference in {what}"
    if row["verdict"] not in ("lower", "higher") or row["ratio"] is None:
        return f"no difference in {what} seen{_possible(row)}"
    direction = "less" if row["ratio"] < 1 else "more"
    bounds = sorted((abs(1 - row["ratio_low"]), abs(1 - row["ratio_high"])))
    return (
        f"{format_percent(1 - row['ratio'])} {direction} {what} "
        f"({format_percent(bounds[0])} to {format_percent(bounds[1])})"
    )


def _possible(row: Row) -> str:
    """What the difference may be all the same: `` (7.0% less to 5.0% more)``."""
    if row["verdict"] != UNSEEN or row.get("ratio_low") is None:
        return ""
    each = [
        f"{format_percent(1 - row[bound])} {'less' if row[bound] < 1 else 'more'}"
        for bound in ("ratio_low", "ratio_high")
    ]
    return f" ({' to '.join(each)})" if each[0] != each[1] else ""


def ranking(
    rows: Mapping[tuple[str, str, str], Row], program: str, managers: Sequence[str], baseline: str
) -> list[str]:
    """The baseline, then the others from the fastest to the slowest, those without a time last."""

    def place(manager: str) -> tuple[bool, float]:
        row = rows.get((program, manager, TIME))
        known = row is not None and row["ratio"] is not None
        return (manager != baseline, row["ratio"] if row is not None and known else float("inf"))

    return sorted(managers, key=place)


def comparison_figures(results: Results, summary: pl.DataFrame) -> list[Figure]:
    rows = results.measurements
    mine = rows.filter(pl.col("study") == "compare")
    return figures.comparison_figures(mine if mine.height else rows, summary, results.run.baseline)


def time_and_memory_table(
    rows: Mapping[tuple[str, str, str], Row],
    program: str,
    managers: Sequence[str],
    baseline: str,
    identifier: str = "table-time-and-memory",
) -> Table:
    """One line per manager: median, ratio to the baseline and its interval, for time and memory."""
    floor = (rows.get((program, baseline, TIME)) or {}).get("noise_floor")
    faster = f"Median time divided by that under {baseline}; below 1 is faster."
    less = f"Median peak memory divided by that under {baseline}."

    def time(manager: str) -> Row | None:
        return rows.get((program, manager, TIME))

    def memory(manager: str) -> Row | None:
        return rows.get((program, manager, MEMORY))

    fields: list[Field[str]] = [
        texts("manager", MANAGER, str),
        *measured("time", METRICS[TIME].explanation + OF_ALL_RUNS, faster, time, INTERVAL),
        *measured("memory", METRICS[MEMORY].explanation + OF_ALL_RUNS, less, memory, INTERVAL),
        runs(time),
    ]
    notes = ["Coloured: a difference beyond noise; dim: no difference seen."]
    fewest = min((row["runs"] for (p, _, m), row in rows.items() if (p, m) == (program, TIME)))
    if fewest < FEWEST_FOR_INTERVAL:
        notes.append(
            f"With fewer than {FEWEST_FOR_INTERVAL} runs there is no 95% interval: the bounds are "
            "the extreme ratios of the runs."
        )
    if floor is not None:
        notes.append(
            f"Noise floor of the time: ratios from {format_floor(floor)} "
            f"({baseline} against itself, interleaved with the others)."
        )
    return table(identifier, program, managers, fields, notes)


INTERVAL = "95% interval of the ratio; with few runs, the extreme ratios."
OF_ALL_RUNS = " The median of all runs."


def measured_cells(row: Row | None) -> list[Cell]:
    """Median, ratio and interval of one metric, coloured by the verdict."""
    if row is None or row["median"] is None:
        return [NOTHING, NOTHING, NOTHING]
    tone = _TONES.get(row["verdict"], "")
    median = Cell(format_value(row["median"], row["unit"]), row["median"])
    if row["verdict"] == "baseline":
        return [median, Cell("1", 1.0), Cell("baseline", tone="quiet")]
    if row["ratio"] is None:
        return [median, NOTHING, NOTHING]
    return [
        median,
        Cell(format_ratio(row["ratio"]), row["ratio"], tone),
        Cell(
            f"{format_ratio(row['ratio_low'])} – {format_ratio(row['ratio_high'])}",
            row["ratio_low"],
            tone,
        ),
    ]


def details_table(
    rows: Mapping[tuple[str, str, str], Row], program: str, managers: Sequence[str]
) -> Table:
    """The other metrics, medians only."""
    fields: list[Field[str]] = [
        texts("manager", MANAGER, str),
        *_medians(_DETAILS, rows, program, managers),
    ]
    return table("table-details", "Other metrics (medians)", managers, fields)


def collections_table(
    rows: Mapping[tuple[str, str, str], Row], program: str, managers: Sequence[str]
) -> Table:
    """What managers that collect told of it, medians only."""
    fields: list[Field[str]] = [
        texts("manager", MANAGER, str),
        *_medians(_OF_COLLECTORS, rows, program, managers),
    ]
    return table(COLLECTIONS_TABLE, "Collections (medians)", managers, fields)


def _medians(
    metrics: Sequence[str],
    rows: Mapping[tuple[str, str, str], Row],
    program: str,
    managers: Sequence[str],
) -> list[Field[str]]:
    def median(metric: str) -> Field[str]:
        def value(manager: str) -> Cell:
            row = rows.get((program, manager, metric))
            if row is None or row["median"] is None:
                return NOTHING
            written = format_value(row["median"], row["unit"])
            return Cell(written, row["median"], _TONES.get(row["verdict"], ""))

        essential = metric in metrics[:_ESSENTIAL_METRICS]
        title, help = METRICS[metric].title, METRICS[metric].explanation
        return Field(title, help, value, essential=essential)

    known = [m for m in metrics if any((program, manager, m) in rows for manager in managers)]
    return list(map(median, known))


def ratio_table(
    results: Results,
    rows: Mapping[tuple[str, str, str], Row],
    programs: Sequence[str],
    managers: Sequence[str],
    metric: str,
) -> Table:
    """Programs down, managers across, ratios to the baseline inside, geometric means below."""
    baseline = results.run.baseline
    title = METRICS[metric].title

    def row_of(manager: str) -> Callable[[str], Row | None]:
        return lambda program: rows.get((program, manager, metric))

    others = [manager for manager in managers if manager != baseline]
    fields: list[Field[str]] = [
        texts("program", "", str),
        medians(baseline, f"Median {title} under the baseline.", row_of(baseline)),
        *(compared(m, f"{title} divided by that under {baseline}.", row_of(m)) for m in others),
    ]
    means = geometric_means(results.measurements, [metric], baseline, results.run.seed)
    by_manager = {row["manager"]: row for row in means.iter_rows(named=True)}
    notes = ["– : no figure. Coloured: a difference beyond noise; dim: no difference seen."]
    below: list[list[Cell]] = []
    if by_manager:
        count = next(iter(by_manager.values()))["programs"]
        found = [by_manager.get(manager) for manager in others]
        below = [_mean_line(f"geometric mean of {count}", map(ratio_cell, found))]
        if min(mean["runs"] for mean in by_manager.values()) >= FEWEST_FOR_INTERVAL:
            below.append(_mean_line("± half its 95% interval", map(_half_interval, found)))
        if count < len(programs):
            notes.append(
                f"The mean is over the {count} of {len(programs)} programs that have a figure "
                "under every manager."
            )
    named = f"{title}, relative to {baseline}"
    made = table(f"table-ratio-{metric}", named, programs, fields, notes)
    return replace(made, rows=[*made.rows, *below])


def seen_mean(mean: Row) -> Row:
    """A geometric mean with the verdict that its interval allows."""
    ratio = Interval(mean["ratio"], mean["ratio_low"], mean["ratio_high"])
    return {**mean, "verdict": verdict(ratio, None, mean["runs"])}


def _mean_line(title: str, cells: Iterable[Cell]) -> list[Cell]:
    return [Cell(title), Cell(""), *cells]


def _half_interval(mean: Row | None) -> Cell:
    if mean is None:
        return NOTHING
    half = (mean["ratio_high"] - mean["ratio_low"]) / 2 / mean["ratio"]
    return Cell(f"± {format_percent(half)}", half)


Summarised = str | Callable[[R], Row | None]
"""Where a row of a table has one of a summary."""


def medians(title: str, help: str, value: Summarised[R], *, essential: bool = True) -> Field[R]:
    """A field of the medians, in their unit."""
    return Field(title, help, lambda row: measured_cells(entry(row, value))[0], True, essential)


def measured(
    title: str, help: str, against: str, value: Summarised[R], interval: str = "Of the ratio."
) -> list[Field[R]]:
    """The fields of ``measured_cells``; ``against`` explains the ratio."""
    return [
        medians(title, help, value),
        Field("ratio", against, lambda row: measured_cells(entry(row, value))[1]),
        Field("95% interval", interval, lambda row: measured_cells(entry(row, value))[2], False),
    ]


def compared(title: str, help: str, value: Summarised[R]) -> Field[R]:
    """A field of the ratios alone, coloured by the verdict."""
    return Field(title, help, lambda row: ratio_cell(entry(row, value)))


def runs(value: Summarised[R], *, essential: bool = False) -> Field[R]:
    """A field of how many good runs there were."""

    def number(row: R) -> int:
        return (entry(row, value) or {}).get("runs", 0)  # type: ignore[no-any-return]

    return numbers("runs", "Runs counted.", number, essential=essential)


def ratio_cell(row: Row | None) -> Cell:
    """The ratio of one metric, coloured by the verdict."""
    if row is None or row["ratio"] is None:
        return NOTHING
    tone = _TONES.get(row.get("verdict", ""), "")
    return Cell(format_ratio(row["ratio"]), row["ratio"], tone)


def failure_tables(results: Results, study: str = "") -> list[Table]:
    """Runs, of one study or of all, that gave no figure, and why; no table when there was none."""
    records = counted(read_records(results.folder))
    references = reference_outputs(results.run, records)
    counts: Counter[tuple[str, str, Status, str]] = Counter()
    for record in records:
        if study and record.run.study != study:
            continue
        status = judged_status(record, references)
        if status is not Status.OK:
            counts[record.run.program, record.run.manager, status, _reason(record, status)] += 1
    if not counts:
        return []
    fields: list[Field[Row]] = [
        texts("program", "", "program", essential=False),
        texts("manager", "", "manager"),
        Field("status", "How the runs ended.", lambda row: text(row["status"], "bad"), False),
        numbers("runs", "Runs with this status and reason.", "runs"),
        texts("why", "", "why"),
    ]
    rows = [
        {"program": program, "manager": manager, "status": str(status), "why": why, "runs": number}
        for (program, manager, status, why), number in counts.items()
    ]
    notes = [NO_TERMINAL] if any(OF_TERMINALS.search(why) for *_, why in counts) else []
    return [table("table-failures", "Failed runs", rows, fields, notes)]


def _reason(record: Record, status: Status) -> str:
    if status is Status.WRONG_OUTPUT:
        return "its standard output differs from the expected one (see outputs/)"
    last = next((x for x in reversed(record.outcome.error_tail.splitlines()) if x.strip()), "")
    return record.outcome.reason + (f": {last.strip()[:160]}" if last else "")


def coverage_warnings(results: Results) -> list[str]:
    """What a reader must know before trusting the figures, each with the programs it is about."""
    records = counted(read_records(results.folder))
    references = reference_outputs(results.run, records)
    found: dict[str, list[str]] = {}
    for program in results.run.programs:
        mine = [r for r in records if r.run.program == program.name]
        comparable = program.ignore_output or references.get(program.name) is not None
        for caution in _cautions(mine, results.run.baseline, comparable):
            found.setdefault(caution, []).append(program.name)
    return [f"{caution}: {', '.join(programs)}" for caution, programs in found.items()]


def _partly_covered(records: Sequence[Record], baseline: str) -> str:
    """What the program has elsewhere, where the baseline does not serve nearly all of it."""
    for record in records:
        if record.run.manager == baseline and record.outcome.status is Status.OK:
            found = record.outcome.details_as(Covered).coverage
            if found is not None and found.share < NOTABLE:
                return found.told(baseline)
    return ""


def _cautions(records: Sequence[Record], baseline: str, comparable: bool) -> Iterator[str]:
    outcomes = [record.outcome for record in records]
    if any(outcome.silent_processes for outcome in outcomes):
        yield (
            "Some child processes did not show which malloc serves them (static, privileged or "
            "started without their environment: no manager can serve those)"
        )
    if partly := _partly_covered(records, baseline):
        yield partly
    yield from sorted(
        {
            each.told
            for outcome in outcomes
            for each in outcome.details_as(Covered).own_allocators
            if each.is_redirected
        }
    )
    if any(outcome.left_behind for outcome in outcomes):
        yield "Processes were still running at the end, and were killed"
    if any(outcome.memory_is_sampled for outcome in outcomes):
        yield "Several processes, so the peak memory of the tree is sampled every 10 ms"
    ran = any(r.outcome.status is Status.OK and r.run.manager == baseline for r in records)
    if ran and not comparable:
        yield (
            "Output differs from run to run, so it was not compared (--ignore-output declares this)"
        )
