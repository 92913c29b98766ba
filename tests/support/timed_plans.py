"""Plans of studies that hold each manager against another, of one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tare.campaign import rounds


def timed(
    study: Any, managers: Sequence[str], runs: int, warmup: int = 0, seed: int = 1
) -> rounds.Plan:
    references = study.references(tuple(managers))
    return rounds.Plan(("p",), tuple(managers), "glibc", runs, warmup, seed, references=references)
