"""From a results folder to the report that the terminal and the page show."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from tare.base.errors import UsageError
from tare.base.units import format_duration, format_seconds
from tare.campaign import drift
from tare.checking import report as check
from tare.records.header import Header
from tare.records.metrics import Obtained
from tare.records.results import Results, read_records, telling_damage
from tare.report.comparison import coverage_warnings
from tare.report.model import Report, Section
from tare.studies import studies
from tare.weighing.sections import of_results


def build_report(results: Results) -> Report:
    """All sections that the folder's measurements can fill. UsageError where it is damaged."""
    with telling_damage(results):
        return _build_report(results)


def _build_report(results: Results) -> Report:
    run = results.run
    programs = [program.name for program in run.programs]
    subject = programs[0] if len(programs) == 1 else f"{len(programs)} programs"
    return Report(
        title=f"tare {_command(run.study)}: {subject}",
        subtitle=_subtitle(run),
        facts=_facts(results),
        sections=_sections(results),
        warnings=[
            *coverage_warnings(results),
            *drift.warnings(run, read_records(results.folder)),
        ],
    )


def _command(study: str) -> str:
    """What was typed: a command's studies are called by its name, and what tells them apart."""
    return study.partition("-")[0]


def _sections(results: Results) -> list[Section]:
    if results.run.study == "weigh":
        costs = {name: structs.asdict(cost) for name, cost in results.run.sections.items()}
        return [
            replace(each.section(results), **costs.get(each.IDENTIFIER, {}))
            for each in of_results(results)
        ]
    study = results.run.study
    found = [each.section(results) for each in (*studies(), check) if study == each.STUDY]
    if not found:
        raise UsageError(f"this Tare does not know the study '{study}' of {results.folder}")
    return found


def _observer_cost(run: Header) -> str:
    cost = run.observer_seconds
    if cost is None:
        return ""
    added = f"about {format_seconds(cost)}" if cost > 0 else "too little to see"
    return f"; the proof adds {added} to the start of a process"


def _subtitle(run: Header) -> str:
    ended = "" if run.finished else ", not finished"
    return (
        f"{drift.hardware(run)}; {run.started[:16].replace('T', ' ')} UTC"
        f"{_observer_cost(run)}{ended}"
    )


def _obtained(results: Results) -> str:
    return " and ".join(sorted(results.measurements["obtained"].unique())) or Obtained.EXECUTED


def _facts(results: Results) -> list[tuple[str, str]]:
    run = results.run
    where = "the workers of a cluster" if run.machines else "this machine"
    where = "another machine" if run.imported else where
    facts = [
        ("tare", run.tare),
        ("command", " ".join(run.command)),
        ("started", run.started),
        ("took", format_duration(run.took_seconds or 0.0)),
        ("seed", str(run.seed)),
        ("baseline", run.baseline),
        ("results", f"{_obtained(results)} on {where}"),
        *drift.facts(run, results.document["machine"]),
    ]
    for program in run.programs:
        facts.append((f"program {program.name}", program.executable))
        facts.append((f"SHA-256 of {program.name}", program.executable_sha256))
    for name, manager in run.managers.items():
        facts.append((f"manager {name}", f"{manager.version} {manager.object or ''}".strip()))
    return facts
