"""`tare doctor`: what works on this machine, and why something does not."""

from __future__ import annotations

import sys

import click
from rich.table import Table
from rich.text import Text

from tare.cli.doctor import Finding, examine, fix
from tare.report.terminal import console_on

_STYLES = {
    "works": "green",
    "missing": "yellow",
    "broken": "red",
    "noise": "yellow",
    "set": "green",
}
EPILOG = """\b
Examples:
  tare doctor
  sudo tare doctor --fix
"""


@click.command(epilog=EPILOG)
@click.option(
    "--fix",
    "is_to_fix",
    is_flag=True,
    help="As root: change settings of the system that make measurements noisy, until it reboots.",
)
def command(is_to_fix: bool) -> int:
    """Say what is installed, what works on this machine, and why something does not.

    Every installed manager serves a real run. Exit code 3 when Tare cannot measure at all.
    """
    if is_to_fix:
        return _fix()
    findings = examine()
    _print(findings)
    return 3 if any(f.needed and f.state != "works" for f in findings) else 0


def _fix() -> int:
    findings = fix()
    if not findings:
        print("There is nothing to set. `tare doctor` shows other causes of noise.")
        return 0
    _print(findings)
    return 4 if any(finding.state == "broken" for finding in findings) else 0


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("what", "state", "detail"):
        table.add_column(title, overflow="fold")
    for finding in findings:
        detail = finding.detail + (f"\n→ {finding.mend}" if finding.mend else "")
        style = _STYLES[finding.state]
        table.add_row(Text(finding.subject), Text(finding.state, style=style), Text(detail))
    with console_on(sys.stdout) as console:
        console.print(table)
