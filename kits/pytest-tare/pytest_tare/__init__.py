"""A pytest plugin that limits the memory that tests take. README.md describes it for users.

``peak`` is measured beside the test, by tracemalloc. The other limits take a second run of the test
alone, in a process of its own, in which this plugin only marks where the test's call begins and
ends: see ``native``. Nothing of Tare is imported before a test has a limit.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

OBSERVER_OF = {"objects": "recorder", "bytes": "recorder", "drag": "instrument"}
METRICS = ("peak", *OBSERVER_OF)
OF_TARE = {
    "tare.base.errors": ("TareError",),
    "tare.base.units": ("format_bytes", "parse_share", "parse_size"),
}
INNER = "PYTEST_TARE_INNER"
"""In the environment of the second run: the observer that it runs under."""
SIGNAL = signal.SIGRTMIN + 9
"""Turns the recorder on and off."""
MARKS = (1_234_577, 1_234_579)
"""Sizes of objects that no test makes, whose births bound the test's call in a trace."""
EXIT_NOT_CALLED = 5
_MOST_ROWS = 25


class UnmeasuredError(Exception):
    """Tare could not measure; the text says why."""


class Row(NamedTuple):
    """A figure of a test, its limit, and the figure of the last run, where there are any."""

    test: str
    metric: str
    figure: float
    limit: float | None
    last: float | None

    @property
    def change(self) -> str:
        if self.last is None:
            return "new"
        if self.last == 0:
            return "was 0" if self.figure else "same"
        change = f"{self.figure / self.last - 1:+.1%}"
        return "same" if change[1:] == "0.0%" else change

    @property
    def cells(self) -> tuple[str, ...]:
        limit = "-" if self.limit is None else shown(self.metric, self.limit)
        return self.test, self.metric, shown(self.metric, self.figure), limit, self.change


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tare", "limits on memory (pytest-tare)")
    group.addoption("--tare", action="store_true", help="show the peak of every test")
    group.addoption("--tare-json", metavar="FILE", help="write the table of figures to FILE")
    group.addoption(
        "--tare-strict", action="store_true", help="fail a test that Tare could not measure"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "tare(peak, objects, bytes, drag): limits on the memory that the test takes"
    )
    # Not for a pytest that the test itself starts.
    observer = os.environ.pop(INNER, None)
    config.pluginmanager.register(Inner(observer) if observer else Outer(config), "tare-limits")


class Inner:
    """In the second run: marks the test's call, and ends the process after its teardown, since what
    pytest does at its end takes long under the instrument."""

    def __init__(self, observer: str) -> None:
        self._observer = observer
        self._status = EXIT_NOT_CALLED

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        return (yield from self._marked())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        by_function = isinstance(item, pytest.Function) and not hasattr(item, "_excinfo")
        return (yield) if by_function else (yield from self._marked())

    def _marked(self) -> Generator[None, object, object]:
        self._mark(0)
        try:
            return (yield)
        finally:
            self._mark(1)

    def _mark(self, number: int) -> None:
        if self._observer == "recorder":
            signal.raise_signal(SIGNAL)
        else:
            bytes(MARKS[number])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._status = 1
        elif report.when == "call" and report.passed:
            self._status = 0

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        os._exit(self._status)


