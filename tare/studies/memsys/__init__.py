"""The memory system, simulated."""
