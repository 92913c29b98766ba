"""One query of somebody's own, in a process that can be ended whatever it does.

DuckDB looks for an interruption now and then, and not within one long function; its limit of memory
counts not all that it allocates. So the system's limits hold this process, which reads the query
from standard input and writes the answer to standard output:

    python -m tare.answers.explorer.served.asking INDEX json|csv
"""

from __future__ import annotations

import csv
import ctypes
import io
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import IO, Any, NoReturn

from tare.answers.explorer.served.index import library, open_index
from tare.answers.explorer.served.values import in_csv, sendable
from tare.base.errors import UsageError
from tare.base.text import visible

SECONDS = 20
MEMORY_BYTES = 3 << 30
MOST_OUTPUT_BYTES = 256 << 20
MOST_ROWS = 1000
MOST_COLUMNS = 200
LONGEST_QUERY = 100_000
FORMS = ("json", "csv")
_REFUSED = 2
_AT_ONCE = 1000
_PR_SET_PDEATHSIG = 1

_running: set[subprocess.Popen[bytes]] = set()


def ask(
    index: Path, sql: str, form: str, seconds: int = SECONDS, asker: socket | None = None
) -> IO[bytes]:
    """The answer to ``sql``, as a file without a name. UsageError says why there is none. The query
    ends when ``asker`` hangs up, with ConnectionAbortedError."""
    output = tempfile.TemporaryFile()  # noqa: SIM115
    command = [sys.executable, "-P", "-m", __name__, str(index), form, str(seconds)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for who started it, who ends it
    )
    _running.add(process)
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as given:
            given.write(sql.encode())
        if asker is not None:
            _await_end(process, asker)
        process.wait()
    finally:
        process.kill()
        process.wait()
        _running.discard(process)
    output.seek(0)
    if process.returncode == 0:
        return output
    with output:
        raise UsageError(_why(process.returncode, output, seconds))


def _await_end(process: subprocess.Popen[bytes], asker: socket) -> None:
    ended = os.pidfd_open(process.pid)
    try:
        events = select.poll()
        events.register(ended, select.POLLIN)
        events.register(asker, select.POLLRDHUP)
        if ended not in dict(events.poll()):
            raise ConnectionAbortedError("nobody waits for the answer any more")
    finally:
        os.close(ended)


def _why(code: int, output: IO[bytes], seconds: int) -> str:
    if code == _REFUSED:
        return output.read(10_000).decode()
    if code == -signal.SIGALRM:
        return f"stopped after {seconds} seconds: ask for less, or of fewer folders"
    if code == -signal.SIGXFSZ:
        return f"the answer is larger than {MOST_OUTPUT_BYTES >> 20} MiB"
    return "the query needs more memory than it may have, or ended DuckDB"


def end_all() -> None:
    """Ends what still runs."""
    for process in tuple(_running):
        process.kill()


def main() -> int:
    index, form, seconds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # Whoever asks can be killed, and then ends nothing.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    library()
    begun = time.monotonic()
    # The alarm ends the process in the midst of whatever it does.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.alarm(seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_OUTPUT_BYTES, MOST_OUTPUT_BYTES))
    sql = sys.stdin.buffer.read().decode()
    try:
        with open_index(index) as connection:
            found = _executed(connection, sql)
            text = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
            if form == "csv":
                _write_csv(found, text)
            else:
                json.dump(_shown(found, begun), text, allow_nan=False)
            text.flush()
    except (UsageError, MemoryError, library().Error) as error:
        _refuse(visible_lines(str(error) or "not enough memory"))
    return 0


def _refuse(text: str) -> NoReturn:
    """In the place of what was written already."""
    os.ftruncate(1, 0)
    os.lseek(1, 0, os.SEEK_SET)
    os.write(1, text.encode())
    os._exit(_REFUSED)


def visible_lines(text: str) -> str:
    """What DuckDB says points at places of lines below one another."""
    return "\n".join(visible(line) for line in text.splitlines()[:20])


def _executed(connection: Any, sql: str) -> Any:
    statements = connection.extract_statements(sql)
    kinds = library().StatementType
    if len(statements) != 1 or statements[0].type not in (kinds.SELECT, kinds.EXPLAIN):
        raise UsageError("ask one question that reads: SELECT, FROM, WITH, DESCRIBE or EXPLAIN")
    found = connection.execute(statements[0])
    if len(found.description) > MOST_COLUMNS:
        raise UsageError(f"more than {MOST_COLUMNS} columns: name those that you want")
    return found


def _shown(found: Any, begun: float) -> dict[str, Any]:
    rows = found.fetchmany(MOST_ROWS + 1)
    return {
        "columns": [visible(name) for name, *_ in found.description],
        "rows": [[sendable(value) for value in row] for row in rows[:MOST_ROWS]],
        "cut": len(rows) > MOST_ROWS,
        "seconds": time.monotonic() - begun,
    }


def _write_csv(found: Any, file: IO[str]) -> None:
    writer = csv.writer(file)
    writer.writerow([in_csv(name) for name, *_ in found.description])
    while rows := found.fetchmany(_AT_ONCE):
        writer.writerows([[in_csv(value) for value in row] for row in rows])


if __name__ == "__main__":
    sys.exit(main())
