"""Results folders that are damaged, and the commands that read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tare.base.errors import UsageError
from tare.records.results import (
    MEASUREMENTS_FILE,
    RECORDS_FILE,
    Store,
    load,
)
from tests.unit.records.test_results import asked, record


def test_a_bad_parquet_file_gives_a_message(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(asked()))
    parquet = tmp_path / MEASUREMENTS_FILE
    parquet.write_bytes(b"PAR1 nonsense")
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path)
    pl.DataFrame({"x": [1]}).write_parquet(parquet)
    with pytest.raises(UsageError, match="columns"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "splendid"),
        ("metric", "no_such_metric"),
        ("obtained", "guessed"),
        ("program", None),
        ("value", float("nan")),
        ("value", 1e308),
    ],
)
def test_measurements_that_no_run_leaves_are_made_again_of_the_runs(
    tmp_path: Path, column: str, value: Any
) -> None:
    with Store(tmp_path / "r", asked(), key="request") as store:
        store.append(record(1))
        sound = store.finish().measurements
    parquet = tmp_path / "r" / MEASUREMENTS_FILE
    kind = sound.schema[column]
    sound.with_columns(pl.lit(value, kind).alias(column)).write_parquet(parquet)
    assert load(tmp_path / "r").measurements.equals(sound)
    parquet.write_bytes(b"PAR1 nonsense")
    assert load(tmp_path / "r").measurements.equals(sound)
    sound.with_columns(pl.lit(value, kind).alias(column)).write_parquet(parquet)
    (tmp_path / "r" / RECORDS_FILE).unlink()
    with pytest.raises(UsageError, match="values that are not measurements"):
        load(tmp_path / "r")
