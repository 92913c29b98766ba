"""`tare serve`: real servers, and what becomes of those that fail."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tare.answers.building import build_report
from tare.records.results import load as load_results
from tare.records.results import read_records
from tare.records.runs import Outcome
from tare.report.page import render_page
from tare.studies.serve import observe
from tare.studies.serve.details import Details
from tare.studies.serve.report import ServeRun
from tests.conftest import TARE, Completed
from tests.support import ROOT

PROGRAMS = ROOT / "tests/support/programs"
LOAD = f"{sys.executable} {PROGRAMS / 'service_load.py'} {{port}}"
OWN = ("--metric", "rps=([0-9.]+) requests", "--metric", "max=slowest ([0-9.]+us)")
FOR_EVER = "sh -c 'echo Running 1s test @ here; echo unable to connect; exec sleep 9999'"
HELD = 64 << 20
ONE_START = ("-n", "1", "--periods", "1", "--no-page")


@pytest.fixture
def service(compile_c: Callable[..., Path]) -> Path:
    return compile_c((PROGRAMS / "service.c").read_text(), name="service")


Served = Callable[..., Completed]


@pytest.fixture
def serve(tare: Callable[..., Completed], service: Path) -> Served:
    """Under glibc, in the folder `out`."""

    def run(how: str, *options: str, load: str = f"{LOAD} hello") -> Completed:
        words = ["serve", "-m", "glibc", "-o", "out", "--load", load, *ONE_START, *options]
        return tare(*words, "--", service, "{port}", how, "pids")

    return run


def outcomes(folder: Path) -> list[Outcome]:
    return [record.outcome for record in read_records(folder)]


def is_there(pid: int) -> bool:
    """Also not while somebody has yet to wait for it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def numbers(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def test_memory_and_figures_are_those_of_the_server(
    tare: Callable[..., Completed], service: Path, tmp_path: Path
) -> None:
    done = tare(
        *("serve", "-m", "glibc", "-m", "own", "-o", "out", "-n", "1", "--periods", "2"),
        *("--no-page", *OWN, "--load", f"{LOAD} hold hello hello hello free"),
        *("--", service, "{port}", "well", "pids"),
    )
    assert done.returncode == 0, done.stderr
    found = outcomes(tmp_path / "out")
    assert len(found) == 3  # the baseline runs twice a round
    for outcome in found:
        values = outcome.values
        assert values["peak_resident_bytes"] > HELD
        assert 0 < values["loaded_resident_bytes"] <= 1.01 * values["peak_resident_bytes"]
        assert 0 < values["idle_resident_bytes"] < HELD
        assert values["load_minor_faults"] >= 0
        assert values["requests_per_second"] > 0
        assert values["latency_max_seconds"] >= 1 / values["requests_per_second"]
        assert "wall_seconds" not in values
        served = outcome.details_as(Details).serve
        assert served is not None
        names = [phase.name for phase in served.phases]
        assert names == ["warm-up", "load", "idle", "load", "idle"]
        idle = [phase.end - phase.start for phase in served.phases if phase.name == "idle"]
        assert min(idle) > 0.99  # each end is rounded to a millisecond
        assert len(served.loads) == 2
        assert not served.killed
        assert max(number for _, number in served.memory) > HELD
    assert not any(map(is_there, numbers(tmp_path / "pids")))


@pytest.mark.parametrize(
    ("how", "options", "load", "reason"),
    [
        ("dies", (), f"{LOAD} hello die", "it was killed by SIGABRT"),
        ("deaf", ("--ready-within", "1s"), f"{LOAD} hello", "it was not ready within 1 s"),
        ("leaves", (), f"{LOAD} hello", "the server ended by itself before it was ready"),
        ("well", (), "false", "the load ended with status 1"),
        ("well", ("--metric", "p99=p99 ([0-9]+)"), f"{LOAD} hello", "for latency_p99_seconds"),
        ("well", (), "echo Running 1s test @ here; Socket errors: 3", "had failed requests"),
        ("well", (), FOR_EVER, "the load had failed requests: unable to connect"),
    ],
)
def test_what_fails_has_a_status_and_no_figures(
    serve: Served, tmp_path: Path, how: str, options: tuple[str, ...], load: str, reason: str
) -> None:
    done = serve(how, *options, load=load)
    assert done.returncode == 1
    found = outcomes(tmp_path / "out")
    assert found
    assert {(outcome.status, outcome.values == {}) for outcome in found} == {("failed", True)}
    assert all(reason in outcome.reason for outcome in found), found[0].reason
    assert " ".join(reason.split()[:5]) in " ".join(done.stdout.split())
    assert not any(map(is_there, numbers(tmp_path / "pids")))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--load is missing"),
        (("--load", "no-such-command {port}"), "the load no-such-command"),
        (("--load", "a 'b"), "No closing quotation"),
        (("--load", "true", "--stop", "no-such-command"), "--stop no-such-command cannot be"),
        (("--load", "true", "--ready", "6379"), "give tcp:PORT"),
        (("--load", "true", "--periods", "0"), "0 periods"),
        (("--load", "http://127.0.0.1:{port}/"), "a load of a URL needs --rate N"),
        (("--load", "redis://127.0.0.1:{port}", "--rate", "nan"), "--rate nan"),
        (("--load", "true", "--metric", "x=1"), "--metric x=1"),
        (("--load", "true", "--rate", "5"), "--rate is of a load of Tare's own"),
        (("--load", "http://h:1/", "--rate", "5,x"), "'5,x' is not a list of numbers"),
        (("--load", "http://h:1/", "--rate", "5,-1"), "--rate -1"),
    ],
)
def test_a_wrong_question_is_refused(
    tare: Callable[..., Completed], service: Path, words: tuple[str, ...], message: str
) -> None:
    done = tare("serve", "-m", "glibc", "-n", "1", *words, "--", service, "{port}", "well", "pids")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [((), "--load is missing"), (("--load", "true"), "nothing says when the server is ready")],
)
def test_how_to_be_ready_must_be_known(
    tare: Callable[..., Completed], words: tuple[str, ...], message: str
) -> None:
    done = tare("serve", "-m", "glibc", *words, "--", "sleep", "9")
    assert done.returncode == 2
    assert message in done.stderr


