"""Starts what was planned, here or on a cluster, and keeps what comes back."""
