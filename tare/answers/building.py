"""From a results folder to the report that the terminal and the page show."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.units import format_duration, format_seconds
from tare.campaign import drift
from tare.records.header import Header
from tare.records.metrics import Obtained
from tare.records.results import Results, read_records, telling_damage
from tare.report.comparison import coverage_warnings, failure_tables
from tare.report.model import Report, Section
from tare.studies import Reporting, study_called

TIMES_TABLE = "Time and memory"
CHECK, GATE = "check", "gate"
_OTHERS = {CHECK: "tare.checking.report", GATE: "tare.gating.report"}
"""What has results, and is no study; loaded where it is asked for, as studies are."""


def build_report(results: Results) -> Report:
    """All sections that the folder's measurements can fill. UsageError where it is damaged."""
    with telling_damage(results):
        return _build_report(results)


def _build_report(results: Results) -> Report:
    run = results.run
    programs = [program.name for program in run.programs]
    subject = programs[0] if len(programs) == 1 else f"{len(programs)} programs"
    if run.study == GATE:
        subject = importlib.import_module(_OTHERS[GATE]).subject(run)
    of_program = len(programs) == 1 and not run.request.trace  # else it is that of a replayer
    report = Report(
        title=f"tare {_command(run.study)}: {subject}",
        subtitle=_subtitle(run),
        program=Path(run.programs[0].argv[0]).name if of_program else subject,
        command=shlex.join(run.programs[0].argv) if of_program else "",
        commands=_commands(results),
        facts=_facts(results),
        sections=[_untitled(section, programs) for section in _sections(results)],
        warnings=[
            *coverage_warnings(results),
            *drift.warnings(run, read_records(results.folder)),
        ],
    )
    if run.study != "weigh":
        return report
    from tare.answers import bill

    return bill.with_first_screen(report, results)


def _commands(results: Results) -> list[tuple[str, str]]:
    """What can be done with results, for the foot of their page."""
    if results.run.imported:
        return []
    folder = shlex.quote(str(results.folder))
    return [
        ("Measure it again", shlex.join(["tare", *_anew(results.run.command[1:])])),
        ("Compare with an older result", f"tare diff OLDER {folder}"),
        ("Call sites as flame graphs", f"tare report --explorer --open {folder}"),
        ("Every figure as CSV", f"tare export {folder} -f csv"),
        ("Every figure as JSON", f"tare export {folder} -f json"),
    ]


def _anew(words: Sequence[str]) -> list[str]:
    """Without the folder, which would be resumed."""
    kept = list(words)
    own = kept[: kept.index("--")] if "--" in kept else kept
    for option in ("-o", "--output"):
        if option in own:
            place = own.index(option)
            del kept[place : place + 2]
    return kept


def _command(study: str) -> str:
    """What was typed: a command's studies are called by its name, and what tells them apart."""
    return study.partition("-")[0]


def _sections(results: Results) -> list[Section]:
    name = results.run.study
    if name == "weigh":
        from tare.answers import bill

        return bill.sections(results)
    study: Reporting | None
    study = importlib.import_module(_OTHERS[name]) if name in _OTHERS else study_called(name)
    if study is None:
        raise UsageError(f"this Tare does not know the study '{name}' of {results.folder}")
    return [_whole(study, results)]


def _whole(study: Reporting, results: Results) -> Section:
    """The section of a study behind the runs that gave no figure, with what it took."""
    section = study.section(results)
    matters = getattr(study, "failed", lambda _results: True)
    failures = [replace(each, essential=matters(results)) for each in failure_tables(results)]
    tables = [*failures, *section.tables]
    return replace(section, tables=tables, took_seconds=results.run.took_seconds)


def _untitled(section: Section, programs: Sequence[str]) -> Section:
    """The title of a report has the name of its only program; its tables and figures need none."""
    if len(programs) != 1:
        return section

    def title(text: str) -> str:
        return TIMES_TABLE if text == programs[0] else text.removesuffix(f": {programs[0]}")

    return replace(
        section,
        tables=[replace(table, title=title(table.title)) for table in section.tables],
        figures=[replace(figure, title=title(figure.title)) for figure in section.figures],
    )


def _subtitle(run: Header) -> str:
    ended = "" if run.finished else ", not finished"
    return f"{drift.hardware(run)}; {run.started[:16].replace('T', ' ')} UTC{ended}"


def _observer_cost(run: Header) -> list[tuple[str, str]]:
    cost = run.observer_seconds
    if cost is None:
        return []
    added = f"about {format_seconds(cost)}" if cost > 0 else "no measurable time"
    return [("probe", f"adds {added} to the start of a process")]


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
        *_observer_cost(run),
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
