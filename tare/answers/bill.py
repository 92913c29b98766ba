"""What the report of a bill has that others do not: its sections, and the first screen."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from tare.answers import first_screen
from tare.records.header import DescribedProgram
from tare.records.results import Results
from tare.report.advice import with_actions
from tare.report.model import Report, Section
from tare.studykit.advice import run_as
from tare.weighing import own_heap
from tare.weighing.actions import actions_of
from tare.weighing.sections import of_results

SHORT = {
    "time-and-memory": "Allocators",
    "space": "Peak memory",
    "instructions": "Cost of malloc",
    "drag": "Held too long",
    "storage": "By component",
    "java-time": "Collectors",
    "java-costs": "Cost of collectors",
    "java-pauses": "Pauses",
    "java-least-heap": "Minimum heap",
    "java-malloc": "Malloc",
}
"""Of sections of the bill, by their identifiers."""
RESEARCH = ("delay", "collectors")
_COMMAND = re.compile(r"`(tare (?!weigh\b|trace\b|minheap\b)\w+[^`]*)`")
"""In the words of a section that was left out: what measures the same without a limit."""


def with_first_screen(report: Report, results: Results) -> Report:
    """The report with the first screen of a bill."""
    trust, trusted = first_screen.trust(results, report.sections)
    actions = actions_of(results)
    return replace(
        report,
        about=own_heap.about(results),
        sections=[with_actions(section, actions) for section in report.sections],
        verdict=first_screen.verdict(report.sections),
        actions=actions,
        tiles=first_screen.tiles(results),
        trust=trust,
        trusted=trusted,
    )


def sections(results: Results) -> list[Section]:
    """Those that the bill has, with what each cost."""
    costs = {name: structs.asdict(cost) for name, cost in results.run.sections.items()}
    program = results.run.programs[0]
    found = []
    for each in of_results(results):
        section = replace(
            each.section(results),
            research=each.IDENTIFIER in RESEARCH,
            short=SHORT.get(each.IDENTIFIER, ""),
            **costs.get(each.IDENTIFIER, {}),
        )
        if section.is_left_out:
            section = replace(section, commands=_without_limit(section.findings, program))
        found.append(section)
    return found


def _without_limit(findings: Sequence[str], program: DescribedProgram) -> list[tuple[str, str]]:
    named = _COMMAND.search(" ".join(findings))
    command = named[1] if named else "tare weigh --thorough"
    return [("Without a limit", f"{command} {shlex.join(run_as(program))}")]
