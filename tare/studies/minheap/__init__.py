"""The minimum heap of each collector."""
