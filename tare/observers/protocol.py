"""What watches one run: the forms that every observer has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from tare.memory_managers.manager import Manager
from tare.programs.program import Program
from tare.records.runs import Limits, Outcome

Observed: TypeAlias = tuple[Program, Manager, Limits, Path, Path | None]
"""What is run under what, within which bounds; the folder of the run's files, and where its output
is kept."""
Observe = Callable[[Program, Manager, Limits, Path, Path | None], Outcome]


class Observer(Protocol):
    """What stands between the launcher and the program, or beside it, and sees more of the run."""

    sees_allocations: ClassVar[bool] = True
    """Whether it takes the place of what looks at the manager's share of the memory."""

    def prefix(self, folder: Path) -> Sequence[str]:
        """The words before the program's command; what it writes goes into ``folder``."""
        del folder
        return ()

    def hosts(self, executable: str) -> bool:
        """Whether a process that the kernel takes for ``executable`` runs the program inside."""
        del executable
        return False

    def attend(self, launcher: int, folder: Path) -> Iterator[float]:
        """Does its own work while the child of process ``launcher`` runs, with its output in
        ``folder``; gives the seconds until it wants to be asked again. Closed at the end."""
        del launcher, folder
        return iter(())

    def ended(self, raw: dict[str, Any]) -> dict[str, Any]:
        """The launcher's report ``raw``; who ended the program itself makes a good end of it."""
        return raw

    def complete(self, folder: Path, pids: Collection[int], outcome: Outcome) -> Outcome:
        """``outcome`` of a good run, with the values that the observer saw instead of the
        runner's. ``pids`` are the processes that are known to have taken part."""
