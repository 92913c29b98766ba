"""Runs that other tools did."""
