"""The bill: `tare weigh`, with the sections that studies do not bring themselves."""

from tare.studykit.budget import Effort

__all__ = ["Effort"]
