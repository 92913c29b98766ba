"""Results in the forms that other tools read. A new form is a function and a row of ``FORMATS``."""

from __future__ import annotations

import io
import json
import math
import shlex
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from tare.answers.exports.sarif import to_sarif
from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.base.text import FORMULA_STARTS, markdown_code, shortened, visible
from tare.base.units import format_value
from tare.checking import report as check
from tare.checking.limits import judged
from tare.gating import report as gate
from tare.gating.changes import changes
from tare.records.metrics import METRICS
from tare.records.results import Results, read_records, telling_damage
from tare.studies import modules
from tare.studies.imported import report as imported
from tare.studies.proximity import report as proximity
from tare.studies.proximity.analysis import EVERYWHERE
from tare.weighing.actions import actions_of

JSON_SCHEMA_VERSION = 1
_MEASUREMENT_KEYS = ("program", "manager", "invocation", "metric", "value", "unit", "status")
_SUMMARY_KEYS = (
    *("program", "manager", "metric", "median", "low", "high"),
    *("ratio", "ratio_low", "ratio_high", "verdict"),
)
_HEADLINES = ("wall_seconds", "peak_resident_bytes")
_SUCCESS = 0
_NANOSECONDS = 1e9
_APART = ("lower", "higher")
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "\\": "\\textbackslash{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
}


@dataclass(frozen=True)
class Format:
    """``render`` takes the results and their summary (``tare.summary``) and gives a text."""

    title: str
    render: Callable[[Results, pl.DataFrame], str]


def to_json(results: Results, summary: pl.DataFrame) -> dict[str, Any]:
    """What ``--json`` writes. A measurement that is not ``ok`` has no key ``value``; a figure of
    the summary that does not exist is null. Results of `tare check` have their limits as well,
    those of `tare gate` what changed, those of `tare weigh`, `drag` and `space` what they advise to
    do, and those of `tare tune` what to set."""
    measurements = []
    found = _settings(results)
    keys = [*_MEASUREMENT_KEYS, *(["study"] if found else [])]  # a search, and what confirms it
    for row in results.measurements.select(keys).iter_rows(named=True):
        if _finite(row["value"]) is None:
            del row["value"]
        measurements.append(row)
    return {
        "tare": results.run.tare,
        "schema": JSON_SCHEMA_VERSION,
        "study": results.run.study,
        "measurements": measurements,
        "summary": [
            {
                key: _finite(value) if isinstance(value, float) else value
                for key, value in row.items()
            }
            for row in summary.select(_SUMMARY_KEYS).iter_rows(named=True)
        ],
        **({"actions": _actions(results)} if _advises(results) else {}),
        **found,
        **({"limits": [asdict(row) for row in judged(results)]} if _has_limits(results) else {}),
        **({"changes": [asdict(row) for row in changes(results)]} if _is_gate(results) else {}),
    }


def _actions(results: Results) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = to_builtins(actions_of(results))
    return [{name: each[name] for name in each if name != "others"} for each in found]


def _advises(results: Results) -> bool:
    """Whether results are of what looks for things to do."""
    return results.run.study in ("weigh", *(name for name, _ in modules("actions")))


def _settings(results: Results) -> dict[str, Any]:
    """What a study that looks for settings found, under that name."""
    looking = dict(modules("settings")).get(results.run.study)
    return {"settings": to_builtins(looking.settings(results))} if looking else {}


def _has_limits(results: Results) -> bool:
    return results.run.study == check.STUDY


def _is_gate(results: Results) -> bool:
    return results.run.study == gate.STUDY


def to_csv(results: Results) -> str:
    """All measurements. A text which a spreadsheet would run as a formula starts with ``'``."""
    texts = [name for name, kind in results.measurements.schema.items() if kind == pl.String]
    frame = results.measurements.with_columns(
        pl.when(pl.col(name).str.slice(0, 1).is_in(FORMULA_STARTS))
        .then(pl.lit("'") + pl.col(name))
        .otherwise(pl.col(name))
        .alias(name)
        for name in texts
    )
    buffer = io.StringIO()
    frame.write_csv(buffer)
    return buffer.getvalue()


def to_markdown(summary: pl.DataFrame) -> str:
    """The summary as a table for a pull request: time and memory, or every metric of a study that
    has neither."""
    metrics, rows = _headline_table(summary)
    header = ["program", "manager"]
    for name in metrics:
        title = METRICS[name].title if name in METRICS else markdown_code(name)
        header += [title, "ratio (95% interval)"]
    lines = [header, ["---", "---", *["---:", "---"] * len(metrics)]]
    for program, manager, cells in rows:
        line = [markdown_code(program), markdown_code(manager)]
        for cell in cells:
            line += _markdown_cells(cell)
        lines.append(line)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


