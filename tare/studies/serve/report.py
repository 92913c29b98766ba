"""The study behind `tare serve`: a service under load, under each manager.

Starts take turns in random order, the baseline twice a round, as those of `tare compare`. A value
of a start is the median of its loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tare.base.libraries import pl
from tare.base.statistics import FEWEST_FOR_INTERVAL, TOO_FEW_RUNS
from tare.base.units import format_percent
from tare.campaign import rounds
from tare.records.header import Amount, Header
from tare.records.metrics import METRICS, Status
from tare.records.results import Results, counted, read_records
from tare.records.runs import Record
from tare.records.summary import Row, geometric_means, summarise
from tare.report.comparison import (
    TABLES_ON_A_TERMINAL,
    change,
    collections_table,
    measured,
    medians,
    ratio_table,
    runs,
    seen_mean,
    summary_rows,
)
from tare.report.fields import MANAGER, Field, Kind, table, texts
from tare.report.figures.percentiles import Percentiles, percentile_figure
from tare.report.model import Figure, Section, Table
from tare.studies.serve.details import Details, Served
from tare.studies.serve.figures import memory_figure, rates_figure
from tare.studies.serve.growing import grown, growth_figure, growth_findings, growth_table
from tare.studies.serve.loads import known_loads
from tare.studykit.printed import NUMBER, PERCENTILES, RATE, more_is_better, turned
from tare.studykit.safety import safety_tables

STUDY = "serve"
_LOAD_TIME = "load_seconds"
_IDLE, _LOADED = "idle_resident_bytes", "loaded_resident_bytes"
_UNSENT = "unsent_requests"
_MORE = (
    NUMBER,
    "service_p50_seconds",
    "service_p99_seconds",
    _UNSENT,
    _LOADED,
    _LOAD_TIME,
    "load_processor_seconds",
    "load_minor_faults",
    "peak_resident_bytes",
    "ready_seconds",
)
_BY_PERCENTILE = Percentiles("latency", "Latency by percentile", PERCENTILES, "starts")


class ServeRun(Header, frozen=True, kw_only=True):
    """With the rate at which each server is asked, where there are several."""

    rates: dict[str, Amount] | None = None


_Rows = dict[tuple[str, str, str], Row]

next_round = partial(rounds.next_round, study=STUDY, observer=STUDY)


def told_by_all(measurements: pl.DataFrame) -> pl.DataFrame:
    """Without percentiles that a load left out in some starts under a manager: the median of the
    other starts could be above that of the longest latencies."""
    percentiles = measurements.filter(pl.col("metric").is_in(list(PERCENTILES)))
    starts = percentiles.group_by("program", "manager", "metric").len()
    partly = starts.filter(pl.col("len") < pl.col("len").max().over("program", "manager"))
    return measurements.join(partly, on=["program", "manager", "metric"], how="anti")


def section(results: Results) -> Section:
    """What the services did under each manager: in sentences, tables and figures."""
    run = results.run
    summary = summarise(told_by_all(results.measurements), run.baseline, run.seed)
    rows: _Rows = summary_rows(summary)
    records = read_records(results.folder)
    programs = list(dict.fromkeys(program for program, _, _ in rows))
    rates = results.run_as(ServeRun).rates or {}
    is_one = len(programs) == 1 or bool(rates)
    parts = []
    for number, program in enumerate(programs, 1):
        mine = {key: row for key, row in rows.items() if key[0] == program}
        managers = [name for name in run.managers if any(each == name for _, each, _ in mine)]
        good = [
            record
            for record in counted(records)
            if (record.run.study, record.run.program) == (STUDY, program)
            and record.outcome.status is Status.OK
        ]
        parts.append(
            _Part(
                _Of(mine, program, managers, run.baseline),
                good,
                "" if len(programs) == 1 else f"-{number}",
                f"At {rates[program]:g}/s" if program in rates else program,
                is_one or len(programs) <= TABLES_ON_A_TERMINAL,
            )
        )
    return Section(
        identifier=STUDY,
        title="The service under load" if is_one else "The services under load",
        findings=[
            *([] if is_one else _in_the_mean(results, rows)),
            *(found for part in parts for found in part.findings(judged=is_one)),
        ],
        tables=[
            *([] if is_one else _over_services(results, rows, programs)),
            *_by_rate(results, rows, programs),
            *(table for part in parts for table in part.tables()),
            *safety_tables(results, STUDY, records),
        ],
        figures=[
            *_of_rates(results, rows, programs),
            *(figure for part in parts for figure in part.figures(summary)),
        ],
    )


def _known(rows: _Rows) -> set[str]:
    return {metric for (_, _, metric), row in rows.items() if row["median"] is not None}


def _over_services(results: Results, rows: _Rows, programs: Sequence[str]) -> Iterator[Table]:
    """What is judged, of all services: a table for each metric, programs down, managers across."""
    managers = [name for name in results.run.managers if any(each == name for _, each, _ in rows)]
    for metric in _judged(_known(rows)):
        made = ratio_table(results, rows, programs, managers, metric)
        yield turned(made) if metric == RATE else made


def _in_the_mean(results: Results, rows: _Rows) -> list[str]:
    """One sentence a manager, from the geometric means over the services."""
    run, known = results.run, _known(rows)
    means = geometric_means(results.measurements, list(_judged(known)), run.baseline, run.seed)
    found = {(row["manager"], row["metric"]): seen_mean(row) for row in means.iter_rows(named=True)}
    others = [manager for manager in run.managers if manager != run.baseline]
    of_services = _sentences(
        others, run.baseline, _judged(known), lambda metric, manager: found.get((manager, metric))
    )
    return [f"In the mean of the services, {each}" for each in of_services]


@dataclass(frozen=True)
class _AtRate:
    program: str
    rate: float


def _rungs(results: Results, programs: Sequence[str]) -> list[_AtRate]:
    rates = results.run_as(ServeRun).rates or {}
    found = [_AtRate(name, float(rates[name])) for name in programs if name in rates]
    return sorted(found, key=lambda each: each.rate)


def _by_rate(results: Results, rows: _Rows, programs: Sequence[str]) -> Iterator[Table]:
    """A line for each rate, with the latency under each manager."""
    rungs, baseline = _rungs(results, programs), results.run.baseline
    metric = _tail(_known(rows))
    if not rungs or not metric:
        return

    def row(manager: str, what: str, rung: _AtRate) -> Row | None:
        return rows.get((rung.program, manager, what))

    title, words = METRICS[metric].title, METRICS[metric].explanation
    fields: list[Field[_AtRate]] = [
        Kind("{:g}".format)("rate", "Requests due in a second.", lambda rung: rung.rate),
        medians(baseline, words, partial(row, baseline, metric)),
    ]
    for manager in results.run.managers:
        if manager != baseline:
            against = f"Divided by that under {baseline}."
            fields += measured(manager, words, against, partial(row, manager, metric))
    fields += [
        medians(f"unsent, {manager}", METRICS[_UNSENT].explanation, partial(row, manager, _UNSENT))
        for manager in results.run.managers
    ]
    yield table("table-rates", f"{title[0].upper()}{title[1:]} by rate", rungs, fields)


def _of_rates(results: Results, rows: _Rows, programs: Sequence[str]) -> Iterator[Figure]:
    rungs = _rungs(results, programs)
    metric = _tail(_known(rows))
    if len(rungs) > 1 and metric:
        found = {
            manager: [
                (rung.rate, row)
                for rung in rungs
                if (row := rows.get((rung.program, manager, metric))) and row["median"]
            ]
            for manager in results.run.managers
        }
        figure = rates_figure(found, METRICS[metric].title)
        if figure is not None:
            yield figure


class _Of:
    """The rows of a summary, of one program."""

    def __init__(self, rows: _Rows, program: str, managers: Sequence[str], baseline: str) -> None:
        self.rows, self.program = rows, program
        self.managers, self.baseline = managers, baseline
        self.others = [manager for manager in managers if manager != baseline]

    def row(self, metric: str, manager: str) -> Row | None:
        return self.rows.get((self.program, manager, metric))


@dataclass(frozen=True)
class _Part:
    """What is shown of one program; ``good`` are its runs with figures. ``suffix`` is that of its
    identifiers, "" where it is the only one, else its ``label`` goes before titles. ``essential``:
    its first table is for terminals, too."""

    of: _Of
    good: Sequence[Record]
    suffix: str
    label: str
    essential: bool

    @property
    def known(self) -> set[str]:
        return _known(self.of.rows)

    def findings(self, *, judged: bool) -> list[str]:
        """``judged``: with a sentence for each manager."""
        of = self.of
        of_managers = _sentences(of.others, of.baseline, _judged(self.known), of.row)
        long = grown(_starts(self.good, of.managers))
        found = [*growth_findings(long), *_notes(self.good)]
        found = [*of_managers, *found] if judged else found
        return [f"{self.label}: {each}" for each in found] if self.suffix else found

    def tables(self) -> Iterator[Table]:
        known = self.known
        if not known:
            return
        title = f"{self.label}: " if self.suffix else ""
        heading = f"{title}under load" if title else "Under load"
        first = _first_table(self.of, known, heading, self.suffix)
        yield replace(first, essential=self.essential)
        latencies = [metric for metric in PERCENTILES if metric in known]
        wanted = (("Latencies", latencies), ("Other metrics", [m for m in _MORE if m in known]))
        for what, metrics in wanted:
            if metrics:
                identifier = f"table-{what.split()[0].lower()}{self.suffix}"
                made = _medians_table(identifier, f"{title}{what} (medians)", self.of, metrics)
                yield replace(made, essential=not self.suffix)
        if "collections" in known:
            yield collections_table(self.of.rows, self.of.program, self.of.managers)

        if long := grown(_starts(self.good, self.of.managers)):
            yield growth_table(long, self.suffix, title)

    def figures(self, summary: pl.DataFrame) -> Iterator[Figure]:
        of = self.of
        mine = summary.filter(pl.col("program") == of.program)
        for figure in (
            percentile_figure(mine, of.managers, _BY_PERCENTILE),
            memory_figure(_typical(self.good, of.managers)),
            growth_figure(long) if (long := grown(_starts(self.good, of.managers))) else None,
        ):
            if figure is not None:
                title = f"{self.label}: {figure.title}" if self.suffix else figure.title
                yield replace(figure, identifier=figure.identifier + self.suffix, title=title)


def _speed(known: set[str]) -> str:
    return RATE if RATE in known else _LOAD_TIME


def _tail(known: set[str]) -> str:
    """The latency that is judged: p99, or what is nearest to it."""
    for metric in ("latency_p99_seconds", "latency_p90_seconds", "latency_max_seconds"):
        if metric in known:
            return metric
    return ""


def _judged(known: set[str]) -> dict[str, str]:
    """The metrics that managers are judged by, as sentences name them."""
    words = {_speed(known): "requests per second" if RATE in known else "time for the load"}
    if tail := _tail(known):
        words[tail] = METRICS[tail].title.removeprefix("latency ")
    words[_IDLE] = "memory when idle"
    return {metric: what for metric, what in words.items() if metric in known}


def _first_table(of: _Of, known: set[str], title: str, suffix: str) -> Table:
    fields: list[Field[str]] = [texts("manager", MANAGER, str)]
    for metric in _judged(known):
        found = measured(
            METRICS[metric].title,
            METRICS[metric].explanation,
            f"Divided by that under {of.baseline}.",
            partial(of.row, metric),
        )
        fields += [more_is_better(each) for each in found] if metric == RATE else found
    fields.append(runs(partial(of.row, _IDLE)))
    notes = ["Coloured: a difference beyond noise; dim: no difference seen."]
    fewest = min(
        (row["runs"] for manager in of.managers if (row := of.row(_IDLE, manager)) is not None),
        default=0,
    )
    if fewest < FEWEST_FOR_INTERVAL:
        notes.append(
            f"With fewer than {FEWEST_FOR_INTERVAL} starts there is no 95% interval: the bounds "
            "are the extreme ratios of the starts."
        )
    return table(f"table-serve{suffix}", title, of.managers, fields, notes)


def _medians_table(identifier: str, title: str, of: _Of, metrics: Sequence[str]) -> Table:
    fields: list[Field[str]] = [texts("manager", MANAGER, str)]
    fields += [
        medians(METRICS[metric].title, METRICS[metric].explanation, partial(of.row, metric))
        for metric in metrics
    ]
    return table(identifier, title, of.managers, fields)


def _sentences(
    managers: Sequence[str],
    baseline: str,
    words: Mapping[str, str],
    row_of: Callable[[str, str], Row | None],
) -> list[str]:
    """One a manager: what it changes, beyond noise or not. ``words`` name the metrics; ``row_of``
    gives that of a metric and a manager, of a summary or a mean."""
    sentences = []
    for manager in managers:
        found = [
            (row, what, metric)
            for metric, what in words.items()
            if (row := row_of(metric, manager)) and row.get("median", row["ratio"]) is not None
        ]
        parts = [_changed(*each) for each in found if each[0]["verdict"] != TOO_FEW_RUNS]
        few = [what for row, what, _ in found if row["verdict"] == TOO_FEW_RUNS]
        if few:
            parts.append(f"too few starts to see a difference in {' or '.join(few)}")
        if parts:
            sentences.append(f"{manager} against {baseline}: {', '.join(parts)}.")
    return sentences


def _changed(row: Row, what: str, metric: str) -> str:
    if metric.startswith("latency") and row["verdict"] in ("lower", "higher"):
        longer = "shorter" if row["ratio"] < 1 else "longer"
        bounds = sorted((abs(1 - row["ratio_low"]), abs(1 - row["ratio_high"])))
        between = " to ".join(map(format_percent, bounds))
        return f"{what} {format_percent(1 - row['ratio'])} {longer} ({between})"
    words = change(row, what)
    return words.replace("less requests", "fewer requests") if metric == RATE else words


def _notes(good: Sequence[Record]) -> list[str]:
    found = []
    served = [one for record in good if (one := _served(record)) is not None]
    if (
        served
        and not any(one.reader for one in served)
        and not any(RATE in load for one in served for load in one.loads)
    ):
        found.append(
            "The output of the load was not understood, so only its time and the server's memory "
            f"are shown: --metric says where figures are. Known: {', '.join(known_loads())}."
        )
    late = [record for record in good if record.outcome.values.get(_UNSENT)]
    if late:
        found.append(
            f"In {len(late)} of {len(good)} starts the server did not keep up with the rate: "
            "latencies grew as long as the load lasted. --rate asks for fewer requests."
        )
    killed = sum(one.killed for one in served)
    if killed:
        found.append(
            f"{killed} of {len(served)} starts did not end when they were told to, and were "
            "killed: --stop names a command that ends the server."
        )
    return found


def _served(record: Record) -> Served | None:
    return record.outcome.details_as(Details).serve


def _starts(good: Sequence[Record], managers: Sequence[str]) -> dict[str, list[Served]]:
    """By manager, what its starts showed."""
    return {
        manager: [
            served
            for record in good
            if record.run.manager == manager and (served := _served(record)) is not None
        ]
        for manager in managers
    }


def _typical(good: Sequence[Record], managers: Sequence[str]) -> dict[str, Served]:
    """By manager, the start whose memory when idle is in the middle."""
    found = {}
    for manager in managers:
        mine = [record for record in good if record.run.manager == manager]
        mine.sort(key=lambda record: record.outcome.values[_IDLE])
        if mine and (served := _served(mine[len(mine) // 2])) is not None:
            found[manager] = served
    return found
