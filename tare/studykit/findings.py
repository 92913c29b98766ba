"""What the findings of several studies share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tare.records.metrics import Status
from tare.records.runs import Record


def first_records(records: Iterable[Record], program: str) -> dict[str, Record]:
    """The first good run of ``program`` under each manager."""
    firsts: dict[str, Record] = {}
    for record in records:
        if record.run.program == program:
            firsts.setdefault(record.run.manager, record)
    return firsts


def sentences_by_program(
    good: Sequence[Record], about: Callable[[Mapping[str, Record]], Sequence[str]]
) -> list[str]:
    """What ``about`` says of each program's first good runs; with its name where there are more."""
    programs = list(dict.fromkeys(r.run.program for r in good))
    sentences = []
    for program in programs:
        subject = f"{program}: " if len(programs) > 1 else ""
        sentences += [subject + sentence for sentence in about(first_records(good, program))]
    return sentences


def first_good_records(records: Iterable[Record], study: str, baseline: str) -> list[Record]:
    """Of each program the first good run of ``study``, under ``baseline`` where there is one."""
    good = [r for r in records if r.run.study == study and r.outcome.status is Status.OK]
    found = []
    for program in dict.fromkeys(record.run.program for record in good):
        firsts = first_records(good, program)
        found.append(firsts.get(baseline) or next(iter(firsts.values())))
    return found
