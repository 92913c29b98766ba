"""`tare weigh`: what another allocator would change in time and memory, and how sure that is."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.base.units import format_floor, format_value
from tare.campaign import rounds
from tare.records import summary
from tare.records.header import Header
from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.report.comparison import MEMORY, TIME, change, comparison_section, summary_rows
from tare.report.model import Section
from tare.studies.compare import report as compare
from tare.studykit.budget import Effort, Setting

IDENTIFIER = "time-and-memory"
TITLE = "Time and memory under other allocators"
ORDER = 10

_QUICK_MANAGERS = ("mimalloc", "jemalloc")
_MOST_RUNS = {Effort.QUICK: 10, Effort.DEFAULT: 20, Effort.THOROUGH: 200}
_FEWEST_RUNS = 3
_THOROUGH_PRECISION = 0.01


def plan(setting: Setting, quick: Sequence[str] = _QUICK_MANAGERS) -> rounds.Plan:
    """As many rounds as the section's share of the time allows, within bounds. ``quick`` are the
    managers that a quick bill tries beside the baseline, unless they were asked for."""
    managers = setting.managers
    if setting.effort is Effort.QUICK and not setting.managers_asked:
        kept = {setting.baseline, *quick}
        managers = tuple(manager for manager in managers if manager in kept)
    most = _MOST_RUNS[setting.effort]
    warmup = 0 if setting.effort is Effort.QUICK else 1
    a_round = len(managers) - 1 + rounds.BASELINE_RUNS_A_ROUND
    left = setting.budget_seconds - warmup * len(managers) * setting.pilot_seconds
    most_rounds = left / (a_round * max(setting.pilot_seconds, 1e-3))
    runs = max(_FEWEST_RUNS, min(most, math.floor(most_rounds)))
    thorough = setting.effort is Effort.THOROUGH
    return rounds.Plan(
        programs=(setting.program,),
        managers=managers,
        baseline=setting.baseline,
        runs=FEWEST_FOR_INTERVAL * 2 if thorough else runs,
        warmup=warmup,
        seed=setting.seed,
        precision=_THOROUGH_PRECISION if thorough else None,
        most_runs=most,
    )


def expected_runs(setting: Setting) -> int:
    """How many runs that makes when nothing fails."""
    return rounds.planned_runs(plan(setting))


def expected_seconds(setting: Setting) -> float:
    """What measuring will take, judged by the pilot run."""
    return expected_runs(setting) * (setting.pilot_seconds + 0.005)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The runs to do next; empty when the section has all it needs."""
    mine = [record for record in records if record.run.study == compare.STUDY]
    return compare.next_round(plan(setting), mine)


def section(results: Results) -> Section:
    """The verdict in words, over the tables and figures of the comparison."""
    from dataclasses import replace

    mine = results.measurements.filter(results.measurements["study"] == compare.STUDY)
    baseline, seed = results.run.baseline, results.run.seed
    summarised = summary.summarise(mine, baseline, seed)
    whole = comparison_section(results, summarised)
    findings, commands = verdict(results.run, summary_rows(summarised))
    return replace(whole, identifier=IDENTIFIER, title=TITLE, findings=findings, commands=commands)


def verdict(
    run: Header,
    rows: Mapping[tuple[str, str, str], Mapping[str, Any]],
    kind: str = "allocator",
    command: Callable[[Header, str], str] | None = None,
) -> tuple[list[str], list[tuple[str, str]]]:
    """What to change, what it brings and how sure that is, in sentences; and the labelled commands
    that carry out the change. ``kind`` is what the managers are, and ``command`` gives the shell
    command that runs the program under one.

    Of managers that are as fast as each other, the one with the least memory is advised.
    """
    baseline = run.baseline
    program = run.programs[0].name
    base = rows.get((program, baseline, TIME))
    if base is None or not base["runs"]:
        return [f"The program gave no good run under {baseline}: nothing to compare with."], []
    managers = [m for _, m, metric in rows if metric == TIME and m != baseline]
    times = {m: rows[program, m, TIME] for m in managers if rows[program, m, TIME]["runs"]}
    memories = {m: rows[program, m, MEMORY] for m in times}
    if not times:
        return [f"No other {kind} could be measured."], []
    as_fast = _tied_best(times)
    faster = min(as_fast, key=lambda m: memories[m]["ratio"]) if as_fast else None
    smaller = _best(memories)
    sentences = []
    if faster is None:
        sentences.append(f"Keep {baseline} for speed: no other {kind} was seen to be faster.")
    else:
        sentences.append(
            f"Run it under {faster}: {change(times[faster], 'time')}, "
            f"{change(memories[faster], 'memory')}." + _ties(faster, as_fast)
        )
    if smaller is None:
        sentences.append(f"No other {kind} was seen to need less memory than {baseline}.")
    elif smaller != faster:
        sentences.append(
            f"For the least memory: {smaller}, {change(memories[smaller], 'memory')}, "
            f"{change(times[smaller], 'time')}."
        )
    sentences.append(_sureness(base, times))
    advised = dict.fromkeys(name for name in (faster, smaller) if name is not None)
    commands = [(f"to run it under {name}", (command or _command)(run, name)) for name in advised]
    return sentences, [(label, command) for label, command in commands if command]


def _best(rows: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The manager with the lowest ratio among those seen to be lower."""
    lower = {m: row["ratio"] for m, row in rows.items() if row["verdict"] == "lower"}
    return min(lower, key=lambda m: lower[m]) if lower else None


def _tied_best(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The managers seen to be lower whose ratio lies within the interval of the best one's."""
    best = _best(rows)
    if best is None:
        return []
    highest = rows[best]["ratio_high"]
    return [m for m, row in rows.items() if row["verdict"] == "lower" and row["ratio"] <= highest]


def _ties(chosen: str, tied: Sequence[str]) -> str:
    others = [manager for manager in tied if manager != chosen]
    if not others:
        return ""
    verb = "are" if len(others) > 1 else "is"
    return f" {' and '.join(others)} {verb} as fast within the noise, with more memory."


def _command(run: Header, manager: str) -> str:
    """The shell command that runs the program under ``manager``."""
    described = run.managers.get(manager)
    if described is None or not described.object:
        return ""
    settings = {**described.environment, "LD_PRELOAD": described.object}
    words = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    return " ".join([*words, shlex.join(run.programs[0].argv)])


def _sureness(base: Mapping[str, Any], times: Mapping[str, Mapping[str, Any]]) -> str:
    fewest = min((row["runs"] for row in times.values()), default=base["runs"])
    floor = base["noise_floor"]
    noise = (
        f"ratios of time from {format_floor(floor)} are noise here"
        if floor is not None
        else "too few runs to know the noise"
    )
    kind = (
        "95% intervals in brackets"
        if fewest >= FEWEST_FOR_INTERVAL
        else "too few runs for a 95% interval, so the brackets hold the extremes"
    )
    median = format_value(base["median"], base["unit"])
    return (
        f"How sure: {fewest} runs under each manager, interleaved at random; {kind}; {noise} "
        f"(median {median})."
    )
