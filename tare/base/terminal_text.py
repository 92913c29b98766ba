"""Text from outside, made harmless for a terminal."""

from __future__ import annotations
