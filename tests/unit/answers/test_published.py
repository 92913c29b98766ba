"""What the papers say, for notebooks, and what a notebook asks for."""

from __future__ import annotations

import polars as pl
import pytest

import tare


def test_published_figures_have_the_columns_of_a_summary() -> None:
    found = tare.published("detlefs-iv")
    assert found.columns == ["program", "manager", "metric", "value"]
    gawk = found.filter(pl.col("program") == "Gawk", pl.col("manager") == "BW2.6")
    assert set(gawk["metric"]) == {
        "instructions_per_malloc",
        "instructions_per_free",
        "instructions_per_object",
    }
    assert found["value"].null_count() == 0
    everything = tare.published()
    assert everything.columns == ["exhibit", *found.columns]
    assert everything["manager"].null_count() == 0
    assert found.equals(everything.filter(pl.col("exhibit") == "detlefs-iv").drop("exhibit"))


def test_an_unknown_table_names_those_that_there_are() -> None:
    with pytest.raises(tare.UsageError, match=r"detlefs-iv, .*tarditi-9"):
        tare.published("detlefs-4")


def test_all_that_is_missing_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tare.memory_managers.manager.object_path", lambda _recipe: None)
    with pytest.raises(tare.MissingError) as raised:
        tare.require(["kingsley", "haertel"], commands=["no-such-word", "sh"])
    for part in ("kingsley is not", "haertel is not", "on PATH: no-such-word:", "install haertel"):
        assert part in str(raised.value)
    assert raised.value._render_traceback_() == [f"MissingError: {raised.value}"]
    tare.require(["glibc"], commands=["sh"])
    with pytest.raises(tare.UsageError, match="no manager 'kingsly'"):
        tare.require(["kingsly"])
