"""Memory that could be freed earlier."""
