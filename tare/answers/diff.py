"""What changed between two results of the same programs, beyond noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec import to_builtins

from tare.answers import changed_report
from tare.answers.changed_figures import FAILING, VERDICTS, Means, changed_figures
from tare.answers.changed_report import change_words
from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.base.version import __version__
from tare.campaign.pace import compared
from tare.gating.changes import once_of
from tare.gating.sites import ChangedSites, changed_sites
from tare.heap_traces.frames import place_of
from tare.records.header import Header
from tare.records.results import Results, read_records, telling_damage
from tare.records.runs import Record
from tare.report.model import Report
from tare.report.notebook import as_html
from tare.studykit.changed_sites import SiteChange

__all__ = ["VERDICTS", "DiffResult", "diff"]

DEFAULT_THRESHOLD = 0.02
JSON_SCHEMA = 1
NOT_SETTINGS = ("load_average",)
"""Of the machine's description: what differs from one minute to the next."""


@dataclass(frozen=True)
class DiffResult:
    """``rows`` has the columns program, manager, metric, unit, runs_old, runs_new, old, new (the
    medians, in the unit), ratio, ratio_low, ratio_high (new to old), noise_floor (the larger of
    the two, as a fraction), verdict, one of ``VERDICTS``, and reason, why nothing can be told.
    ``sites`` are the call sites that changed, with their program, by study."""

    rows: pl.DataFrame
    report: Report
    regressed: bool
    folders: tuple[Path, Path]
    sites: Sequence[tuple[str, ChangedSites]] = ()

    def to_json(self) -> str:
        """What ``--json`` writes; a figure that does not exist is null."""
        document = {
            "tare": __version__,
            "schema": JSON_SCHEMA,
            "old": str(self.folders[0]),
            "new": str(self.folders[1]),
            "regressed": self.regressed,
            "findings": list(self.report.sections[0].findings),
            "changes": self.rows.to_dicts(),
            "sites": [
                _site_document(program, each.study, site)
                for program, each in self.sites
                for site in each.changes
            ],
        }
        return json.dumps(document, indent=2, allow_nan=False) + "\n"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return as_html(self.report)


def diff(old: Results, new: Results, *, threshold: float = DEFAULT_THRESHOLD) -> DiffResult:
    """Compare ``new`` with ``old``, row by row of program, manager and metric.

    ``threshold`` is a fraction: a judged metric that got worse by less is no regression. Raises
    ``UsageError`` when the two do not answer the same question.
    """
    if old.run.baseline != new.run.baseline:
        raise UsageError(
            f"the baselines differ: {old.run.baseline} and {new.run.baseline}",
            "measure again with the same --baseline",
        )
    either = SimpleNamespace(folder=Path(f"{old.folder} or {new.folder}"))
    with telling_damage(either):
        return _diff(old, new, threshold)


def _diff(old: Results, new: Results, threshold: float) -> DiffResult:
    records = [read_records(results.folder) for results in (old, new)]
    everything = [*records[0], *records[1]]
    programs = {*old.measurements["program"], *new.measurements["program"]}
    once = {name: once_of(r for r in everything if r.run.program == name) for name in programs}
    means = Means(threshold, old.run.seed, compared(old, new), once)
    rows = changed_figures(old, new, records, means)
    regressed = bool(rows["verdict"].is_in(FAILING).any())
    sites = _changed_sites(old.run, new.run, records)
    warnings = _differences(old, new) + _drift(rows, old.run, new.run)
    report = changed_report.build(rows, (old, new), means, sites, warnings)
    return DiffResult(rows, report, regressed, (old.folder, new.folder), sites)


def _site_document(program: str, study: str, site: SiteChange) -> dict[str, Any]:
    place = place_of(site.frames)
    return {
        "program": program,
        "study": study,
        "operation": site.operation,
        "place": to_builtins(place) if place else None,
        "old": site.base,
        "new": site.head,
    }


def _changed_sites(
    old: Header, new: Header, records: Sequence[Sequence[Record]]
) -> list[tuple[str, ChangedSites]]:
    """By program, under the baseline."""
    found = []
    names = {program.name for program in new.programs}
    for program in (each.name for each in old.programs if each.name in names):
        mine = [
            [r for r in side if (r.run.program, r.run.manager) == (program, old.baseline)]
            for side in records
        ]
        found += [(program, each) for each in changed_sites(mine[0], mine[1])]
    return found


def _told(part: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in part.items()) or "all"


def _differences(old: Results, new: Results) -> list[str]:
    """What besides the thing under test was not the same, one sentence each."""
    found = [
        f"{results.folder} was not finished: only what had been measured is compared"
        for results in (old, new)
        if not results.run.finished
    ]
    machines = old.document["machine"], new.document["machine"]
    for name in dict.fromkeys((*machines[0], *machines[1])):
        before, after = (machine.get(name) for machine in machines)
        if before != after and name not in NOT_SETTINGS:
            found.append(f"the machines differ in {name.replace('_', ' ')}: {before} → {after}")
    before, after = (run.request.machine for run in (old.run, new.run))
    if before != after:
        told = " → ".join(_told(part) for part in (before, after))
        found.append(f"the runs were bound to different parts of the machine: {told}")
    inherited = [results.run.environment.values for results in (old, new)]
    for name in sorted(inherited[0].keys() | inherited[1].keys()):
        if inherited[0].get(name) != inherited[1].get(name):
            found.append(f"the environment differs in {name}")
    programs = [{p.name: p for p in results.run.programs} for results in (old, new)]
    for name in programs[0].keys() & programs[1].keys():
        before, after = (described[name] for described in programs)
        for field, what in (
            ("executable_sha256", "was rebuilt: a change may come from the program itself"),
            ("stdin_sha256", "read another input"),
            ("argv", "had other arguments"),
            ("environment", "had another environment"),
        ):
            if getattr(before, field) != getattr(after, field):
                found.append(f"{name} {what}")
    managers = old.run.managers, new.run.managers
    for name in managers[0].keys() & managers[1].keys():
        was, now = (described[name] for described in managers)
        if was.version != now.version:
            found.append(f"{name} was {was.version} and is {now.version}")
        elif was.object_sha256 != now.object_sha256:
            found.append(f"{name} was rebuilt from the same version")
    if old.run.tare != new.run.tare:
        found.append(f"the versions of Tare differ: {old.run.tare} → {new.run.tare}")
    return sorted(found)


def _drift(rows: pl.DataFrame, old: Header, new: Header) -> list[str]:
    """Programs that are the same file and yet changed under the baseline: the machine did."""
    hashes = [{p.name: p.executable_sha256 for p in run.programs} for run in (old, new)]
    found = []
    for row in rows.iter_rows(named=True):
        same = hashes[0].get(row["program"]) and hashes[0][row["program"]] == hashes[1].get(
            row["program"]
        )
        is_baseline = row["manager"] == new.baseline and row["metric"] == "wall_seconds"
        if same and is_baseline and row["verdict"] in ("regression", "improvement"):
            found.append(
                f"{row['program']} is the same file, but changed under the baseline "
                f"{row['manager']} ({change_words(row)}): the machine may have changed, not the "
                "program"
            )
    return found
