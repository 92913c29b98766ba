"""The index over a folder of results: a DuckDB file with all measurements and their medians.

    folders        a row per results folder
    measurements   what all measurements.parquet hold, with the folder
    medians        a row per folder, study, program, manager and metric
    overview       a row per study, metric, program and manager; of each machine and of all ('')
    troubles       what could not be read, and why

It lies in the user's cache folder, not beside the results: an index that comes along with somebody
else's results is never opened. It is made again where results are newer, and can be deleted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.answers.explorer.collecting import all_results_folders
from tare.base.errors import MissingError, TareError, UsageError
from tare.base.files import writing
from tare.base.libraries import pl
from tare.base.parquet_files import first_damaged
from tare.base.text import visible
from tare.base.version import __version__
from tare.campaign import drift
from tare.programs.suite import cache_folder
from tare.records.results import MEASUREMENTS_FILE, RECORDS_FILE, RUN_FILE, Results, load

if TYPE_CHECKING:
    import duckdb

VERSION = f"1 {__version__}"
"""Of the tables below, and of what reads results; an index of another is made again."""
AT_ONCE = 100
"""Folders read before they are written. Few, so that little memory is needed."""
NOTE_EVERY_SECONDS = 2.0
UNUSED_DAYS = 90
FIGURES = """count(median) AS folders, sum(runs)::BIGINT AS runs, sum(failed)::BIGINT AS failed,
    median(median) AS median,
    CASE WHEN count(median) < 6 THEN min(low) ELSE low95(median) END AS low,
    CASE WHEN count(median) < 6 THEN max(high) ELSE high95(median) END AS high,
    median(ratio) AS ratio,
    CASE WHEN count(ratio) > 1 THEN low95(ratio) END AS ratio_low,
    CASE WHEN count(ratio) > 1 THEN high95(ratio) END AS ratio_high"""
"""Of several results folders, each of which counts once."""
MEMORY = "1GB"

# Order statistics: of n values these two enclose the median with a probability of at least 95%.
# Under six values none do, and the bounds are the smallest and the largest.
_TABLES = """
CREATE MACRO place95(n) AS greatest(1, floor((n + 1) / 2 - 0.98 * sqrt(n)))::BIGINT;
CREATE MACRO low95(x) AS CASE WHEN count(x) < 6 THEN min(x)
    ELSE list_sort(list(x) FILTER (x IS NOT NULL))[place95(count(x))] END;
CREATE MACRO high95(x) AS CASE WHEN count(x) < 6 THEN max(x)
    ELSE list_sort(list(x) FILTER (x IS NOT NULL))[count(x) + 1 - place95(count(x))] END;
CREATE TABLE about (version VARCHAR);
CREATE TABLE stamps (folder VARCHAR, stamp VARCHAR);
CREATE TABLE troubles (folder VARCHAR, message VARCHAR);
CREATE TABLE folders (
    folder VARCHAR, command VARCHAR, started TIMESTAMP, finished BOOLEAN, baseline VARCHAR,
    machine VARCHAR, tare VARCHAR);
CREATE TABLE measurements (
    folder VARCHAR, study VARCHAR, program VARCHAR, manager VARCHAR, invocation BIGINT,
    "order" BIGINT, metric VARCHAR, value DOUBLE, unit VARCHAR, status VARCHAR, obtained VARCHAR);
CREATE TABLE medians (
    folder VARCHAR, study VARCHAR, program VARCHAR, manager VARCHAR, metric VARCHAR, unit VARCHAR,
    obtained VARCHAR, runs BIGINT, failed BIGINT, median DOUBLE, low DOUBLE, high DOUBLE,
    ratio DOUBLE);
"""
_MEDIANS = """
WITH sorted AS (
    SELECT folder, study, program, manager, metric, any_value(unit) AS unit,
        any_value(obtained) AS obtained, count(value) AS runs,
        count(*) FILTER (status <> 'ok') AS failed,
        list(value ORDER BY value) FILTER (value IS NOT NULL) AS v
    FROM measured GROUP BY folder, study, program, manager, metric),
figures AS (
    SELECT * EXCLUDE (v), list_median(v) AS median,
        v[CASE WHEN runs < 6 THEN 1 ELSE place95(runs) END] AS low,
        v[CASE WHEN runs < 6 THEN runs ELSE runs + 1 - place95(runs) END] AS high, v[1] AS least
    FROM sorted)
