"""Text from outside, made harmless for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` without characters that would steer the terminal; a line break shows as ⏎."""
    return "".join(
        c if c.isprintable() else "⏎" if c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
