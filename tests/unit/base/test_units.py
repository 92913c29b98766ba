"""Times as people write them."""

from __future__ import annotations

import pytest

from tare.base.errors import UsageError
from tare.base.units import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5min", 300), ("1h30min", 5400), ("45", 45), ("1.5 min", 90), ("2m 5s", 125)],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 minutes", "-5s", "5s!", "0s", "0.5", "1000h", "s"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert caught.value.exit_code == 2
    assert "time" in caught.value.message
