"""The folder that `tare history` keeps: a Parquet file for each results folder that was added.

A file is written once and never changed, so that jobs that add at the same time, or branches that
are merged, do not meet. Its name begins with the date and the commit, and ends in a hash of what it
holds: what is added twice is there once.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path

from tare.base.errors import UsageError
from tare.base.files import write_atomically, writing
from tare.base.libraries import pl
from tare.base.parquet_files import first_damaged
from tare.gating.changes import BASE, HEAD
from tare.gating.report import STUDY as GATE
from tare.gating.report import subject
from tare.programs.checkouts import Commit
from tare.records.results import CANARY, Results

SCHEMA = 1
MOST_FILES, MANY_FILES = 5_000, 200
MOST_BYTES = 4 << 20
"""Of a file."""
_TEXTS = (
    *("commit", "committed", "summary", "machine", "tare"),
    *("study", "program", "manager", "metric", "unit", "obtained"),
)
_NUMBERS = ("median", "low", "high")


def columns() -> dict[str, pl.DataType]:
    """``committed`` is ISO 8601 in UTC, ``summary`` the first line of the commit's message,
    ``low`` and ``high`` are the extremes of the ``runs``."""
    return {
        "schema": pl.Int64(),
        **dict.fromkeys(_TEXTS, pl.String()),
        **dict.fromkeys(("ancestors", "runs"), pl.Int64()),
        **dict.fromkeys(_NUMBERS, pl.Float64()),
    }


def add(results: Results, commit: Commit, folder: Path) -> Path:
    """Keep the medians of ``results`` as those of ``commit``; the file that has them. Of a gate
    they are those of its head."""
    rows = _rows(results, commit)
    if rows.is_empty():
        raise UsageError(f"{results.folder} has no figure to keep", "every run of it failed")
    content = io.BytesIO()
    rows.write_parquet(content, compression="zstd")
    digest = hashlib.sha256(rows.write_csv().encode()).hexdigest()[:12]
    date = commit.committed.replace("-", "").replace(":", "")[:15]
    path = folder / f"{date}-{commit.name[:12]}-{digest}.parquet"
    with writing(folder, what_is_kept=""):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.getvalue())
    return path


def _rows(results: Results, commit: Commit) -> pl.DataFrame:
    frame = results.measurements.filter(
        pl.col("status") == "ok", pl.col("value").is_finite(), pl.col("study") != CANARY
    )
    if results.run.study == GATE:
        named = pl.lit(subject(results.run))
        frame = frame.filter(pl.col("program") != BASE).with_columns(
            pl.when(pl.col("program") == HEAD).then(named).otherwise("program").alias("program")
        )
    key = ("study", "program", "manager", "metric", "unit", "obtained")
    value = pl.col("value")
    gathered = frame.group_by(key).agg(
        pl.len().cast(pl.Int64).alias("runs"),
        value.median().alias("median"),
        value.min().alias("low"),
        value.max().alias("high"),
    )
    constants = {
        "schema": SCHEMA,
        "commit": commit.name,
        "committed": commit.committed,
        "summary": commit.summary,
        "ancestors": commit.ancestors,
        "machine": str(results.document.get("machine", {}).get("processor", "")),
        "tare": results.run.tare,
    }
    whole = gathered.with_columns(pl.lit(value).alias(name) for name, value in constants.items())
    return whole.select([*columns()]).cast(pl.Schema(columns())).sort(key)


def read(folder: Path, note: Callable[[str], None] = lambda _: None) -> pl.DataFrame:
    """All that was added, in the order of the commits' dates. UsageError where a file is not what
    ``add`` writes."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", "name results to begin one with")
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise UsageError(f"{folder} holds no history", "name results to begin one with")
    if len(files) > MOST_FILES:
        raise UsageError(f"{folder} holds more than {MOST_FILES:,} files")
    if len(files) > MANY_FILES:
        note(f"reading {len(files):,} files")
    for path in files:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is larger than what a history holds")
    if (damaged := first_damaged(dict.fromkeys(files, ""))) is not None:
        raise UsageError(f"{damaged} is damaged", "remove it")
    rows = pl.concat([_checked(path) for path in files])
    return rows.sort("committed", "ancestors", maintain_order=True)


def _checked(path: Path) -> pl.DataFrame:
    frame = pl.read_parquet(path, glob=False)
    if "schema" in frame.columns and (frame["schema"] != SCHEMA).any():
        raise UsageError(f"{path} was written by a newer version of Tare")
    if dict(frame.schema) != columns() or any(frame[name].null_count() for name in frame.columns):
        raise UsageError(f"{path} is no file of a history", "remove it")
    return frame
