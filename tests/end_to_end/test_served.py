"""The served explorer: its index, its server, its queries and its page."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tare.answers.explorer.served import asking, overview
from tare.answers.explorer.served.index import Index, open_index, renewed
from tare.answers.explorer.served.server import Explorer
from tare.base.errors import UsageError
from tare.records.metrics import Status
from tare.records.runs import Outcome, Record, Run
from tests.end_to_end.test_page import FOR_HUMANS, WIDE
from tests.support.campaigns import write_campaign
from tests.support.reports import PAYLOADS

pytest.importorskip("duckdb", reason="the Python package duckdb")
MANAGERS = ("glibc", "jemalloc")
FOLDERS, RUNS = 7, 5
ENDLESS = (
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range % 7 = 3"
)


def note(_text: str) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    root = tmp_path_factory.mktemp("served")
    for number in range(FOLDERS):
        failing = ("q", "jemalloc") if number == 0 else ("", "")
        write_campaign(root / "all" / f"r{number}", "pq", MANAGERS, RUNS, failing=failing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARE_CACHE", str(root / "cache"))
        yield renewed(root / "all", note)


@dataclass
class Visitor:
    server: Explorer

    def ask(self, path: str, body: str | None = None, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port)
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def own(self, path: str, body: str | None = None, **headers: str) -> tuple[int, bytes]:
        return self.ask(f"/{self.server.token}/{path}", body, **headers)


@pytest.fixture(scope="module")
def visitor(index: Index) -> Iterator[Visitor]:
    with Explorer(index) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Visitor(server)
        server.shutdown()
        thread.join()


# ---- the index ----


def test_the_overview_is_what_its_query_says(index: Index) -> None:
    asked = overview.Asked("compare", "wall_seconds")
    with open_index(index.path) as connection:
        rows = connection.execute(overview.overview_sql(asked)).fetchall()
        assert connection.execute(overview.quick_sql(asked)).fetchall() == rows
    found = {(program, manager): figures for program, manager, *figures in rows}
    assert found["p", "glibc"][:3] == [FOLDERS, FOLDERS * RUNS, 0]
    assert found["q", "jemalloc"][:3] == [FOLDERS - 1, (FOLDERS - 1) * RUNS, RUNS]


def test_only_what_is_new_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "all"
    for name in "ab":
        write_campaign(folder / name, "p", MANAGERS, 2)
    index = renewed(folder, note)
    content = index.path.read_bytes()
    assert renewed(folder, note) == index
    assert index.path.read_bytes() == content
    write_campaign(folder / "c", "p", MANAGERS, 2)
    (folder / "a" / "run.json").unlink()
    (folder / "b" / "measurements.parquet").write_bytes(b"PAR1 damaged PAR1")
    with open_index(renewed(folder, note).path) as connection:
        assert connection.execute("SELECT DISTINCT folder FROM measurements").fetchall() == [("c",)]
        ((trouble,),) = connection.execute("SELECT message FROM troubles").fetchall()
    assert "b/measurements.parquet is damaged" in trouble
    assert [path.suffix for path in index.path.parent.iterdir()] == [".duckdb"]


def test_runs_of_an_unfinished_study_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    run = Record(
        Run("compare", "p", "glibc", 0, 0), Outcome(Status.OK, values={"wall_seconds": 2.0})
    )
    folder = write_campaign(tmp_path / "all" / "a", "p", MANAGERS, 2, records=[run])
    (folder / "measurements.parquet").unlink()
    with open_index(renewed(tmp_path / "all", note).path) as connection:
        assert connection.execute("SELECT value FROM measurements").fetchall() == [(2.0,)]


# ---- who may ask ----


def test_only_who_has_the_token_is_answered(visitor: Visitor) -> None:
    assert visitor.own("")[0] == 200
    for path in ("/", "/overview", "/wrong/", f"/{visitor.server.token[:-1]}/", "//"):
        assert visitor.ask(path)[0] == 403
    assert visitor.ask("/wrong/query.json", "SELECT 1")[0] == 403


def test_another_host_and_another_site_are_refused(visitor: Visitor) -> None:
    assert visitor.own("", Host="evil.example")[0] == 403
    assert visitor.own("", Host=f"evil.example:{visitor.server.server_port}")[0] == 403
    assert visitor.own("", Host=f"localhost:{visitor.server.server_port}")[0] == 200
    assert visitor.own("query.json", "SELECT 1", Origin="http://evil.example")[0] == 403
    assert visitor.own("query.json", "SELECT 1", Origin="null")[0] == 403


def test_a_port_in_use_is_told(index: Index, visitor: Visitor) -> None:
    port = visitor.server.server_port
    with pytest.raises(UsageError, match=f"port {port} cannot be served"):
        Explorer(index, port)


def test_only_folders_of_the_index_are_shown(visitor: Visitor) -> None:
    status, page = visitor.own("report/r1")
    assert (status, b"tare compare" in page) == (200, True)
    for name in ("..", "..%2F..", "%2Fetc", "r99", ""):
        assert visitor.own(f"report/{name}")[0] == 404


# ---- queries ----


def test_a_query_is_answered(visitor: Visitor) -> None:
    status, content = visitor.own("query.json", "SELECT count(*) AS n FROM folders")
    found = json.loads(content)
    assert (status, found["columns"], found["rows"]) == (200, ["n"], [[FOLDERS]])
    status, content = visitor.own("query.csv", "SELECT '=1' AS a, 2 AS b FROM range(2)")
    assert content.decode().splitlines() == ["a,b", "'=1,2", "'=1,2"]
    found = json.loads(visitor.own("query.json", "FROM range(5000)")[1])
    assert (len(found["rows"]), found["cut"]) == (asking.MOST_ROWS, True)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO folders (folder) VALUES ('x')",
        "CREATE TABLE mine AS SELECT 1",
        "CREATE TEMP TABLE mine AS SELECT 1",
        "DROP TABLE folders",
        "COPY folders TO 'stolen.csv'",
        "ATTACH 'other.duckdb'",
        "INSTALL json",
        "SET memory_limit = '100GB'",
        "SELECT 1; SELECT 2",
        "",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "FROM '/etc/passwd'",
        "FROM statements",
        "FROM enable_profiling(format='json', save_location='stolen.json')",
        "SELEC 1",
    ],
)
def test_what_does_not_read_the_index_is_refused(visitor: Visitor, sql: str) -> None:
    status, content = visitor.own("query.json", sql)
    assert status == 400
    assert b"root:" not in content


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        "SELECT levenshtein(repeat('ab', 100000), repeat('ba', 100000))",
    ],
)
def test_a_query_that_runs_away_is_stopped(index: Index, sql: str) -> None:
    with pytest.raises(UsageError, match="stopped after 2 seconds"):
        asking.ask(index.path, sql, "json", seconds=2)


def test_memory_is_limited(index: Index) -> None:
    with pytest.raises(UsageError, match=r"(?i)memory|stopped"):
        asking.ask(index.path, "SELECT len(list_sort(range(2000000000)))", "json")


def test_a_query_ends_when_who_asked_hangs_up(index: Index) -> None:
    mine, theirs = socket.socketpair()
    with mine:
        theirs.close()
        with pytest.raises(ConnectionAbortedError):
            asking.ask(index.path, ENDLESS, "json", seconds=3600, asker=mine)


# ---- the command ----


def test_ctrl_c_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    write_campaign(tmp_path / "all" / "a", "p", MANAGERS, 2)
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" >{tmp_path}/told\ncp "${{1#file://}}" {tmp_path}/led\n'
    )
    browser.chmod(0o755)
    environment = {
        **os.environ,
        "TARE_CACHE": str(tmp_path / "cache"),
        "BROWSER": str(browser),
        "TMPDIR": str(tmp_path),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tare", "explore", "--serve", "--open", "all"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline()
        assert address.startswith("page:    http://127.0.0.1:")
        place = urlsplit(address.split()[1])
        answer = http.client.HTTPConnection("127.0.0.1", place.port or 0)
        answer.request("GET", place.path)
        assert answer.getresponse().status == 200
        # A browser keeps connections open that it may need.
        with socket.create_connection(("127.0.0.1", place.port)) as kept:
            kept.sendall(b"GET ")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.removeprefix("Ctrl-C ends it").strip() == "tare: interrupted"
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    mine = {name for name in left if not name.startswith("cache/explore/")}
    assert mine == {"all/a/run.json", "all/a/measurements.parquet", "browser", "told", "led"}
    assert len(left - mine) == 1
    token = place.path.strip("/")
    assert token not in (tmp_path / "told").read_text()
    assert token in (tmp_path / "led").read_text()


def test_a_query_does_not_outlive_who_asked(index: Index) -> None:
    """Not even one that was killed. The query has an hour. Nothing tells of another's child, so
    the kernel's files are asked until they say so, for as long as a test may take."""
    code = (
        "import sys, pathlib; from tare.answers.explorer.served.asking import ask; "
        "ask(pathlib.Path(sys.argv[1]), sys.argv[2], 'json', 3600)"
    )
    asker = subprocess.Popen([sys.executable, "-c", code, str(index.path), ENDLESS])
    try:
        children = Path(f"/proc/{asker.pid}/task/{asker.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.05)
        (child,) = map(int, found)
        while "duckdb" not in Path(f"/proc/{child}/maps").read_text():
            time.sleep(0.05)
    finally:
        asker.kill()
        asker.wait()
    with suppress(OSError):  # it is gone; or it has no command, until somebody has waited for it
        while Path(f"/proc/{child}/cmdline").read_bytes():
            time.sleep(0.05)


# ---- the page ----


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_leads_from_the_overview_to_a_query(
    browser: Any, visitor: Visitor, theme: str
) -> None:
    context = browser.new_context(viewport={"width": WIDE, "height": 900}, color_scheme=theme)
    page = context.new_page()
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(visitor.server.address)
    page.locator("#matrix table").wait_for()
    assert page.locator("#matrix tbody tr").count() == 2
    keep_nobody_out(page)
    page.locator("#matrix tbody button", has_text="q").focus()
    page.keyboard.press("Enter")
    page.locator("#folders table").wait_for()
    assert page.locator("#folders tbody tr").count() == FOLDERS
    page.locator("#sql").fill("SELECT manager, median(value) AS m FROM measurements GROUP BY ALL")
    page.locator("#sql").press("Control+Enter")
    page.locator("#answer table").wait_for()
    assert page.locator("#answer tbody tr").count() == len(MANAGERS)
    page.locator("#sql").fill("DROP TABLE folders")
    page.locator("#run").click()
    page.locator("#trouble", has_text="that reads").wait_for()
    keep_nobody_out(page)
    # The refusal is news for the console as well.
    assert [text for text in troubles if "400" not in text] == []
    context.close()


def keep_nobody_out(page: Any) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="the Python package axe-playwright-python"
    )
    options = {"runOnly": {"type": "tag", "values": list(FOR_HUMANS)}}
    found = axe.Axe().run(page, options=options)
    assert len(found.response["passes"]) > 20
    assert found.response["violations"] == [], found.generate_report()


def test_names_are_text(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "cache"))
    write_campaign(tmp_path / "all" / PAYLOADS[0].replace("/", "-"), PAYLOADS, MANAGERS, 2)
    with Explorer(renewed(tmp_path / "all", note)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"{server.address}#{urlencode({'program': PAYLOADS[1]})}")
        page.locator("#folders table").wait_for()
        page.locator("#sql").fill("SELECT program, folder FROM medians")
        page.locator("#run").click()
        page.locator("#answer table").wait_for()
        assert page.evaluate("window.__pwned") is None
        page.close()
        server.shutdown()
