"""What a notebook needs, asked for in its first cell."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from tare.base.errors import MissingError
from tare.memory_managers.manager import resolve


def require(managers: Sequence[str] = (), commands: Sequence[str] = ()) -> None:
    """Raise one MissingError about all managers, replay's collectors among them, and commands that
    are not installed here; nothing is run."""
    lacking, mend = [], []
    for name in managers:
        try:
            resolve(name, replays=True)
        except MissingError as error:
            lacking.append(error.message)
            mend.append(error.hint)
    absent = [command for command in commands if shutil.which(command) is None]
    if absent:
        lacking.append(f"not on PATH: {', '.join(absent)}")
        mend.append("install the packages that hold these commands")
    if lacking:
        raise MissingError("; ".join(lacking), "; ".join(filter(None, dict.fromkeys(mend))))
