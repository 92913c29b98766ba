"""Runs of one program of the collection: what its fix brings, and what the bill says of it."""

from __future__ import annotations

from pathlib import Path

from tare.records.actions import Action
from tests.planted.collection import Planted
from tests.planted.judging import Judgement, actions_of, judged, manager_named
from tests.planted.measuring import Effect, Measuring, Side, tare


class Trial:
    """Of ``program``, which is compiled in ``folder``, an empty one."""

    def __init__(self, program: Planted, folder: Path) -> None:
        self.program = program
        self._folder = folder
        self._faulty = program.compile(folder)
        self._measuring: dict[str, Measuring] = {}

    def fix(self) -> Effect:
        """On the metric that the fix is meant to improve."""
        manager = self.program.managers[0] if self.program.managers else ""
        return self._under(manager).effect(self.program.improves)

    def bill(self, path: Path) -> None:
        """Has `tare weigh` write ``path``."""
        results = self._folder / "bill"
        tare("weigh", "--quiet", "--no-page", "-o", results, "--json", path, "--", self._faulty)

    def judge(self, bill: Path) -> Judgement:
        return judged(self.program, actions_of(bill), self._effect)

    def _effect(self, action: Action) -> Effect:
        manager = manager_named(action, self.program) or ""
        return self._under(manager).effect(action.gain.metric)

    def _under(self, manager: str) -> Measuring:
        """``manager``: the fix is to run under it; empty where the source is mended."""
        if manager not in self._measuring:
            if manager:
                fixed = Side(self._faulty, manager)
            else:
                fixed = Side(self.program.compile(self._folder, fixed=True))
            self._measuring[manager] = Measuring(Side(self._faulty), fixed, self._folder)
        return self._measuring[manager]
