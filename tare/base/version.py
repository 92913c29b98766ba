"""The version of Tare, as in pyproject.toml."""

__version__ = "0.2.0"
