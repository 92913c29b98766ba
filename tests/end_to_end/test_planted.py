"""A few of the programs with planted faults; tests/soak/test_planted.py has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted.collection import collection
from tests.planted.judging import WITHIN
from tests.planted.trials import Trial

FEW = ("csv_input", "error_path", "pinned_headers", "expression")


@pytest.mark.parametrize("name", FEW)
def test_a_fix_brings_more_than_a_prediction_may_be_off(name: str, tmp_path: Path) -> None:
    assert Trial(collection()[name], tmp_path).fix().gain > WITHIN


@pytest.mark.soak
@pytest.mark.parametrize("name", FEW)
def test_the_bill_names_the_line_and_the_gain(name: str, tmp_path: Path) -> None:
    trial = Trial(collection()[name], tmp_path)
    bill = tmp_path / "bill.json"
    trial.bill(bill)
    told = trial.judge(bill)
    assert told.right, told
    assert told.within, told
