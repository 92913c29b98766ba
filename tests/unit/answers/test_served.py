"""What the served explorer asks and sends."""

from __future__ import annotations

import math
import sys
from datetime import datetime
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest

from tare.answers.explorer.served.index import renewed
from tare.answers.explorer.served.overview import Asked, overview_sql, quick_sql, quoted
from tare.answers.explorer.served.values import LONGEST_TEXT, in_csv, sendable
from tare.base.errors import MissingError, UsageError

HOSTILE = "x' OR 1 = 1; DROP TABLE medians; --"


def test_values_become_what_a_page_can_have() -> None:
    assert [sendable(value) for value in (None, True, 3, 0.5, "a")] == [None, True, 3, 0.5, "a"]
    assert sendable(1 << 60) == str(1 << 60)
    assert sendable(math.nan) == "nan"
    assert sendable(datetime(2026, 11, 22, 10)) == "2026-11-22 10:00:00"
    assert sendable("a\u202eb\n") == "a\\u{202E}b\\n"
    assert len(sendable("x" * 10_000)) == LONGEST_TEXT


def test_no_formula_in_csv() -> None:
    given = ("=1+1", "@x", "-1", "plain", -1, None)
    assert [in_csv(value) for value in given] == ["'=1+1", "'@x", "'-1", "plain", -1, None]


def test_what_is_asked_for_is_text_in_a_query() -> None:
    duckdb = pytest.importorskip("duckdb", reason="the Python package duckdb")
    connection = duckdb.connect()
    assert connection.execute(f"SELECT {quoted(HOSTILE)}").fetchone() == (HOSTILE,)
    hostile = Asked(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    for sql in (overview_sql(hostile), quick_sql(hostile)):
        assert len(connection.extract_statements(sql)) == 1


def test_without_duckdb_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingError, match=r"DuckDB.*pip install 'tare\[explore\]'") as told:
        renewed(tmp_path, print)
    assert told.value.exit_code == 3


def test_without_results_there_is_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="the Python package duckdb")
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UsageError, match="holds no results that can be read"):
        renewed(tmp_path, print)
    assert list(tmp_path.iterdir()) == []


def test_bounds_of_medians_hold_95_percent() -> None:
    """The place that the index takes, against the binomial distribution."""
    for n in range(6, 300):
        place = max(1, math.floor((n + 1) / 2 - 0.98 * math.sqrt(n)))
        below = Fraction(sum(math.comb(n, k) for k in range(place)), 2**n)
        assert 1 - 2 * below >= Fraction(95, 100), n
    exact = next(n for n in count(1) if 1 - Fraction(2, 2**n) >= Fraction(95, 100))
    assert exact == 6
