"""The bills of all programs with planted faults, and of the healthy ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.planted.collection import Planted, collection
from tests.planted.judging import WITHIN, Judgement
from tests.planted.trials import Trial

pytestmark = pytest.mark.timeout(3 * 3600)
PROGRAMS = collection()
FAULTY = [program for program in PROGRAMS.values() if program.fault]


@pytest.fixture(scope="module")
def judgements(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Judgement]:
    told = []
    for program in PROGRAMS.values():
        folder = tmp_path_factory.mktemp(program.name)
        trial = Trial(program, folder)
        trial.bill(folder / "bill.json")
        told.append(trial.judge(folder / "bill.json"))
    return told


@pytest.mark.parametrize("program", FAULTY, ids=lambda program: program.name)
def test_a_fix_brings_more_than_a_prediction_may_be_off(
    program: Planted, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert Trial(program, tmp_path_factory.mktemp("fix")).fix().gain > WITHIN


def test_fifteen_of_sixteen_faults_are_named_at_their_lines(
    judgements: Sequence[Judgement],
) -> None:
    wrong = [told for told in judgements if told.program.fault and not told.right]
    assert len(wrong) <= len(FAULTY) // 16, wrong


def test_gains_come_true(judgements: Sequence[Judgement]) -> None:
    off = [told for told in judgements if told.program.fault and told.right and not told.within]
    assert not off


def test_healthy_programs_are_not_accused(judgements: Sequence[Judgement]) -> None:
    assert not [told for told in judgements if not told.program.fault and not told.right]
