"""The call sites that changed between two programs' records, by each study that keeps some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tare.records.metrics import Status
from tare.records.runs import Record
from tare.studies import modules
from tare.studykit.changed_sites import KeepsSites, SiteChange, site_changes


@dataclass(frozen=True)
class ChangedSites:
    """``changes`` has the largest first, and can be empty; ``study`` is what both were kept by."""

    study: str
    keeps: KeepsSites
    changes: Sequence[SiteChange]


def changed_sites(base: Sequence[Record], head: Sequence[Record]) -> list[ChangedSites]:
    """By the first good run of each side, of what both keep; empty where that is nothing."""
    found = []
    for _, keeps in modules("site_sums"):
        for study in keeps.KEPT_BY:
            firsts = [_first(records, study) for records in (base, head)]
            sites = [keeps.site_sums(record) if record else [] for record in firsts]
            if all(sites):
                found.append(ChangedSites(study, keeps, site_changes(*sites)))
                break
    return found


def _first(records: Sequence[Record], study: str) -> Record | None:
    good = (each for each in records if each.run.study == study and is_good(each))
    return next(good, None)


def is_good(record: Record) -> bool:
    return record.outcome.status is Status.OK
