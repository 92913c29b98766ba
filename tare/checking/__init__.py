"""Limits of the programs of a suite: `tare check`."""