INSERT INTO medians
SELECT mine.* EXCLUDE (least),
    CASE WHEN base.least > 0 THEN mine.median / base.median END AS ratio
FROM figures AS mine JOIN folders USING (folder)
LEFT JOIN figures AS base ON base.folder = mine.folder AND base.study = mine.study
    AND base.program = mine.program AND base.metric = mine.metric
    AND base.manager = folders.baseline
"""
_OVERVIEW = f"""
CREATE OR REPLACE TABLE overview AS
SELECT study, metric, CASE WHEN grouping(machine) = 0 THEN machine ELSE '' END AS machine,
    string_agg(DISTINCT obtained, ' and ') AS obtained, program, manager, {FIGURES}
FROM medians JOIN folders USING (folder)
GROUP BY GROUPING SETS (
    (study, metric, program, manager), (study, metric, program, manager, machine))
"""
_OF_A_FOLDER = ("stamps", "troubles", "folders", "measurements", "medians")


@dataclass(frozen=True)
class Index:
    """``path`` is the database; ``folder`` holds the results, by the names in it."""

    path: Path
    folder: Path


def library() -> Any:
    """The module duckdb. MissingError where it is not installed."""
    try:
        import duckdb
    except ImportError:
        raise MissingError(
            "the served explorer needs DuckDB, which is not installed",
            "pip install 'tare[explore]'",
        ) from None
    return duckdb


def open_index(path: Path) -> duckdb.DuckDBPyConnection:
    """For reading alone: no statement reaches a file, the network or a variable of Python."""
    connection: duckdb.DuckDBPyConnection = library().connect(
        str(path),
        read_only=True,
        config={
            "enable_external_access": "false",
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": MEMORY,
            "temp_directory": "",
            "lock_configuration": "true",
        },
    )
    return connection


def renewed(folder: Path, note: Callable[[str], None]) -> Index:
    """The index of all results in ``folder``, with what is new or changed read again. UsageError
    where there are no results that can be read."""
    library()
    found = {str(path.relative_to(folder)): path for path in all_results_folders(folder)}
    stamps = {visible(name): _stamp(path) for name, path in found.items()}
    kept = cache_folder() / "explore"
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    index = Index(kept / f"{digest}.duckdb", folder)
    if not found:
        raise _nothing(folder)
    known = _known(index.path)
    if known != stamps:
        with writing(kept, what_is_kept=" with TARE_CACHE"):
            kept.mkdir(mode=0o700, parents=True, exist_ok=True)  # the results can be a secret
            _remove_unused(kept)
            _renew(index.path, known, stamps, _reading(found, known, stamps, note))
    with suppress(OSError):
        os.utime(index.path)
    with open_index(index.path) as connection:
        if connection.execute("SELECT count(*) FROM folders").fetchone() == (0,):
            first = connection.execute("SELECT message FROM troubles LIMIT 3").fetchall()
            raise _nothing(folder, *(text for (text,) in first))
    return index


def _nothing(folder: Path, *troubles: str) -> UsageError:
    return UsageError(
        "; ".join([f"{folder} holds no results that can be read", *troubles]),
        "name a results folder that Tare wrote, or a folder with such folders in it",
    )


def _stamp(folder: Path) -> str:
    """Changes when a file does that measurements are made of."""
    parts = []
    for name in (RUN_FILE, RECORDS_FILE, MEASUREMENTS_FILE):
        with suppress(OSError):
            status = (folder / name).stat()
            parts.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return "; ".join(parts)


def _known(path: Path) -> dict[str, str]:
    """What an index has read; nothing where there is none that this Tare understands."""
    if not path.exists():
        return {}
    try:
        with open_index(path) as connection:
            if connection.execute("SELECT version FROM about").fetchone() != (VERSION,):
                return {}
            return dict(connection.execute("FROM stamps").fetchall())
    except library().Error:
        return {}


def _remove_unused(kept: Path) -> None:
    for path in kept.iterdir():
        if time.time() - path.stat().st_mtime <= UNUSED_DAYS * 86_400:
            continue
        if path.is_dir():  # of somebody who was killed
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _renew(
    path: Path, known: Mapping[str, str], stamps: Mapping[str, str], batches: Iterator[_Batch]
) -> None:
    """Into a copy that takes the place of the index when it is whole: who reads the old one goes on
    doing so, and whoever is interrupted leaves it as it was."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as place:
        new = Path(place) / path.name
        try:
            if known:
                shutil.copyfile(path, new)
            with library().connect(str(new), config={"memory_limit": MEMORY}) as connection:
                _write(connection, known, stamps, batches)
        except library().Error as error:
            raise TareError(f"the index {path} cannot be written: {str(error)[:300]}") from None
        new.replace(path)


