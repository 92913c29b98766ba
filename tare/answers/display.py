"""How notebooks show results, traces and reports. Importing this module lets them."""

from __future__ import annotations

from tare.answers.building import build_report
from tare.base.display import shown_by
from tare.heap_traces.trace import Trace
from tare.records.results import Results
from tare.report.model import Figure, Report, Section
from tare.report.notebook import as_html
from tare.report.trace_summary import summary_report


def _report(report: Report) -> str:
    return as_html(report)


def _results(results: Results) -> str:
    return _report(build_report(results))


def _figure(figure: Figure) -> str:
    return _report(Report("", sections=[Section("", "", figures=[figure])]))


def _trace(trace: Trace) -> str:
    return _report(summary_report(trace))


shown_by(Report, _report)
shown_by(Figure, _figure)
shown_by(Results, _results)
shown_by(Trace, _trace)
