"""The least heap of each collector."""
