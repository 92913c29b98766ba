"""`tare weigh`: what another allocator would change in time and memory, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tare.base.libraries import pl
from tare.base.statistics import FEWEST_FOR_INTERVAL
from tare.base.units import format_floor, format_value
from tare.campaign import rounds
from tare.memory_managers.manager import OWN
from tare.records import summary
from tare.records.actions import Action, Certainty, Gain, Kind
from tare.records.evidence import COUNTED
from tare.records.header import Header
from tare.records.metrics import METRICS
from tare.records.results import Results
from tare.records.runs import Record, Run
from tare.report.comparison import TIME, comparison_section, failure_tables, summary_rows
from tare.report.model import Section
from tare.studies.compare import report as compare
from tare.studies.compare.verdicts import (
    Choice,
    Comparison,
    comparison,
    difference,
    fastest,
    savings,
    smallest,
)
from tare.studykit import adoption
from tare.studykit.advice import verifying
from tare.studykit.budget import Effort, Setting

IDENTIFIER = "time-and-memory"
TITLE = "Time and memory under other allocators"
ORDER = 10
WORTH = 4.0
NAMES = ("compare", "time", "memory")

COUNTING = "count"
"""The study of the section that counts instructions."""

_QUICK_MANAGERS = ("mimalloc", "jemalloc")
_MOST_RUNS = {Effort.QUICK: 10, Effort.DEFAULT: 20, Effort.THOROUGH: 200}
_FEWEST_RUNS = 3
_MOST_OF_A_BILL = 0.25
"""What the fewest runs under all managers may take of the whole bill."""
_THOROUGH_PRECISION = 0.01
_START_SECONDS = 0.005
"""What starting a run takes beside the program's own time."""


def plan(setting: Setting, quick: Sequence[str] = _QUICK_MANAGERS) -> rounds.Plan:
    """As many rounds as the section's share of the time allows, within bounds. ``quick`` are the
    managers that a quick bill tries beside the baseline, unless they were asked for, and so does
    one of a program whose few runs under all would leave little time for the other sections."""
    managers = setting.managers
    warmup = 0 if setting.effort is Effort.QUICK else 1
    is_long = setting.effort is Effort.DEFAULT and not setting.runs
    if is_long:
        is_long = _seconds(setting, managers, _FEWEST_RUNS, warmup) > (
            _MOST_OF_A_BILL * setting.bill_seconds
        )
    if is_long or setting.effort is Effort.QUICK:
        warmup = 0
        if not setting.managers_asked:
            kept = {setting.baseline, OWN, *quick}
            managers = tuple(manager for manager in managers if manager in kept)
    fewest = _FEWEST_RUNS
    if is_long and _seconds(setting, managers, fewest, 0) > setting.bill_seconds / 2:
        fewest = 1
    most = _MOST_RUNS[setting.effort]
    left = setting.budget_seconds - _seconds(setting, managers, 0, warmup)
    most_rounds = left / _seconds(setting, managers, 1, 0)
    runs = setting.runs or max(fewest, min(most, math.floor(most_rounds)))
    thorough = setting.effort is Effort.THOROUGH and not setting.runs
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


def _seconds(setting: Setting, managers: Sequence[str], runs: int, warmup: int) -> float:
    a_round = len(managers) - 1 + rounds.BASELINE_RUNS_A_ROUND
    return (runs * a_round + warmup * len(managers)) * run_seconds(setting)


def run_seconds(setting: Setting) -> float:
    """What one run will take, judged by the pilot run."""
    return setting.run_seconds + _START_SECONDS


def least_seconds(setting: Setting, quick: Sequence[str] = _QUICK_MANAGERS) -> float:
    """For the fewest runs, or those that were asked for."""
    least = replace(setting, budget_seconds=0.0)
    return rounds.planned_runs(plan(least, quick)) * run_seconds(setting)


def expected_runs(setting: Setting) -> int:
    """How many runs that makes when nothing fails."""
    return rounds.planned_runs(plan(setting))


def expected_seconds(setting: Setting) -> float:
    """What measuring will take, judged by the pilot run."""
    return expected_runs(setting) * run_seconds(setting)


def next_runs(setting: Setting, records: Sequence[Record]) -> list[Run]:
    """The runs to do next; empty when the section has all it needs."""
    mine = [record for record in records if record.run.study == compare.STUDY]
    return compare.next_round(plan(setting), mine)


def section(results: Results) -> Section:
    """The verdict in words, over the tables and figures of the comparison."""
    mine = results.measurements.filter(results.measurements["study"] == compare.STUDY)
    summarised = summary.summarise(mine, results.run.baseline, results.run.seed)
    whole = comparison_section(results, summarised)
    rows = summary_rows(summarised)
    findings, commands = verdict(results.run, compared(results), rows)
    return replace(
        whole,
        identifier=IDENTIFIER,
        title=TITLE,
        findings=[*findings, *left_out(results)],
        tables=[*failure_tables(results), *whole.tables],
        commands=commands,
    )


def left_out(results: Results) -> list[str]:
    """The managers for which a program takes too long, and how to have them."""
    run = results.run
    if run.request.effort != Effort.DEFAULT:
        return []
    names = sorted({*run.managers} - {*results.measurements["manager"]})
    if not names:
        return []
    return [
        f"Left out, as the program runs long: {', '.join(names)}. A longer `--time` has them, too."
    ]


