"""The server of the explorer: this machine alone, for who knows the token in its address.

A page of another site that is open in the same browser reaches the port as well. It does not know
the token, is refused by its name in the header Host where it had its name resolved to this machine,
and by the header Origin; and no answer allows another site to read it.
"""

from __future__ import annotations

import json
import secrets
import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tare.answers.building import build_report
from tare.answers.explorer.served import overview
from tare.answers.explorer.served.asking import FORMS, LONGEST_QUERY, ask, end_all
from tare.answers.explorer.served.index import Index, open_index
from tare.answers.explorer.served.page import render_served
from tare.base.documents import DocumentError, converted
from tare.base.errors import TareError, UsageError
from tare.base.text import visible
from tare.records.results import PAGE_FILE, load
from tare.report.page import render_page

if TYPE_CHECKING:
    import duckdb

HOST = "127.0.0.1"
IDLE_SECONDS = 30
MOST_PAGE_BYTES = 64 << 20
AT_ONCE = 2
"""Queries of a reader's own that may run together."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_NOTHING = "default-src 'none'; frame-ancestors 'none'"
_OF_PAGE = "frame-ancestors 'none'"
"""The page says the rest itself."""
_OF_REPORT = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""A report is of another origin than the explorer, and reads nothing of it."""


class Explorer(ThreadingHTTPServer):
    """Serves until ``serve_forever`` is interrupted; ``address`` has the token."""

    daemon_threads = True

    def __init__(self, index: Index, port: int = 0) -> None:
        self.index = index
        self.token = secrets.token_urlsafe(24)
        self.asking = threading.BoundedSemaphore(AT_ONCE)
        self.connection: duckdb.DuckDBPyConnection = open_index(index.path)
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"port {port} cannot be served: {error}", "leave --port out to have a free one"
            ) from None

    @property
    def hosts(self) -> tuple[str, str]:
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def address(self) -> str:
        return f"http://{self.hosts[0]}/{self.token}/"

    def server_close(self) -> None:
        super().server_close()
        end_all()
        self.connection.close()
        # What threads that still wait for a browser would hold at the end, DuckDB calls leaked.
        del self.connection

    def handle_error(self, *_: object) -> None:
        """A browser that went away is no news."""


class RefusedError(Exception):
    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Explorer
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, method: Any) -> None:
        try:
            method(self._path())
        except RefusedError as refusal:
            self._send(str(refusal).encode(), "text/plain", status=refusal.status)
        except (TareError, OSError) as error:
            self._send(str(error).encode(), "text/plain", status=HTTPStatus.BAD_REQUEST)

    def _path(self) -> str:
        """What is asked for, by who may ask."""
        if self.headers.get("Host", "") not in self.server.hosts:
            raise RefusedError(HTTPStatus.FORBIDDEN, "not for another host")
        origins = {f"http://{host}" for host in self.server.hosts}
        if self.headers.get("Origin") not in {None, *origins}:
            raise RefusedError(HTTPStatus.FORBIDDEN, "not for another site")
        _, token, path = [*urlsplit(self.path).path.split("/", 2), "", ""][:3]
        if not compare_digest(token.encode(), self.server.token.encode()):
            raise RefusedError(HTTPStatus.FORBIDDEN, "open the address that tare explore printed")
        return path

    def _get(self, path: str) -> None:
        if path == "":
            page = render_served(self._start()).encode()
            self._send(page, "text/html", policy=_OF_PAGE)
        elif path == "overview":
            asked = self._asked()
            sql = overview.overview_sql(asked)
            self._view(overview.quick_sql(asked), overview.MOST_CELLS, sql=sql)
        elif path == "folders":
            self._view(overview.folders_sql(self._asked()), overview.MOST_POINTS)
        elif path.startswith("report/"):
            report = self._report(unquote(path.removeprefix("report/")))
            self._send(report, "text/html", policy=_OF_REPORT)
        else:
            raise RefusedError(HTTPStatus.NOT_FOUND, "nothing is here")

    def _post(self, path: str) -> None:
        form = path.removeprefix("query.")
        if path == form or form not in FORMS:
            raise RefusedError(HTTPStatus.NOT_FOUND, "nothing is here")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_QUERY:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the query is too long")
        sql = self.rfile.read(int(length)).decode(errors="replace")
        if not self.server.asking.acquire(blocking=False):
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "wait: other queries still run")
        try:
            answer = ask(self.server.index.path, sql, form, asker=self.connection)
        finally:
            self.server.asking.release()
        with answer:
            kind = "text/csv" if form == "csv" else "application/json"
            self._send(answer, kind)

    def _start(self) -> dict[str, Any]:
        folder = visible(self.server.index.folder.resolve().name or "/")
        with self.server.connection.cursor() as cursor:
            return overview.start(cursor, folder)

    def _asked(self) -> overview.Asked:
        given = dict(parse_qsl(urlsplit(self.path).query))
        try:
            return converted(given, overview.Asked)
        except DocumentError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from None

    def _view(self, query: str, most: int, **more: str) -> None:
        with self.server.connection.cursor() as cursor:
            found = {**overview.view(cursor, query, most), **more}
        self._send(json.dumps(found).encode(), "application/json")

    def _report(self, name: str) -> bytes:
        """The page of a results folder as it lies there, or made anew."""
        with self.server.connection.cursor() as cursor:
            known = cursor.execute("SELECT 1 FROM folders WHERE folder = ?", [name]).fetchone()
        if known is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is no such results folder")
        folder = self.server.index.folder / name
        page = folder / PAGE_FILE
        if page.is_file() and not page.is_symlink() and page.stat().st_size <= MOST_PAGE_BYTES:
            return page.read_bytes()
        return render_page(build_report(load(folder))).encode()

    def _send(
        self,
        content: bytes | IO[bytes],
        kind: str,
        *,
        policy: str = _NOTHING,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> None:
        file = BytesIO(content) if isinstance(content, bytes) else content
        length = file.seek(0, 2)
        file.seek(0)
        headers: Mapping[str, str] = {
            **_HEADERS,
            "Content-Security-Policy": policy,
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(length),
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        with suppress(ConnectionError, TimeoutError):
            self.end_headers()
            shutil.copyfileobj(file, self.wfile)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """As a text: nothing of what was asked comes back as HTML."""
        del message, explain
        self._send(b"refused", "text/plain", status=HTTPStatus(code))

    def version_string(self) -> str:
        return "Tare"

    def log_message(self, *_: object) -> None:
        """The terminal is not for it."""
