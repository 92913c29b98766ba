"""Numbers as people read them, and sizes as people write them."""

from __future__ import annotations

import math
import re

from tare.base.errors import UsageError

_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|KiB|MiB|GiB)?")


def parse_size(text: str) -> int:
    """Bytes of ``64KiB``, ``2GiB``, ``100``; a KiB is 1,024 bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"'{text}' is not a size", "write it like 64KiB, 2MiB or 1GiB")
    return int(float(match["number"]) * _SIZES[match["unit"] or "B"])


_DURATIONS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|min|m|h)?\s*")
_LONGEST_SECONDS = 30 * 24 * 3600.0


def parse_duration(text: str) -> float:
    """Seconds of ``90s``, ``5min``, ``1h30min``, ``45``."""
    place, total = 0, 0.0
    word = text.strip()
    while (match := _DURATION.match(word, place)) is not None:
        total += float(match[1]) * _DURATIONS[match[2] or "s"]
        place = match.end()
    if not word or place != len(word):
        raise UsageError(f"'{text}' is not a time", "write it like 90s, 5min or 1h30min")
    if not 1 <= total <= _LONGEST_SECONDS:
        raise UsageError(f"a time of {text}: give one from 1s to 720h")
    return total


def parse_share(text: str) -> float:
    """A fraction of ``2%`` or ``0.02``."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise UsageError(f"'{text}' is not a share", "write it like 2% or 0.02") from None
    return number / 100 if text.endswith("%") else number


def format_bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:.0f} B" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1024
    raise AssertionError


def format_seconds(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 1 or value == 0:
        return f"{_three_digits(value)} s"
    if magnitude >= 1e-3:
        return f"{_three_digits(value * 1e3)} ms"
    if magnitude >= 1e-6:
        return f"{_three_digits(value * 1e6)} µs"
    return f"{_three_digits(value * 1e9)} ns"


def format_count(value: float) -> str:
    """A count, with k, M, G for thousands, millions and thousand millions."""
    for unit in ("", "k", "M", "G"):
        if abs(value) < 1000 or unit == "G":
            return f"{value:.0f}" if unit == "" else f"{_three_digits(value)} {unit}"
        value /= 1000
    raise AssertionError


def format_value(value: float, unit: str) -> str:
    match unit:
        case "s":
            return format_seconds(value)
        case "B":
            return format_bytes(value)
        case "ratio":
            return _three_digits(value)
        case _:
            return format_count(value)


def format_percent(fraction: float) -> str:
    """A fraction as a percentage, with a decimal only where it says something."""
    percent = abs(fraction) * 100
    return f"{percent:.1f}%" if percent < 10 else f"{percent:.0f}%"


def format_ratio(ratio: float) -> str:
    """Three decimals near 1, where they tell ratios apart; fewer where nobody reads them."""
    decimals = 3 if ratio < 2 else 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{ratio:.{decimals}f}"


def format_floor(floor: float) -> str:
    """The ratios that a noise floor covers: 0.25 is ``0.80 to 1.25``."""
    digits = 3 if floor < 0.1 else 2
    return f"{1 / (1 + floor):.{digits}f} to {1 + floor:.{digits}f}"


def format_duration(seconds: float) -> str:
    """A time that somebody is going to wait: ``3 s``, ``2 min 5 s``, ``1 h 10 min``."""
    total = max(0, round(seconds))
    if total < 60:
        return f"{total} s"
    minutes, rest = divmod(total, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def _three_digits(value: float) -> str:
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 2)}f}"
