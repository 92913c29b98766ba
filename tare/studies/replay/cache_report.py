"""The study behind `tare replay --cache`: misses and stall cycles of the same allocations under
each manager, in simulated memory systems."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec import structs

from tare.base.units import format_percent
from tare.campaign import planning
from tare.observers.memory_details import Seen, Simulated
from tare.records.metrics import METRICS, Obtained, Status
from tare.records.results import Results, read_records
from tare.records.runs import Record
from tare.report.fields import SERVED, Field, Row, counts, percents, quotient, table, texts
from tare.report.model import Cell, Section, Table
from tare.studies.memsys import report as memsys
from tare.studykit.findings import first_records

STUDY = "replay-cache"
OBSERVER = "replay-cache"
TITLE = "The caches under the same allocations, replayed and simulated"
MUTATOR, COLLECTOR = "mutator", "collector"


next_round = partial(planning.next_round, study=STUDY, observer=OBSERVER)
summarise = memsys.summarise


def parts(model: Simulated) -> dict[str, Seen]:
    """What happened in the replay outside collections, and in these where there were any, from the
    details of a model."""
    # Where there is one phase alone, all that counts happened in it.
    found = model.phases or ({MUTATOR: model.whole()} if model.operations else {})
    return {part: found[part] for part in (MUTATOR, COLLECTOR) if part in found}


def section(results: Results) -> Section:
    """Findings and tables of all simulated replays in a results folder."""
    records = [r for r in read_records(results.folder) if r.run.study == STUDY]
    good = [r for r in records if r.outcome.status is Status.OK]
    tables: list[Table] = []
    (program,) = (program.name for program in results.run.programs)
    firsts = first_records(good, program)
    models = memsys.details_of(next(iter(firsts.values()))).models if firsts else ()
    for place, model in enumerate(models):
        found = {m: memsys.details_of(r).models[place] for m, r in firsts.items()}
        about = f"{program}, replayed in {model.name}"
        tables += [
            parts_table(about, found, f"table-replay-cache-{place + 1}"),
            memsys.misses_table(about, found, f"table-misses-{place + 1}"),
            memsys.operations_table(about, found, f"table-operations-{place + 1}"),
        ]
    return Section(
        identifier=STUDY,
        title=TITLE,
        findings=_findings(firsts, results.run.baseline),
        tables=tables,
        obtained=Obtained.SIMULATED,
    )


def _findings(firsts: Mapping[str, Record], baseline: str) -> list[str]:
    if not firsts:
        return ["No replay succeeded."]
    sentences = []
    chosen = firsts.get(baseline) or next(iter(firsts.values()))
    misses = {m: r.outcome.values["mutator_memory_misses"] for m, r in firsts.items()}
    least = min(misses, key=lambda manager: misses[manager])
    mine = misses[chosen.run.manager]
    if least != chosen.run.manager and mine:
        sentences.append(
            f"{least} has the fewest misses to memory outside collections: "
            f"{format_percent(1 - misses[least] / mine)} fewer than {chosen.run.manager}."
        )
    sentences.append(
        "The figures are of the replay: its own loop, the touches of objects, malloc and free. A "
        "trace does not have the program's own accesses."
    )
    sentences.append(
        "Misses and cycles are those of models, not of this machine: no prefetching, no overlap of "
        "misses, virtual addresses."
    )
    return sentences


def parts_table(about: str, found: Mapping[str, Simulated], identifier: str) -> Table:
    """A line per manager, and two where it collects."""
    fields: list[Field[Row]] = [
        texts("manager", SERVED, "manager"),
        Field("of", "The replay outside collections, or the collections.", _part, numeric=False),
        counts("instructions", "Executed then.", "instructions"),
        counts("cycles", METRICS["simulated_cycles"].explanation, "cycles"),
        percents(
            "waiting",
            "Stall cycles divided by cycles.",
            lambda row: quotient(row["stall_cycles"], row["cycles"]) or 0.0,
        ),
        counts(
            "data misses",
            "Reads and writes that missed the first level.",
            "data",
        ),
        counts("to memory", METRICS["memory_misses"].explanation, "to_memory"),
    ]
    rows = [
        {
            **structs.asdict(events),
            "manager": manager,
            "part": part,
            "data": events.data_misses,
            "to_memory": events.memory_misses,
        }
        for manager, model in found.items()
        for part, events in parts(model).items()
    ]
    return table(identifier, f"Where it waits: {about}", rows, fields)


def _part(row: Row) -> Cell:
    return Cell("replay" if row["part"] == MUTATOR else row["part"], row["part"])
