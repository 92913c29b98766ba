"""What records hold beyond values is checked where a report reads it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tare.answers.building import build_report
from tare.base.errors import UsageError
from tare.records.results import load
from tests.support import SUPPORT

WRONG: dict[str, tuple[str, Any, str]] = {
    "drag": ("totals", {"objects": -1}, "totals"),
    "space": ("peak", {"resident": "much"}, "peak"),
    "count": ("operations", {"malloc": {"calls": 1.5}}, "operations.malloc.calls"),
    "delay": ("delay", {"threads": 3}, "delay.threads"),
    "frequency": ("marksweep", {"pause_histogram": [[1, 2]]}, "marksweep.pause_histogram"),
}
"""By study: a detail, what it cannot be, and the place that is named."""


@pytest.mark.parametrize("study", WRONG)
def test_damaged_details_are_told_with_their_place(tmp_path: Path, study: str) -> None:
    folder = shutil.copytree(SUPPORT / "results-0.1" / study, tmp_path / study)
    assert build_report(load(folder)).sections
    detail, wrong, place = WRONG[study]
    file = folder / "runs.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for record in records:
        record["details"][detail] = wrong
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(UsageError, match=rf"damaged \(DocumentError: {place}"):
        build_report(load(folder))
