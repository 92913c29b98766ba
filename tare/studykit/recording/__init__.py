"""The heap trace of one run: `tare trace`."""
