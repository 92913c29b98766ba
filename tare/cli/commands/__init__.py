"""The commands that are no study: a module each, found by being there."""