def compared(results: Results, kind: str = "allocator") -> Comparison:
    run = results.run
    found = comparison(
        results.measurements,
        compare.STUDY,
        run.programs[0].name,
        run.baseline,
        run.seed,
    )
    return replace(found, kind=kind, is_current=not run.own_allocators)


Rows = Mapping[tuple[str, str, str], Mapping[str, Any]]


def verdict(
    run: Header, compared: Comparison, rows: Rows
) -> tuple[list[str], list[tuple[str, str]]]:
    """What to change, what it brings and how sure that is, in sentences; and the labelled commands
    that carry out the change."""
    baseline = run.baseline
    base = rows.get((run.programs[0].name, baseline, TIME))
    if base is None or not base["runs"]:
        return [f"No run under {baseline} succeeded: there is nothing to compare with."], []
    if not compared.times:
        return [f"No other {compared.kind} could be measured."], []
    speed, size = _choices(run, compared)
    sentences = [*speed.sentences]
    if size.manager and size.manager != speed.manager:
        by = speed.evidence or compared.times[0]
        cost = difference(by.known.get(size.manager), by.metric)
        sentences.append(f"{size.sentences[0]}, {cost}.")
    elif not size.manager:
        sentences += size.sentences
    if run.own_allocators and OWN not in (speed.manager, size.manager):
        sentences.append(_of_its_own(run, compared))
    sentences.append(_sureness(base, compared))
    advised = dict.fromkeys(name for name in (speed.manager, size.manager) if name)
    commands = [adoption.command(run, name) for name in advised]
    return sentences, [(label, words) for label, words in commands if words]


def _of_its_own(run: Header, compared: Comparison) -> str:
    """What the program has now, where the ratios are to another allocator, and how it gets one."""
    own, name = run.own_allocators[0], adoption.called(run, OWN)
    way = f" For another allocator, {own.advice}." if own.advice else ""
    for each in compared.times:
        if OWN in each.known:
            memory = difference(compared.memory.known.get(OWN), compared.memory.metric)
            time = difference(each.known[OWN], each.metric)
            return (
                f"All ratios are to {run.baseline}; with {name}, as it is now: {time}, "
                f"{memory}.{way}"
            )
    return f"All ratios are to {run.baseline}, but the program has {name}.{way}"


def _choices(run: Header, compared: Comparison) -> tuple[Choice, Choice]:
    def of_speed(manager: str, what: str) -> str:
        memory = difference(compared.memory.known.get(manager), compared.memory.metric)
        if run.own_allocators and manager == OWN:
            name = adoption.called(run, manager)
            return f"Keep {name} for speed: {what}, {memory}, against {run.baseline}."
        return f"Run it under {manager}: {what}, {memory}."

    def of_size(manager: str, what: str) -> str:
        return f"For the least memory: {adoption.called(run, manager)}, {what}"

    return fastest(compared, of_speed), smallest(compared, of_size)


def actions(results: Results) -> list[Action]:
    """Another allocator for speed, and one for memory, as far as a gain was seen."""
    return actions_of(results, compared(results))


def actions_of(results: Results, compared: Comparison, kind: Kind = Kind.ALLOCATOR) -> list[Action]:
    if not compared.is_current:
        return []  # the ratios are not to what the program has
    medians = _medians(results)
    return [
        action
        for choice in _choices(results.run, compared)
        if choice.manager and (action := _action(results.run, choice, medians, kind)) is not None
    ]


def _medians(results: Results) -> Mapping[str, float]:
    """Of the baseline, by metric."""
    run = results.run
    good = results.measurements.filter(
        pl.col("manager") == run.baseline,
        pl.col("status") == "ok",
        pl.col("study").is_in([compare.STUDY, COUNTING]),
    )
    return dict(good.group_by("metric").agg(pl.col("value").median()).iter_rows())


def _action(run: Header, choice: Choice, medians: Mapping[str, float], kind: Kind) -> Action | None:
    saved = savings(choice, medians)
    if saved is None or choice.evidence is None:
        return None
    value, low, high, ratio = saved
    metric = choice.evidence.metric
    if kind is Kind.ALLOCATOR and choice.manager.endswith(")"):
        kind = Kind.OPTION
    way = adoption.how(run, choice.manager)
    change = difference(choice.evidence.known[choice.manager], metric)
    return Action(
        kind,
        f"Use {choice.manager}: {change}" + (f" ({way})." if way else "."),
        Gain(metric, value, low, high, METRICS[metric].unit, ratio),
        Certainty.MEASURED,
        verifying(
            run,
            COUNTING if metric == COUNTED else compare.STUDY,
            run.programs[0].name,
            choice.manager,
        ),
    )


def _sureness(base: Mapping[str, Any], compared: Comparison) -> str:
    fewest = compared.times[0].runs
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
    runs = f"{fewest} run" + ("" if fewest == 1 else "s")
    return (
        f"How sure: {runs} under each manager, interleaved at random; {kind}; {noise} "
        f"(median {median})."
    )
