"""The results folder: what was asked, every run as it happened, and the tidy measurements.

    run.json               what was asked, of which versions, on which machine
    runs.jsonl             one line per finished run, appended at once: nothing measured is lost
    measurements.parquet   one row per program, manager, invocation and metric, made from the above
    report.html            the page, made from the above
    outputs/               the start of each program's standard output, for a look at differences

A folder can be interrupted at any point: the lines of runs.jsonl are the truth, and the rest is
made from them again.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tare.base.display import Displayed
from tare.base.documents import DocumentError, converted, no_number
from tare.base.errors import UsageError
from tare.base.files import write_atomically, writing
from tare.base.libraries import pl
from tare.base.parquet_files import first_damaged
from tare.base.version import __version__
from tare.records.header import Header
from tare.records.machine import describe_environment, describe_machine, frequencies_mhz
from tare.records.metrics import FIRST_METRICS, METRICS, Obtained, Status, obtained
from tare.records.runs import GREATEST_VALUE, Record, now

SCHEMA = 1
RUN_FILE = "run.json"
RECORDS_FILE = "runs.jsonl"
MEASUREMENTS_FILE = "measurements.parquet"
PAGE_FILE = "report.html"
OUTPUTS_FOLDER = "outputs"
_RUN_FILE_LIMIT = 16 << 20
_RECORDS_LIMIT = 4 << 30
_MANY_RECORDS = 32 << 20
_MOST_ROWS = 100_000_000
Kind = TypeVar("Kind", bound=Header)
CANARY = "canary"
"""The study of the runs that only watch the machine, see ``tare.campaign.canary``."""


@dataclass(frozen=True)
class Results(Displayed):
    """A results folder as studies and reports read it.

    ``measurements`` has the columns study, program, manager, invocation, order, metric, value,
    unit, status, obtained; ``value`` is null unless the status is ``ok``.
    """

    folder: Path
    document: dict[str, Any]
    """All that run.json holds."""
    measurements: pl.DataFrame

    @cached_property
    def run(self) -> Header:
        return converted(self.document, Header)

    def run_as(self, kind: type[Kind]) -> Kind:
        """``run``, with what single studies keep in run.json. Raises DocumentError."""
        return converted(self.document, kind)


class InFolder(Protocol):
    @property
    def folder(self) -> Path: ...


@contextmanager
def telling_damage(results: InFolder) -> Iterator[None]:
    """UsageError where what a study reads in a results folder, or a display in the description of a
    trace, turns out to be something else."""
    try:
        yield
    except (
        *(LookupError, TypeError, ValueError, AttributeError),
        *(ArithmeticError, RecursionError, pl.exceptions.PolarsError),
    ) as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        raise UsageError(
            f"{results.folder} is damaged ({type(error).__name__}: {reason})",
            "measure again; if nobody changed the folder, please report this as a fault of Tare",
        ) from error


def default_folder(study: str, subject: str) -> Path:
    """A name for a new results folder that says what is in it; never one that exists."""
    words = "".join(c if c.isalnum() or c in "._-" else "-" for c in subject)[:40].strip("-.")
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("tare-results") / f"{study}-{words or 'program'}-{stamp}-{os.getpid()}"


class Store:
    """An open results folder. One process at a time may write to it; close() gives it back."""

    def __init__(self, folder: Path, run: Mapping[str, Any], *, key: str) -> None:
        """Create ``folder``, or open it again when it holds an unfinished answer to the same
        question: the values at ``key`` must agree."""
        self.folder = folder
        if folder.is_symlink() and not folder.exists():
            raise UsageError(f"{folder} is a broken link", "name another with -o")
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, not a folder", "name another with -o")
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / ".lock").open("w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"another tare is writing to {folder}", "name another folder with -o"
                ) from None
            self.document = self._adopt(dict(run), key)
            self.records = read_records(folder)
            self._cut_torn_line()
            self._log = (folder / RECORDS_FILE).open("a")
            self.workspace = folder / ".work"
            self.workspace.mkdir(exist_ok=True)

    @property
    def run(self) -> Header:
        return converted(self.document, Header)

    def _adopt(self, run: dict[str, Any], key: str) -> dict[str, Any]:
        if not (self.folder / RUN_FILE).exists():
            others = [p.name for p in self.folder.iterdir() if p.name not in (".lock", ".work")]
            if others:
                raise UsageError(
                    f"{self.folder} exists and is not a results folder", "name another with -o"
                )
            self._write_run(run)
            return run
        earlier = read_document(self.folder)
        if earlier.get(key) != json.loads(json.dumps(run[key])):
            raise UsageError(
                f"{self.folder} holds results of a different command",
                "to resume it, give the same program, managers and options; or name another folder",
            )
        return earlier

    def _cut_torn_line(self) -> None:
        """A killed process can leave half a line; what follows must not be glued to it."""
        path = self.folder / RECORDS_FILE
        if not path.exists():
            return
        with path.open("rb+") as file:
            content_end = file.seek(0, os.SEEK_END)
            while content_end > 0:
                file.seek(content_end - 1)
                if file.read(1) == b"\n":
                    break
                content_end -= 1
            file.truncate(content_end)

    def _write_run(self, run: Mapping[str, Any]) -> None:
        write_atomically(self.folder / RUN_FILE, json.dumps(run, indent=2) + "\n")

    def update(self, **facts: Any) -> None:
        """Add facts to run.json."""
        self.document.update(facts)
        with writing(self.folder):
            self._write_run(self.document)

    def end(self) -> None:
        """Say in run.json that the study has ended, and how it found the machine then."""
        self.update(finished=now(), **_frequencies("end", self.document))

    def append(self, record: Record) -> None:
        """Keep a finished run. It is on its way to the disk when this returns."""
        with writing(self.folder):
            self._log.write(record.to_line() + "\n")
            self._log.flush()
        self.records.append(record)

    def finish(self) -> Results:
        """Write measurements.parquet from all runs so far; give the folder as reports read it."""
        frame = measurements_frame(self.run, self.records)
        content = io.BytesIO()
        frame.write_parquet(content)
        with writing(self.folder):
            write_atomically(self.folder / MEASUREMENTS_FILE, content.getvalue())
        return Results(self.folder, self.document, frame)

    def close(self) -> None:
        shutil.rmtree(self.workspace, ignore_errors=True)
        self._log.close()
        self._lock.close()
        (self.folder / ".lock").unlink(missing_ok=True)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def new_run(study: str, command: Sequence[str], **facts: Any) -> dict[str, Any]:
    """The start of a run.json."""
    return {
        "tare": __version__,
        "schema": SCHEMA,
        "study": study,
        "command": list(command),
        "started": now(),
        "machine": describe_machine(),
        "environment": describe_environment(),
        **_frequencies("start"),
        **facts,
    }


def _frequencies(when: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What run.json says of the processors' clocks; nothing where the kernel does not."""
    known = (document or {}).get("frequencies_mhz", {})
    found = frequencies_mhz()
    return {"frequencies_mhz": {**known, when: list(found)}} if found else {}


