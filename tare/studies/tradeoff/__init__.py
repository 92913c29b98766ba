"""Time against memory of collectors."""