_Row = Mapping[str, Any]


def _headline_table(
    summary: pl.DataFrame,
) -> tuple[list[str], list[tuple[str, str, list[_Row | None]]]]:
    """The metrics of a small table, and by program and manager their rows of the summary."""
    cells = {(r["program"], r["manager"], r["metric"]): r for r in summary.iter_rows(named=True)}
    present = dict.fromkeys(metric for _, _, metric in cells)
    metrics = [name for name in _HEADLINES if name in present] or list(present)
    pairs = dict.fromkeys((program, manager) for program, manager, _ in cells)
    return metrics, [(p, m, [cells.get((p, m, name)) for name in metrics]) for p, m in pairs]


def to_hyperfine(results: Results) -> dict[str, Any]:
    """The form of hyperfine's ``--export-json``: an entry per program and manager.

    The manager is the entry's parameter, and a comment at the end of its command. Only runs that
    were ``ok`` are in it, since the form can give a time to any other; no such run, no entry.
    """
    commands = {program.name: shlex.join(program.argv) for program in results.run.programs}
    good = results.measurements.filter(
        (pl.col("status") == "ok") & pl.col("value").is_finite()
    ).sort("order")
    entries = []
    for key, runs in good.group_by("program", "manager", maintain_order=True):
        program, manager = map(str, key)
        values = {
            str(metric): part["value"].to_list()
            for (metric,), part in runs.group_by("metric", maintain_order=True)
        }
        if times := values.get("wall_seconds"):
            command = f"{commands.get(program, program)}  # {visible(manager)}"
            entries.append(_hyperfine_entry(command, manager, times, values))
    return {"results": entries}


def to_bencher(summary: pl.DataFrame) -> dict[str, Any]:
    """Bencher's Metric Format: a benchmark per program and manager, a measure per metric, with the
    bounds of its median. Wall time is there as Bencher's own measure, too: ``latency``, in
    nanoseconds. A program without a figure has no entry, since the form has no word for it."""
    found: dict[str, dict[str, Any]] = {}
    for row in summary.iter_rows(named=True):
        if _finite(row["median"]) is None:
            continue
        name = shortened(f"{visible(row['program'])} under {visible(row['manager'])}", 1024)
        measures = found.setdefault(name, {})
        measures[row["metric"].replace("_", "-")] = _bencher_metric(row, 1.0)
        if row["metric"] == "wall_seconds":
            measures["latency"] = _bencher_metric(row, _NANOSECONDS)
    return found


def _bencher_metric(row: Mapping[str, Any], factor: float) -> dict[str, float]:
    keys = {"value": "median", "lower_value": "low", "upper_value": "high"}
    return {key: row[of] * factor for key, of in keys.items() if _finite(row[of]) is not None}


def to_latex(summary: pl.DataFrame) -> str:
    """The summary as a table of the package booktabs. Bold is a difference beyond noise."""
    metrics, lines = _headline_table(summary)
    columns = "ll" + "rr" * len(metrics)
    heads = [
        f"\\multicolumn{{2}}{{r}}{{{_latex(METRICS[name].title if name in METRICS else name)}}}"
        for name in metrics
    ]
    rows = [
        " & ".join([_latex(visible(program)), _latex(visible(manager)), *map(_latex_cells, cells)])
        for program, manager, cells in lines
    ]
    return (
        "% needs \\usepackage{booktabs}; ratios to the baseline with 95% intervals\n"
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n"
        f"{' & '.join(['program', 'manager', *heads])} \\\\\n\\midrule\n"
        + "".join(f"{row} \\\\\n" for row in rows)
        + "\\bottomrule\n\\end{tabular}\n"
    )


def _latex_cells(row: Mapping[str, Any] | None) -> str:
    if row is None or _finite(row["median"]) is None:
        return "\\multicolumn{2}{r}{no data}"
    median = _latex(format_value(row["median"], row["unit"] or ""))
    if row["verdict"] == "baseline" or _finite(row["ratio"]) is None:
        return f"{median} & {'baseline' if row['verdict'] == 'baseline' else 'no data'}"
    ratio = f"{row['ratio']:.3f} ({row['ratio_low']:.3f}--{row['ratio_high']:.3f})"
    return f"{median} & " + (f"\\textbf{{{ratio}}}" if row["verdict"] in _APART else ratio)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _hyperfine_entry(
    command: str, manager: str, times: list[float], values: Mapping[str, list[float]]
) -> dict[str, Any]:
    memory = values.get("peak_resident_bytes", [])
    return {
        "command": command,
        "mean": statistics.fmean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
        "user": statistics.fmean(values.get("user_seconds") or [0.0]),
        "system": statistics.fmean(values.get("system_seconds") or [0.0]),
        "min": min(times),
        "max": max(times),
        "times": times,
        **({"memory_usage_byte": [round(value) for value in memory]} if memory else {}),
        "exit_codes": [_SUCCESS] * len(times),
        "parameters": {"manager": manager},
    }


