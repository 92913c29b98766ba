"""Figures over commits, and where they changed: `tare history`."""
