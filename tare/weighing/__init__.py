"""The bill: `tare weigh`, with the sections that studies do not bring themselves."""

from typing import Any


def __getattr__(name: str) -> Any:
    """``Effort`` was documented to be here."""
    if name != "Effort":
        raise AttributeError(name)
    from tare.studykit.budget import Effort

    return Effort