def _markdown_cells(row: Mapping[str, Any] | None) -> list[str]:
    if row is None or _finite(row["median"]) is None:
        return ["no data", ""]
    median = format_value(row["median"], row["unit"] or "")
    if row["verdict"] == "baseline":
        return [median, "baseline"]
    if _finite(row["ratio"]) is None:
        return [median, "no data"]
    ratio = f"{row['ratio']:.3f} ({row['ratio_low']:.3f} to {row['ratio_high']:.3f})"
    if row["verdict"] in _APART:
        return [median, f"**{ratio}**"]
    return [median, f"{ratio}, {row['verdict']}"]


_WITH_TIMELINES = (proximity.STUDY, imported.STUDY)


def to_perfetto(results: Results) -> dict[str, Any]:
    """Trace events for ui.perfetto.dev: a process for each run of `tare proximity` or of DaCapo,
    with a track of what stopped all threads, and for each thread its events and what stopped it
    alone."""
    found: list[dict[str, Any]] = []
    with telling_damage(results):
        for number, record in enumerate(read_records(results.folder), 1):
            timeline = record.outcome.details.get("timeline")
            if record.run.study not in _WITH_TIMELINES or timeline is None:
                continue
            run = record.run
            name = f"{visible(run.program)} under {visible(run.manager)}, run {run.invocation + 1}"
            found.append(_perfetto_name("process_name", number, 0, shortened(name, 1024)))
            found.append(_perfetto_name("thread_name", number, 0, "all threads"))
            tracks: dict[int, int] = {EVERYWHERE: 0}
            slices = [(start, length, thread, "event") for start, length, thread
                      in timeline["events"]]  # fmt: skip
            for start, length, thread, kind in sorted([*slices, *map(tuple, timeline["halts"])]):
                if thread not in tracks:
                    tracks[thread] = len(tracks)
                    found.append(
                        _perfetto_name(
                            "thread_name",
                            number,
                            tracks[thread],
                            f"{visible(timeline.get('track', 'thread'))} {thread}",
                        )
                    )
                found.append(
                    {
                        "name": kind,
                        "cat": "event" if kind == "event" else "halt",
                        "ph": "X",
                        "ts": start / 1e3,
                        "dur": length / 1e3,
                        "pid": number,
                        "tid": tracks[thread],
                    }
                )
    if not found:
        raise UsageError(
            f"{results.folder} has no timeline",
            "give results that this version made with tare proximity, or with tare import "
            "from DaCapo's latencies",
        )
    return {"traceEvents": found, "displayTimeUnit": "ns"}


def _perfetto_name(what: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _json_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _markdown_text(results: Results, summary: pl.DataFrame) -> str:
    if _is_gate(results):
        return gate.to_markdown(results)
    return check.to_markdown(results) if _has_limits(results) else to_markdown(summary)


def _sarif(results: Results) -> dict[str, Any]:
    if not _advises(results):
        study = results.run.study
        raise UsageError(
            f"results of tare {study} name no lines to change",
            "sarif takes those of tare weigh, drag and space",
        )
    return to_sarif(results, Path.cwd())


FORMATS: dict[str, Format] = {
    "csv": Format("all measurements, one per line", lambda results, _: to_csv(results)),
    "json": Format(
        "measurements and summary",
        lambda results, summary: _json_text(to_json(results, summary)),
    ),
    "markdown": Format("the summary as a table for a pull request", _markdown_text),
    "latex": Format("the summary as a table for a paper", lambda _, summary: to_latex(summary)),
    "bencher": Format(
        "the summary for bencher.dev", lambda _, summary: _json_text(to_bencher(summary))
    ),
    "hyperfine": Format(
        "what hyperfine --export-json writes",
        lambda results, _: _json_text(to_hyperfine(results)),
    ),
    "sarif": Format(
        "what to do, by line, for code hosts and editors",
        lambda results, _: _json_text(_sarif(results)),
    ),
    "perfetto": Format(
        "events and collections of tare proximity, or DaCapo's requests, on a timeline, for "
        "ui.perfetto.dev",
        lambda results, _: _json_text(to_perfetto(results)),
    ),
}
