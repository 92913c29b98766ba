"""Lower-bound overhead of collectors."""
