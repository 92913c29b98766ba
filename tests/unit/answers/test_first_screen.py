"""What a bill says first, of results that are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import tare as api
from tare.answers import first_screen
from tare.answers.building import build_report
from tare.base.libraries import pl
from tare.records.results import Results, measurement_schema
from tare.report.model import Section
from tests.support import SUPPORT

WEIGHED = SUPPORT / "results-0.1" / "weigh"


def results_with(values: Mapping[tuple[str, str], float]) -> Results:
    """Kept results whose measurements are those ``values``, by study and metric."""
    results = api.load(WEIGHED)
    rows = [
        (study, "p", results.run.baseline, 0, n, metric, value, "B", "ok", "executed")
        for n, ((study, metric), value) in enumerate(values.items())
    ]
    measurements = pl.DataFrame(rows, schema=measurement_schema(), orient="row")
    return Results(results.folder, results.document, measurements)


def test_tiles_are_of_what_was_measured() -> None:
    found = {
        ("compare", "peak_resident_bytes"): 100 << 20,
        ("space", "resident_bytes"): 100 << 20,
        ("space", "requested_bytes"): 60 << 20,
        ("space", "other_bytes"): 20 << 20,
        ("drag", "peak_free_bytes"): 60 << 20,
        ("drag", "peak_last_use_bytes"): 35 << 20,
        ("drag", "never_freed_bytes"): 15 << 20,
        ("count", "instructions"): 1000,
        ("count", "manager_instructions"): 140,
    }
    tiles = first_screen.tiles(results_with(found))
    assert [(tile.title, tile.value) for tile in tiles] == [
        ("Peak memory", "100 MiB"),
        ("Wasted at the peak", "45%"),
        ("Memory management", "14%"),
        ("Never freed", "15.0 MiB"),
    ]
    assert tiles[1].detail == "20% the allocator's overhead, 25% unused"
    without = {key: value for key, value in found.items() if key[0] in ("compare", "drag")}
    tiles = first_screen.tiles(results_with(without))
    assert [(tile.title, tile.value) for tile in tiles] == [
        ("Peak memory", "100 MiB"),
        ("Wasted at the peak", "25%"),
        ("Never freed", "15.0 MiB"),
    ]
    torn = without | {("drag", "peak_needed_bytes"): 20 << 20}
    assert first_screen.tiles(results_with(torn))[1].value == "40%", "teardown is no need"
    assert first_screen.tiles(results_with({})) == []


@pytest.mark.parametrize(("load", "trusted"), [(0.1, True), (7.0, False)])
def test_a_busy_machine_is_told(load: float, trusted: bool) -> None:
    results = api.load(WEIGHED)
    machine = {**results.document["machine"], "load_average": load}
    text, good = first_screen.trust(
        Results(results.folder, {**results.document, "machine": machine}, results.measurements), []
    )
    assert f"load {load} on 2 cores" in text
    assert text.startswith("10 runs under each manager")
    assert good is trusted
    assert ("wall times are noisy" in text) is not trusted


def test_what_a_verdict_lacks_is_named() -> None:
    left = Section("drag", "Memory you could free earlier", ["Left out: no time."])
    there = Section("space", "Where peak memory goes", ["A third is overhead."])
    text, _ = first_screen.trust(api.load(WEIGHED), [left, there, replace(left, identifier="d")])
    assert text.endswith(" Left out: Memory you could free earlier (the full report says why).")


def test_the_verdict_is_what_sections_found_first() -> None:
    first = Section("time-and-memory", "T", ["A.", "B.", "How sure: well."])
    drag = Section("drag", "D", ["Held.", "More."])
    left = Section("space", "S", ["Left out: no time."])
    other = Section("delay", "E", ["Delays hurt."])
    assert first_screen.verdict([first, drag, left, other]) == ["A.", "B.", "Held."]
    assert first_screen.verdict([replace(first, findings=())]) == ["Nothing could be measured."]


def test_a_section_that_was_left_out_says_how_to_have_it() -> None:
    sections = build_report(api.load(SUPPORT / "results-more" / "weigh-java")).sections
    (left,) = [section for section in sections if section.is_left_out]
    ((_, line),) = left.commands
    assert line == "tare lbo -- java -cp classes Churn 60 2"


def test_a_bill_is_measured_anew_in_a_new_folder() -> None:
    results = api.load(WEIGHED)
    command = ["tare", "weigh", "-o", "mine", "--", "sort", "-o", "x"]
    changed = Results(
        results.folder, {**results.document, "command": command}, results.measurements
    )
    assert dict(build_report(changed).commands)["Measure it again"] == "tare weigh -- sort -o x"
