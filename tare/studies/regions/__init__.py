"""Regions, and what could serve in their place."""
