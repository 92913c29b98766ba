"""Whether programs can run under managers at all."""

from __future__ import annotations

from collections.abc import Iterable

from tare.base.errors import UsageError
from tare.memory_managers import runtimes
from tare.memory_managers.manager import Manager
from tare.programs.program import Program


def check(programs: Iterable[Program], managers: Iterable[Manager], watched: str = "") -> None:
    """Raise what ``Runtime.check`` raises for any of the programs under any of the managers, and
    UsageError for what looks at malloc and free, whose name is ``watched``.
    """
    of_runtimes = [manager for manager in managers if manager.runtime is not None]
    for manager in of_runtimes:
        if watched and manager.of_runtime_alone:
            raise UsageError(
                f"{manager.name} is a collector of a runtime; {watched} looks at malloc and free",
                f"tare compare -m '{manager.name}' measures time, memory and collections",
            )
        setting = manager.runtime
        assert setting is not None
        for program in programs:
            runtimes.runtime(setting.runtime).check(setting, program)