class Outer:
    """Measures tests, holds them to their limits, and shows the figures at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._all = bool(config.option.tare)
        self._is_worker = hasattr(config, "workerinput")
        self._rows: list[Row] = []
        self._notes: list[str] = []
        self._last: dict[str, dict[str, float]] | None = None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._is_worker:  # of which pytest-xdist takes no usage error: the tests fail
            return
        for item in items:
            if item.get_closest_marker("tare"):
                with suppress(UnmeasuredError):  # told of where the test runs
                    _limits(item)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        if not self._all and not item.get_closest_marker("tare"):
            return (yield)
        try:
            limits = _limits(item)
        except pytest.UsageError as error:
            pytest.fail(str(error), pytrace=False)
        except UnmeasuredError as error:
            result = yield
            self._finish(item, [], {"tare": str(error)})
            return result
        figures: dict[str, float] = {}
        has_peak = self._all or "peak" in limits
        result = (yield from _with_peak(figures)) if has_peak else (yield)
        if getattr(item, "_excinfo", None):  # a failed unittest.TestCase raises nothing
            return result
        failures = {} if "peak" in figures or not has_peak else {"tracemalloc": "it was stopped"}
        traced = _second_runs(item, limits, failures)
        for metric, observer in OBSERVER_OF.items():
            if metric in limits and observer in traced:
                figures[metric] = traced[observer]["figures"][metric]
        for metric, figure in figures.items():
            item.user_properties.append((f"tare_{metric}", figure))
            if metric in limits:
                item.user_properties.append((f"tare_{metric}_limit", limits[metric]))
        broken = []
        for metric, limit in limits.items():
            if (figure := figures.get(metric, 0)) > limit:
                told = f"{shown(metric, figure)}, over the limit of {shown(metric, limit)}"
                broken += [f"tare: {metric} {told}", *_sites(item, metric, traced)]
        self._finish(item, broken, failures)
        return result

    def _finish(self, item: pytest.Item, broken: list[str], failures: dict[str, str]) -> None:
        """Fail the test if a limit is broken or, where that is asked for, if Tare failed."""
        notes = [f"{item.nodeid}: {what}: {why}" for what, why in failures.items()]
        item.user_properties += [("tare_note", note) for note in notes]
        if lines := broken + (notes if self._config.option.tare_strict else []):
            pytest.fail("\n".join(lines), pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the process that reports: figures of this run, also from workers of pytest-xdist."""
        if report.when != "call" or self._is_worker:
            return
        told = dict(report.user_properties)
        self._notes += [str(text) for name, text in report.user_properties if name == "tare_note"]
        for metric in METRICS:
            if isinstance(figure := told.get(f"tare_{metric}"), int | float):
                limit = told.get(f"tare_{metric}_limit")
                last = self._last_run().get(report.nodeid, {}).get(metric)
                most = limit if isinstance(limit, int | float) else None
                self._rows.append(Row(report.nodeid, metric, figure, most, last))

    def _last_run(self) -> dict[str, dict[str, float]]:
        if self._last is None:
            cache = getattr(self._config, "cache", None)
            found = cache.get("tare/figures", None) if cache else None
            self._last = found if isinstance(found, dict) else {}
        return self._last

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._rows and not self._notes:
            return
        terminalreporter.section("tare")
        for line in _table(self._rows, whole=self._config.option.verbose > 0):
            terminalreporter.write_line(line)
        for note in self._notes[:_MOST_ROWS]:
            terminalreporter.write_line(f"not measured: {note}", yellow=True)
        if (more := len(self._notes) - _MOST_ROWS) > 0:
            terminalreporter.write_line(f"not measured: {more} more", yellow=True)

    def pytest_sessionfinish(self) -> None:
        if self._is_worker:
            return
        if self._rows and (cache := getattr(self._config, "cache", None)):
            kept = {test: dict(figures) for test, figures in self._last_run().items()}
            for row in self._rows:
                kept.setdefault(row.test, {})[row.metric] = row.figure
            cache.set("tare/figures", kept)
        if self._config.option.tare_json:
            told = {"tests": [row._asdict() for row in self._rows], "not_measured": self._notes}
            try:
                Path(self._config.option.tare_json).write_text(json.dumps(told, indent=1) + "\n")
            except OSError as error:
                self._notes.append(f"--tare-json: {error}")


def _load() -> None:
    """What this process uses of Tare; a broken installation can raise anything."""
    try:
        for module, names in OF_TARE.items():
            attrgetter(*names)(import_module(module))
    except Exception as error:
        raise UnmeasuredError(str(error) or type(error).__name__) from None


def _limits(item: pytest.Item) -> dict[str, float]:
    """The limits of a test by metric; those of the closest mark go before."""
    _load()
    found: dict[str, float] = {}
    for mark in item.iter_markers("tare"):
        if mark.args:
            raise _refused(item, f"give limits by name: {', '.join(METRICS)}")
        for name, given in mark.kwargs.items():
            if name not in METRICS:
                raise _refused(item, f"'{name}' is no limit: there are {', '.join(METRICS)}")
            found.setdefault(name, _number(item, name, given))
    return found