def read_run(folder: Path) -> Header:
    return converted(read_document(folder), Header)


def read_document(folder: Path) -> dict[str, Any]:
    """All that run.json holds, once it is sure that it is a ``Header``."""
    path = folder / RUN_FILE
    try:
        if not path.is_file():
            raise UsageError(f"{folder} is not a results folder (it has no {RUN_FILE})")
        if path.stat().st_size > _RUN_FILE_LIMIT:
            raise UsageError(f"{path} is too large for a results folder")
        run = json.loads(path.read_text(encoding="utf-8"), parse_constant=no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not isinstance(run, dict) or not isinstance(run.get("schema"), int):
        raise UsageError(f"{path} was not written by Tare")
    if run["schema"] > SCHEMA:
        raise UsageError(
            f"{path} has schema {run['schema']}; this Tare reads up to {SCHEMA}",
            "use the Tare that wrote it, or a newer one",
        )
    try:
        converted(run, Header)
    except DocumentError as error:
        raise UsageError(f"{path}: {error}") from None
    return run


def read_records(folder: Path) -> list[Record]:
    """All whole lines of runs.jsonl; a torn last line is dropped."""
    path = folder / RECORDS_FILE
    if not path.is_file():  # a pipe would never end
        return []
    if path.stat().st_size > _RECORDS_LIMIT:
        raise UsageError(f"{path} is larger than {_RECORDS_LIMIT:,} bytes")
    records = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                records.append(Record.from_line(line.decode()))
            except (ValueError, RecursionError) as error:
                raise UsageError(
                    f"{path}, line {number}, is damaged: {error}",
                    "remove that line to read the other runs",
                ) from None
    return records


def counted(records: Sequence[Record]) -> list[Record]:
    """The runs that answer the question. Those of a program that was begun anew on another kind of
    machines are set aside, so that a ratio never mixes machines."""
    answers = [record for record in records if record.run.study != CANARY]
    last = {record.run.program: record.run.group for record in answers}
    return [record for record in answers if record.run.group == last[record.run.program]]


def load(folder: Path | str, *, tried: bool = False) -> Results:
    """Read a results folder, finished or not. Measurements are made of the runs, where these are
    there; of very many runs those that were made before are read, which is quicker. ``tried``: they
    are read of few runs as well, and the caller knows that their file can be decoded."""
    folder = Path(folder)
    document = read_document(folder)
    parquet = folder / MEASUREMENTS_FILE
    records_file = folder / RECORDS_FILE
    if parquet.is_file():
        runs = records_file.stat() if records_file.is_file() else None
        if runs is None:
            return Results(folder, document, _read_measurements(parquet, tried))
        many = tried or runs.st_size > _MANY_RECORDS
        if many and parquet.stat().st_mtime_ns >= runs.st_mtime_ns:
            with suppress(UsageError):
                return Results(folder, document, _read_measurements(parquet, tried))
    frame = measurements_frame(converted(document, Header), read_records(folder))
    return Results(folder, document, frame)


def _read_measurements(path: Path, tried: bool) -> pl.DataFrame:
    """The rows of measurements.parquet. UsageError where they are not what runs leave there."""
    try:
        if not tried and first_damaged({path: ""}) is not None:
            raise UsageError(f"{path} cannot be read: it is damaged")
        if pl.scan_parquet(path, glob=False).select(pl.len()).collect().item() > _MOST_ROWS:
            raise UsageError(f"{path} has more than {_MOST_ROWS:,} rows")
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if dict(frame.schema) != measurement_schema():
        raise UsageError(f"{path} does not have the columns of a results folder")
    known: dict[str, list[str]] = {
        "metric": [*METRICS],
        "status": [*Status],
        "obtained": [*Obtained],
    }
    sound = frame.select(
        pl.all_horizontal(
            pl.col("value").is_null() | pl.col("value").abs().le(GREATEST_VALUE),
            *(pl.col(name).is_in(words) for name, words in known.items()),
            *(pl.col(name).is_not_null() for name in frame.columns if name != "value"),
        ).all()
    ).item()
    if not sound:
        raise UsageError(f"{path} holds values that are not measurements")
    return _with_processor_time(frame)


_PROCESSOR_TIMES = {"user_seconds", "system_seconds"}


def _with_processor_time(frame: pl.DataFrame) -> pl.DataFrame:
    """Folders of earlier versions have its two parts alone."""
    if (frame["metric"] == "processor_seconds").any():
        return frame
    parts = frame.filter(pl.col("metric").is_in(_PROCESSOR_TIMES), pl.col("value").is_not_null())
    run = [name for name in frame.columns if name not in ("metric", "value")]
    both = parts.group_by(run, maintain_order=True).agg(pl.len(), pl.col("value").sum())
    added = both.filter(pl.col("len") == len(_PROCESSOR_TIMES)).select(
        *run, "value", metric=pl.lit("processor_seconds")
    )
    return pl.concat([frame, added.select(frame.columns)])


def measurement_schema() -> dict[str, Any]:
    """Column names and Polars types of measurements.parquet."""
    return {
        "study": pl.String,
        "program": pl.String,
        "manager": pl.String,
        "invocation": pl.Int64,
        "order": pl.Int64,
        "metric": pl.String,
        "value": pl.Float64,
        "unit": pl.String,
        "status": pl.String,
        "obtained": pl.String,
    }


def measurements_frame(run: Header, records: Sequence[Record]) -> pl.DataFrame:
    """The tidy rows of all runs that count, but those that warmed up well.

    A run that is not ok gives one row, with the wall time as its metric and no value.
    """
    rows: dict[str, list[Any]] = {name: [] for name in measurement_schema()}
    records = counted(records)
    references = reference_outputs(run, records)
    for record in records:
        status = judged_status(record, references)
        if record.run.warmup and status is Status.OK:
            continue
        values: Mapping[str, float | None] = record.outcome.values
        if status is not Status.OK:
            values = {FIRST_METRICS.get(record.run.observer, "wall_seconds"): None}
        elif values.keys() >= _PROCESSOR_TIMES:
            values = {**values, "processor_seconds": sum(values[m] or 0 for m in _PROCESSOR_TIMES)}
        for metric, value in values.items():
            entry = (
                record.run.study,
                record.run.program,
                record.run.manager,
                record.run.invocation,
                record.run.order,
                metric,
                None if value is None else float(value),
                METRICS[metric].unit,
                str(status),
                str(obtained(metric, record.run.observer)),
            )
            for column, item in zip(rows.values(), entry, strict=True):
                column.append(item)
    return pl.DataFrame(rows, schema=measurement_schema())


def reference_outputs(run: Header, records: Sequence[Record]) -> dict[str, str | None]:
    """The hash that each program's standard output must have; None where outputs cannot be
    compared, because they are ignored or differ from run to run under the baseline itself."""
    references: dict[str, str | None] = {}
    for program in run.programs:
        if program.ignore_output:
            references[program.name] = None
        elif program.output_sha256:
            references[program.name] = program.output_sha256
        else:
            hashes = {
                record.outcome.output_sha256
                for record in records
                if record.run.program == program.name
                and record.run.manager == run.baseline
                and record.outcome.status is Status.OK
            }
            references[program.name] = hashes.pop() if len(hashes) == 1 else None
    return references


def judged_status(record: Record, references: Mapping[str, str | None]) -> Status:
    """The status of a run once its output is held against the other managers'."""
    expected = references.get(record.run.program)
    outcome = record.outcome
    if outcome.status is Status.OK and expected is not None and outcome.output_sha256 != expected:
        return Status.WRONG_OUTPUT
    return outcome.status