def _write(
    connection: duckdb.DuckDBPyConnection,
    known: Mapping[str, str],
    stamps: Mapping[str, str],
    batches: Iterator[_Batch],
) -> None:
    if not known:
        connection.execute(_TABLES)
        connection.execute("INSERT INTO about VALUES (?)", [VERSION])
    stale = [name for name, stamp in known.items() if stamps.get(name) != stamp]
    for table in _OF_A_FOLDER if stale else ():
        connection.execute(f"DELETE FROM {table} WHERE folder IN (FROM unnest(?))", [stale])
    for batch in batches:
        batch.write(connection)
    connection.execute(_OVERVIEW)


@dataclass
class _Batch:
    stamps: Mapping[str, str]
    results: Mapping[str, Results]
    troubles: Mapping[str, str]

    def write(self, connection: duckdb.DuckDBPyConnection) -> None:
        for table, rows in (("stamps", self.stamps), ("troubles", self.troubles)):
            if rows:
                connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", [*rows.items()])
        if not self.results:
            return
        connection.executemany(
            "INSERT INTO folders VALUES (?, ?, try_cast(? AS TIMESTAMP), ?, ?, ?, ?)",
            [_described(name, each) for name, each in self.results.items()],
        )
        measured = pl.concat(_named(name, each) for name, each in self.results.items())
        connection.register("measured", measured.to_arrow())
        connection.execute("INSERT INTO measurements FROM measured")
        connection.execute(_MEDIANS)
        connection.unregister("measured")


def _described(name: str, results: Results) -> tuple[object, ...]:
    run = results.run
    texts = (run.baseline, drift.hardware(run), run.tare)
    return name, visible(run.study), run.started[:19], bool(run.finished), *map(visible, texts)


def _named(name: str, results: Results) -> pl.DataFrame:
    """The measurements with their folder, and with names that can be shown."""
    frame = results.measurements
    names = {
        text
        for column in ("study", "program", "manager")
        for text in frame[column].unique()
        if not text.isprintable()
    }
    shown = pl.col("study", "program", "manager").replace({text: visible(text) for text in names})
    return frame.with_columns(shown).select(pl.lit(name).alias("folder"), pl.all())


def _reading(
    found: Mapping[str, Path],
    known: Mapping[str, str],
    stamps: Mapping[str, str],
    note: Callable[[str], None],
) -> Iterator[_Batch]:
    """What has to be read, some folders at a time."""
    names = [name for name in found if known.get(visible(name)) != stamps[visible(name)]]
    batches = [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]
    told = time.monotonic()
    trying = ThreadPoolExecutor(1)
    try:
        # While some are read, another process tries the next.
        files = ([found[name] / MEASUREMENTS_FILE for name in batch] for batch in batches)
        for number, damaged in enumerate(trying.map(_damaged, files)):
            batch = batches[number]
            yield _read(found, batch, damaged, stamps)
            if time.monotonic() - told > NOTE_EVERY_SECONDS and batch is not batches[-1]:
                told = time.monotonic()
                done = (number + 1) * AT_ONCE
                note(f"reading results: {done:,} of {len(names):,} folders")
    finally:
        trying.shutdown(cancel_futures=True)


def _read(
    found: Mapping[str, Path], batch: Sequence[str], damaged: set[Path], stamps: Mapping[str, str]
) -> _Batch:
    results: dict[str, Results] = {}
    troubles: dict[str, str] = {}
    for name in batch:
        try:
            if found[name] / MEASUREMENTS_FILE in damaged:
                raise UsageError(f"{found[name] / MEASUREMENTS_FILE} is damaged")
            if not name.isprintable():
                raise UsageError(f"{visible(name)}: a name with such characters is not read")
            results[name] = load(found[name], tried=True)
        except TareError as error:
            troubles[visible(name)] = visible(error.message)
    return _Batch({visible(name): stamps[visible(name)] for name in batch}, results, troubles)


def _damaged(files: Sequence[Path]) -> set[Path]:
    """Those that no library should be given to decode, found by another process for all at once."""
    left = [path for path in files if path.is_file()]
    damaged: set[Path] = set()
    while left and (bad := first_damaged(dict.fromkeys(left, ""))) is not None:
        damaged.add(bad)
        left = left[left.index(bad) + 1 :]
    return damaged