def _number(item: pytest.Item, name: str, given: object) -> float:
    from tare.base.errors import TareError
    from tare.base.units import parse_share, parse_size

    value = given
    if isinstance(given, str) and name != "objects":
        try:
            value = parse_share(given) if name == "drag" else parse_size(given)
        except TareError as error:
            raise _refused(item, f"{name}: {error.message}: {error.hint}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        raise _refused(item, f"{name}: {given!r} is not a number from 0 on")
    return float(value)


def _refused(item: pytest.Item, why: str) -> pytest.UsageError:
    return pytest.UsageError(f"{item.nodeid}: mark tare: {why}")


def _with_peak(figures: dict[str, float]) -> Generator[None, object, object]:
    """Runs what it waits for; the most bytes beyond those at the start become the peak."""
    import tracemalloc  # takes longer to load than all else here

    mine = not tracemalloc.is_tracing()
    if mine:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        result = yield
        if tracemalloc.is_tracing():
            figures["peak"] = max(0, tracemalloc.get_traced_memory()[1] - before)
        return result
    finally:
        if mine:
            tracemalloc.stop()


def _second_runs(
    item: pytest.Item, limits: Mapping[str, float], failures: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """By observer; what could not be measured becomes a failure."""
    traced = {}
    for observer in dict.fromkeys(OBSERVER_OF[name] for name in OBSERVER_OF if name in limits):
        try:
            traced[observer] = _second_run(item, observer)
        except UnmeasuredError as error:
            failures[observer] = str(error)
    return traced


def _second_run(item: pytest.Item, observer: str) -> dict[str, Any]:
    """What ``native`` prints of the test alone."""
    with tempfile.TemporaryDirectory(prefix="pytest-tare-") as folder:
        told = {
            "observer": observer,
            "folder": folder,
            "command": _command(item, Path(folder)),
            "directory": str(item.config.invocation_params.dir),
        }
        words = [sys.executable, str(Path(__file__).with_name("native.py"))]
        try:
            done = subprocess.run(words, input=json.dumps(told), capture_output=True, text=True)
        except OSError as error:
            raise UnmeasuredError(str(error)) from None
    try:
        if done.returncode == 0:
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            return found
    except (ValueError, IndexError):
        pass
    why = done.stderr.strip().splitlines()
    raise UnmeasuredError(why[-1] if why else f"exit status {done.returncode}")


def _command(item: pytest.Item, folder: Path) -> list[str]:
    """Of pytest for this test alone, with what decides how it is found, and without what writes
    reports, spreads tests over processes or repeats them."""
    config, option = item.config, item.config.option
    words = [sys.executable, "-m", "pytest", f"--rootdir={config.rootpath}"]
    words += ["-c", str(config.inipath)] if config.inipath else []
    for name in dict.fromkeys([*option.plugins, "pytest_tare"]):
        words += ["-p", name]
    for setting in [*(option.override_ini or ()), "addopts=", f"cache_dir={folder / 'cache'}"]:
        words += ["-o", setting]
    words += [f"--basetemp={folder / 'temporary'}", f"--import-mode={option.importmode}"]
    if config.pluginmanager.hasplugin("benchmark"):
        words.append("--benchmark-disable")
    return [*words, f"{item.path}::{item.nodeid.partition('::')[2]}"]


def _sites(item: pytest.Item, metric: str, traced: dict[str, dict[str, Any]]) -> list[str]:
    """The places with most of a broken limit. What tracemalloc knows at the end of a test is not
    what lived at the peak, so a test over its peak runs once more as well."""
    observer = OBSERVER_OF.get(metric, "recorder")
    if observer not in traced:
        try:
            traced[observer] = _second_run(item, observer)
        except UnmeasuredError as error:
            return [f"  which lines, is not known: {error}"]
    return [
        f"  {shown(metric, value):>9}  {place}"
        for place, value in traced[observer]["sites"][metric]
    ]


def shown(metric: str, value: float) -> str:
    from tare.base.units import format_bytes

    if metric == "drag":
        return f"{value:.1%}"
    return format_bytes(value) if metric in ("peak", "bytes") else f"{value:,.0f}"


def _table(rows: list[Row], *, whole: bool) -> list[str]:
    """Tests with limits first, then the largest figures."""
    rows = sorted(rows, key=lambda row: -row.figure if row.limit is None else -math.inf)
    limited = sum(row.limit is not None for row in rows)
    most = len(rows) if whole else max(limited, _MOST_ROWS)
    cells = [("test", "metric", "figure", "limit", "change"), *(row.cells for row in rows[:most])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)] if rows else []
    lines = []
    for first, second, *others in cells if rows else ():
        numbers = (f"{text:>{width}}" for text, width in zip(others, widths[2:], strict=True))
        lines.append("  ".join([f"{first:<{widths[0]}}", f"{second:<{widths[1]}}", *numbers]))
    more = len(rows) - most
    return [*lines, f"… and {more} more (-v shows all)"] if more > 0 else lines
