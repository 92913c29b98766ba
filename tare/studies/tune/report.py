"""The study behind `tare tune`: which settings of managers take least time and least memory.

Many settings are tried with few runs each, and the best of them confirmed by fresh runs, of which
the answer is made; see ``tare.studies.tune.plan``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tare.base.units import format_bytes, format_duration, format_percent, format_seconds
from tare.records import summary
from tare.records.evidence import HIGHER, LOWER
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.comparison import change, collections_table, ranking, time_and_memory_table
from tare.report.fields import Field, exact_ratios, numbers, table, texts
from tare.report.figures.front import Confirmed, Tried, front_spec
from tare.report.model import Figure, Section, Table
from tare.studies.tune import plan
from tare.studies.tune.plan import ERROR, SEARCH, least_seconds
from tare.studies.tune.seen import (
    MEMORY,
    PROCESSOR,
    TIED,
    WALL,
    Bounds,
    Seen,
    front,
    noise_of,
    seen_of,
    time_metric,
)
from tare.studies.tune.seen import (
    failed as failed_settings,
)
from tare.studies.tune.settings import Pair, TuneRun, confirmed, confirming, fresh_rows
from tare.studykit import adoption
from tare.studykit.advice import verifying

STUDY = plan.STUDY
WORDS = {WALL: "wall time", PROCESSOR: "processor time"}
TITLE = "The best settings found"

summarise = partial(summary.summarise, error=ERROR)


def failed(results: Results) -> bool:
    """Whether nothing could be compared: a setting that failed is only left out."""
    return results.run.baseline in failed_settings(_searched(results), results.run.baseline)


def _searched(results: Results) -> list[Record]:
    return [record for record in read_records(results.folder) if record.run.study == SEARCH]


def section(results: Results) -> Section:
    """The settings to use, what confirms them, and everything that was tried."""
    run, searched = results.run_as(TuneRun), _searched(results)
    seen = seen_of(searched, run.baseline)
    pairs, chosen = confirming(results), confirmed(results)
    tables = [_confirmed_table(results, pairs)] if len(pairs) > 1 else []
    if any(row["metric"] == "collector_seconds" for row in fresh_rows(results)):
        tables.append(_collections_table(results))
    if len(seen) > 1:
        tables.append(_tried_table(seen, run.baseline))
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=_findings(run, searched, seen, pairs, chosen),
        tables=tables,
        figures=[_figure(seen, pairs, chosen, run.baseline)] if len(seen) > 1 else [],
        commands=_commands(run, chosen),
    )


def _commands(run: TuneRun, chosen: Mapping[str, Pair]) -> list[tuple[str, str]]:
    commands = [adoption.command(run, name) for name in chosen]
    program = run.programs[0].name
    checks = [
        ("to see it again", verifying(run, "compare", program, name)) for name in list(chosen)[:1]
    ]
    return [*((label, words) for label, words in commands if words), *checks]


# ---- findings ----


def _findings(
    run: TuneRun,
    searched: Sequence[Record],
    seen: Mapping[str, Seen],
    pairs: Mapping[str, Pair],
    chosen: Mapping[str, Pair],
) -> list[str]:
    baseline = run.baseline
    if baseline in failed_settings(searched, baseline):
        return [f"Nothing could be compared: a run under {baseline} did not succeed."]
    least = least_seconds(searched)
    if searched and least > run.request.seconds and len(seen) <= 1:
        return [
            f"Nothing was tried: with runs of this length it takes {format_duration(least)} to "
            f"confirm anything. Give --time {_minutes(least)} or a shorter input."
        ]
    if chosen:
        answer = _answers(chosen)
    elif len(pairs) > 1:
        answer = [_not_confirmed(pairs, baseline)]
    else:
        answer = [_nothing_promising(run, searched, seen)]
    return [*answer, *_ways(run, chosen), *_how_found(run, searched, seen, pairs)]


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60) + 1}min"


def _answers(chosen: Mapping[str, Pair]) -> list[str]:
    """A sentence for each setting; where there are several, with what it is for."""
    fastest = min(chosen, key=lambda name: float(chosen[name][0]["ratio"]))
    smallest = min(chosen, key=lambda name: float(chosen[name][1]["ratio"]))

    def lead(name: str) -> str:
        costs = any(row["verdict"] == HIGHER for row in chosen[name])
        less = "For the least time, " if len(chosen) > 1 else "For less time, "
        less = less if chosen[name][0]["verdict"] == LOWER else "For less memory, "
        if fastest == smallest == name:
            return less if costs else "Use "
        if name == fastest:
            return less
        return "For the least memory, " if name == smallest else "Between these: "

    return [f"{lead(name)}{name}: {_difference(pair)}." for name, pair in chosen.items()]


def _difference(pair: Pair) -> str:
    time, memory = pair
    parts = [change(time, WORDS[time["metric"]]), change(memory, "memory")]
    return ", ".join(parts if time["verdict"] == LOWER else reversed(parts))


def _not_confirmed(pairs: Mapping[str, Pair], baseline: str) -> str:
    tried = [name for name in pairs if name != baseline]
    each = "; ".join(f"{name}: {_difference(pairs[name])}" for name in tried)
    best = "the best one" if len(tried) == 1 else f"the best {len(tried)}"
    return (
        f"Nothing to recommend: of what was tried {best} did no better than {baseline} in fresh "
        f"runs ({each})."
    )


def _nothing_promising(run: TuneRun, searched: Sequence[Record], seen: Mapping[str, Seen]) -> str:
    others = len(seen) - 1
    if not run.finished:
        return "Nothing is confirmed yet: the search was interrupted."
    if others < 1:
        return "Nothing to recommend: no run under another setting succeeded."
    bounds = Bounds(run.request.slower_by, run.request.memory_limit)
    if not any(bounds.allows(each) for each in seen.values()):
        return "Nothing to recommend: no setting stays within the limits that were asked for."
    time = noise_of(searched, run.baseline, time_metric(searched, run.baseline))
    memory = noise_of(searched, run.baseline, MEMORY)
    return (
        f"Nothing to recommend: of {others} settings none looked better than {run.baseline}. In "
        f"single runs only gains above {format_percent(max(TIED, 2 * time))} of the time or "
        f"{format_percent(max(TIED, 2 * memory))} of the memory would show."
    )


def _ways(run: TuneRun, chosen: Mapping[str, Pair]) -> list[str]:
    """How a program gets each of them."""
    ways = []
    for name in chosen:
        variables = adoption.environment(run, name)
        parts = [
            f"set {key}={shlex.quote(value)}"
            for key, value in variables.items()
            if key != "LD_PRELOAD"
        ]
        parts += [way] if (way := adoption.how(run, name)) else []
        if parts:
            ways.append(f"To use {name}: {'; '.join(parts)}.")
    return ways


def _how_found(
    run: TuneRun,
    searched: Sequence[Record],
    seen: Mapping[str, Seen],
    pairs: Mapping[str, Pair],
) -> list[str]:
    tried, wrong = len(seen) - 1, failed_settings(searched, run.baseline)
    words = f"Tried: {tried} setting{'' if tried == 1 else 's'} beside {run.baseline}"
    if wrong:
        words += f", {len(wrong)} more with a failed run"
    sentences = [f"{words}; a run under {run.baseline} takes {_typical(searched, run.baseline)}."]
    if len(pairs) > 1:
        rounds = min(int(pair[0]["runs"]) for pair in pairs.values())
        sentences.append(
            f"How sure: the best of many are partly lucky, so only {rounds} fresh rounds count, in "
            f"random order with {run.baseline}. At most one answer in {round(1 / ERROR)} has a "
            "false claim; the brackets are 95% intervals."
        )
    return sentences


def _typical(searched: Sequence[Record], baseline: str) -> str:
    found = seen_of(searched, baseline)[baseline]
    times = [r.outcome.values[WALL] for r in searched if r.run.manager == baseline]
    return f"{format_seconds(sorted(times)[len(times) // 2])} and {format_bytes(found.peak_bytes)}"


# ---- tables and the figure ----


def _confirmed_table(results: Results, pairs: Mapping[str, Pair]) -> Table:
    run = results.run
    program = run.programs[0].name
    rows = {(program, row["manager"], row["metric"]): row for row in fresh_rows(results)}
    ranked = ranking(rows, program, list(pairs), run.baseline)
    made = time_and_memory_table(rows, program, ranked, run.baseline, "table-confirmed")
    return replace(made, title="Confirmed by fresh runs")


def _collections_table(results: Results) -> Table:
    program = results.run.programs[0].name
    rows = {(program, row["manager"], row["metric"]): row for row in fresh_rows(results)}
    managers = list(dict.fromkeys(row["manager"] for row in fresh_rows(results)))
    return collections_table(rows, program, managers)


def _tried_table(seen: Mapping[str, Seen], baseline: str) -> Table:
    best = {each.name for each in front(list(seen.values()))}
    ordered = sorted(
        seen.values(), key=lambda each: (each.name not in best, min(each.time, each.memory))
    )
    fields: list[Field[Any]] = [
        texts("setting", "The manager and its options.", lambda each: each.name),
        exact_ratios("time", f"Time divided by that of {baseline} beside it.", lambda e: e.time),
        exact_ratios("memory", f"Peak memory divided by that of {baseline}.", lambda e: e.memory),
        numbers("runs", "Runs of the search.", lambda each: each.runs),
        texts(
            "front",
            "Whether no other setting beats it in both time and memory.",
            lambda each: "yes" if each.name in best else "",
        ),
    ]
    return table(
        "table-tried",
        "Everything that was tried",
        ordered,
        fields,
        ["ratios of few runs: the best are partly lucky."],
        essential=False,
    )


def _figure(
    seen: Mapping[str, Seen], pairs: Mapping[str, Pair], chosen: Mapping[str, Pair], baseline: str
) -> Figure:
    tried = [Tried(each.name, each.time, each.memory) for each in seen.values()]
    best = [Tried(each.name, each.time, each.memory) for each in front(list(seen.values()))]
    points = [
        Confirmed(
            name,
            time["ratio"],
            memory["ratio"],
            (time["ratio_low"], time["ratio_high"]),
            (memory["ratio_low"], memory["ratio_high"]),
            name in chosen,
        )
        for name, (time, memory) in pairs.items()
        if name != baseline
    ]
    return Figure(
        "front",
        "Time and memory of everything that was tried",
        "Small dots: the search, few runs each; line: the best of them. Large: the fresh runs, "
        "with 95% intervals, filled where they confirm a gain. Left and down is better.",
        front_spec(tried, best, points, baseline),
        wide=True,
    )