def test_a_port_of_somebody_else_is_not_measured(serve: Served, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        done = serve("well", "--ready", f"tcp:{other.getsockname()[1]}")
    assert done.returncode == 2
    assert "is in use by a process that Tare did not start" in done.stderr
    assert not numbers(tmp_path / "pids")


@pytest.mark.parametrize("ready", ["log:listening", "command:grep -q . pids"])
def test_other_ways_to_be_ready(serve: Served, ready: str, tmp_path: Path) -> None:
    # The load comes until it is answered: what the command waits for is there a little earlier.
    load = f"sh -c 'until {LOAD} hello; do sleep 0.1; done'"
    assert serve("well", "--ready", ready, load=load).returncode == 0
    (first, *_) = outcomes(tmp_path / "out")
    assert first.values["ready_seconds"] > 0


def test_a_command_ends_the_server(serve: Served, tmp_path: Path) -> None:
    done = serve("stays", "--stop", "sh -c 'kill -INT $(tail -n 1 pids)'")
    assert done.returncode == 0, done.stdout
    served = outcomes(tmp_path / "out")[0].details_as(Details).serve
    assert served is not None
    assert not served.killed


def test_what_does_not_end_is_killed_and_told(
    service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tare as api

    monkeypatch.setattr(observe, "_STOP_SECONDS", 0.3)
    monkeypatch.chdir(tmp_path)
    results = api.serve(
        [str(service), "{port}", "stays", "pids"],
        ["glibc"],
        load=f"{LOAD} hello",
        periods=1,
        runs=1,
        folder="out",
    )
    assert all(outcome.values for outcome in outcomes(results.folder))
    (section, *_) = build_report(results).sections
    assert "1 of 1 starts did not end when they were told to" in " ".join(section.findings)
    assert not any(map(is_there, numbers(tmp_path / "pids")))


def started(service: Path, tmp_path: Path) -> subprocess.Popen[str]:
    """A Tare whose load goes on for ever; ``loads`` will hold the number of its process."""
    load = f"{LOAD} pid=loads hello sleep"
    words = ["serve", "-m", "glibc", "-o", "out", *ONE_START, "--load", load]
    command = [*TARE, *words, "--", str(service), "{port}", "well", "pids"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not numbers(tmp_path / "loads"):
        assert process.poll() is None
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_whatever_ends_tare_ends_server_and_load(
    service: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = started(service, tmp_path)
    pids = [*numbers(tmp_path / "pids"), *numbers(tmp_path / "loads")]
    assert len(pids) == 2
    os.kill(process.pid, number)
    _, errors = process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 130)
    assert "Traceback" not in errors
    while any(map(is_there, pids)):
        time.sleep(0.02)


def test_a_url_is_put_under_load_at_a_rate(tare: Callable[..., Completed], tmp_path: Path) -> None:
    (tmp_path / "page").write_text("hello")
    done = tare(
        *("serve", "-m", "own", "-o", "out", "--rate", "200", "--for", "1s", "--connections", "4"),
        *("--load", "http://127.0.0.1:{port}/page", "--request", "/page", "--request", "/"),
        *(*ONE_START, "--", sys.executable, "-m", "http.server", "{port}", "-b", "127.0.0.1"),
    )
    assert done.returncode == 0, done.stderr
    for outcome in outcomes(tmp_path / "out"):
        values = outcome.values
        assert 0 < values["service_p50_seconds"] <= values["latency_p50_seconds"] * 1.01
        assert values["unsent_requests"] < 200
        assert values["requests_per_second"] > 0
        assert "latency_p9999_seconds" not in values  # of 200 requests none is so rare


def test_several_rates_have_starts_of_their_own(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    done = tare(
        *("serve", "-m", "own", "-o", "out", "--rate", "100,20,100", "--for", "1s", "--load"),
        *("http://127.0.0.1:{port}/", *ONE_START),
        *("--", sys.executable, "-m", "http.server", "{port}", "-b", "127.0.0.1"),
    )
    assert done.returncode == 0, done.stderr
    records = read_records(tmp_path / "out")
    names = [record.run.program.rpartition(" at ")[2] for record in records]
    assert names == ["20/s", "100/s"]
    rates = [record.outcome.values["requests_per_second"] for record in records]
    assert rates[0] < 25  # a little more than asked for where the load ends early
    results = load_results(tmp_path / "out")
    assert [*(results.run_as(ServeRun).rates or {}).values()] == [20, 100]
    (section, *_) = build_report(results).sections
    (by_rate,) = (each for each in section.tables if each.identifier == "table-rates")
    assert [row[0].text for row in by_rate.rows] == ["20", "100"]
    assert "latency-by-rate" in [figure.identifier for figure in section.figures]
    assert "Latency by rate" in render_page(build_report(results))


def test_answers_that_are_errors_give_no_figures(
    tare: Callable[..., Completed], tmp_path: Path
) -> None:
    done = tare(
        *("serve", "-m", "own", "-o", "out", "--rate", "50", "--for", "1s"),
        *("--load", "http://127.0.0.1:{port}/", "--request", "/", "--request", "/missing"),
        *(*ONE_START, "--", sys.executable, "-m", "http.server", "{port}", "-b", "127.0.0.1"),
    )
    assert done.returncode == 1
    (first, *_) = outcomes(tmp_path / "out")
    assert "the load had failed requests: errors" in first.reason
    assert "404" in first.reason


SUITE = """
schema = 1
name = "servers"
description = "two servers"
[[program]]
name = "first"
description = "x"
command = ["{suite}/service", "{port}", "well", "{suite}/pids"]
[program.service]
load = ["PYTHON", "LOAD", "{port}", "hello"]
[[program]]
name = "second"
description = "x"
command = ["{suite}/service", "{port}", "stays", "{suite}/pids"]
[program.service]
load = ["PYTHON", "LOAD", "{port}", "hold"]
ready = "log:listening"
stop = ["sh", "-c", "kill -INT $(tail -n 1 pids)"]
[[program]]
name = "third"
description = "no server"
command = ["true"]
"""


@pytest.fixture
def servers(service: Path, tmp_path: Path) -> Path:
    assert service.parent == tmp_path
    load = str(PROGRAMS / "service_load.py")
    (tmp_path / "pids").touch()  # a file that a suite names must be there
    file = tmp_path / "servers.toml"
    file.write_text(SUITE.replace("PYTHON", sys.executable).replace("LOAD", load))
    return file


def test_a_suite_of_servers(
    tare: Callable[..., Completed], servers: Path, tmp_path: Path, browser: Any
) -> None:
    chosen = ("-p", "first", "-p", "second", "-m", "glibc", "-n", "1", "-o", "out")
    done = tare("suite", "run", servers.name, *chosen)
    assert done.returncode == 0, done.stderr
    found = read_records(tmp_path / "out")
    assert {record.run.study for record in found} == {"serve"}
    assert [record.run.program for record in found] == ["first", "second"]
    assert all(record.outcome.values["idle_resident_bytes"] > 0 for record in found)
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto((tmp_path / "out/report.html").as_uri())
    assert page.locator("figure svg").count() == 4  # each for wide and for narrow pages
    assert page.locator("text=second: under load").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


@pytest.mark.parametrize(
    "words", [(), ("-p", "first", "--study", "count"), ("-p", "first", "--warmup", "3")]
)
def test_what_does_not_fit_servers_is_refused(
    tare: Callable[..., Completed], servers: Path, words: tuple[str, ...]
) -> None:
    done = tare("suite", "run", servers.name, "-m", "glibc", *words)
    assert done.returncode == 2
    assert "--study serve" in done.stderr


def test_redis_under_its_own_load(
    tare: Callable[..., Completed], tmp_path: Path, browser: Any
) -> None:
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        pytest.skip("redis is not installed (package redis-server)")
    done = tare(
        *("serve", "-m", "glibc", "-m", "mimalloc", "-n", "1", "--periods", "1", "-o", "out"),
        *("--load", "redis-benchmark -p {port} -t set -n 5000 -r 1000"),
        *("--", "redis-server", "--port", "{port}", "--save", "", "--dir", "{scratch}"),
    )
    assert done.returncode == 0, done.stderr
    assert "requests" in done.stdout
    for outcome in outcomes(tmp_path / "out"):
        assert outcome.values.keys() >= {
            "requests_per_second",
            "latency_p50_seconds",
            "latency_p99_seconds",
            "latency_p999_seconds",
            "latency_max_seconds",
        }
    page = browser.new_page(viewport={"width": 390, "height": 800})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    file = tmp_path / "page.html"
    file.write_text(render_page(build_report(load_results(tmp_path / "out"))))
    page.goto(file.as_uri())
    assert page.locator("figure").count() == 2
    assert page.locator("figure svg").count() == 4  # each for wide and for narrow pages
    assert page.locator("text=cannot be drawn").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not complaints
    page.close()
