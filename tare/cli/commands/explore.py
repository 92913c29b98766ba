"""`tare explore`: all results in a folder, as a page or served."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tare.answers.answers import explore
from tare.base.errors import UsageError
from tare.base.interrupts import termination_as_interrupt
from tare.cli.presenting import open_in_browser, print_address
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare explore tare-results
  tare explore --serve --open /srv/measurements
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option("--serve", is_flag=True, help="Serve results of any number, until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to serve. Default: any that is free.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def command(folder: Path, serve: bool, port: int, opens: bool) -> int:
    """Explore all results in FOLDER: filter, draw, and lead to single programs.

    Writes one page, explorer.html, of up to 500 results folders. With --serve, the page is one of a
    server on this machine, for thousands of folders and with queries in SQL. Only who has the
    printed address can read it.
    """
    if port and not serve:
        raise UsageError("--port is for the server", "add --serve")
    watcher = TerminalWatcher()
    if not serve:
        page = explore(folder, watcher.note)
        print_address("page", page, sys.stdout)
        if opens:
            open_in_browser(page.resolve().as_uri())
        return 0
    from tare.answers.explorer.served.index import renewed

    with termination_as_interrupt():
        index = renewed(folder, watcher.note)
        from tare.answers.explorer.served.server import Explorer

        with Explorer(index, port) as server:
            print(f"page:    {server.address}", flush=True)
            print("Ctrl-C ends it", file=sys.stderr)
            with ExitStack() as until_end:
                if opens:
                    open_in_browser(until_end.enter_context(_leading_to(server.address)))
                server.serve_forever()
    return 0


@contextmanager
def _leading_to(address: str) -> Iterator[str]:
    """The address of a file that leads to ``address``: others on the machine see what a browser is
    told to open, and must not see the token."""
    with TemporaryDirectory(prefix="tare-explore-", ignore_cleanup_errors=True) as folder:
        file = Path(folder, "explorer.html")
        file.write_text(f'<meta http-equiv="refresh" content="0; url={address}">')
        yield file.as_uri()
