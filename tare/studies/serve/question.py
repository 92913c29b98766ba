"""`tare.serve`: which starts of a server it asks for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tare.base.errors import UsageError
from tare.campaign.session import (
    Compared,
    Question,
    check_counts,
    in_rounds,
    managers_of,
    measure,
    programs_of,
)
from tare.programs.program import PORT, Program, Service
from tare.records.results import Results
from tare.studies.serve import report as serve_study
from tare.studies.serve.observe import URLS, Asked, load_command, serve_once
from tare.studies.serve.ready import ready_of
from tare.studies.serve.request import Serve
from tare.studykit.printed import pattern_of
from tare.studykit.request import answers

_SCRATCH = "{scratch}"
_MOST_PERIODS = 100
_MOST_RATE = 1e6
_MOST_RATES = 12


@answers(Serve)
def serve(request: Serve) -> Results:
    """Throughput, latencies and memory of servers under each manager.

    ``load`` is a command that puts a server under load and ends by itself, or a URL, which is asked
    ``rate`` times a second; ``ready`` says how to tell that it can begin. `{port}` in the commands
    becomes a free port of each start, and `{scratch}` in that of the server an empty folder. Times
    are seconds. With several rates the server is measured at each, by starts of its own.
    ``metrics`` are NAME=PATTERN, for loads whose output is not known. Programs of a
    suite bring their load.
    """
    check_counts(request.runs, request.warmup)
    if not 1 <= request.periods <= _MOST_PERIODS:
        raise UsageError(f"{request.periods} periods: give a number from 1 to {_MOST_PERIODS}")
    rates = _rates(request)
    servers = {
        server.name: (server, rate)
        for program in programs_of(request.programs)
        for server, rate in _servers(program, request, rates)
    }
    asked = Asked(
        request.periods,
        request.idle,
        request.ready_within,
        [pattern_of(text) for text in request.metrics],
    )
    chosen = [each for each, _ in servers.values()]
    compared = Compared(chosen, *managers_of(request.managers, request.baseline, programs=chosen))
    question = Question(
        serve_study.STUDY,
        "starts of the server",
        compared,
        request.asked(),
        {"serve": partial(serve_once, asked)},
        {"rates": {name: rate for name, (_, rate) in servers.items()}} if len(rates) > 1 else {},
        timed=True,
    )
    return measure(question, in_rounds(serve_study, compared, request), request.where())


def _rates(request: Serve) -> list[float]:
    """Of a load of Tare's own, ascending; of another one there is none."""
    given = request.rate if isinstance(request.rate, Sequence) else [request.rate]
    if not request.load.startswith(URLS):
        if given:
            raise UsageError("--rate is of a load of Tare's own", "give a URL to --load")
        return []
    if not given:
        raise UsageError("a load of a URL needs --rate N, the requests a second")
    for rate in given:
        if not 0 < rate <= _MOST_RATE:
            raise UsageError(
                f"--rate {rate:g}: a load of a URL needs a number of requests a second, "
                f"to {_MOST_RATE:,.0f}"
            )
    found = sorted(set(given))
    if len(found) > _MOST_RATES:
        raise UsageError(f"--rate has {len(found)} rates: give {_MOST_RATES} at most")
    return found


def _servers(
    program: Program, request: Serve, rates: Sequence[float]
) -> Iterator[tuple[Program, float]]:
    """What is started: one at each rate."""
    for rate in rates or [0.0]:
        service = program.service
        if request.load or service is None:
            stop = _words("--stop", request.stop) if request.stop else ()
            load = tuple(_load_of(request, rate))
            service = Service(load, request.ready or _port_of(program), tuple(stop))
        ready_of(service.ready)
        load_command(service.load)
        server = replace(
            program,
            name=f"{program.name} at {rate:g}/s" if len(rates) > 1 else program.name,
            ignore_output=True,
            scratch=program.scratch or any(_SCRATCH in word for word in program.argv),
            service=service,
        )
        yield server, rate


def _port_of(program: Program) -> str:
    if any(PORT in word for word in program.argv):
        return f"tcp:{PORT}"
    raise UsageError(
        "nothing says when the server is ready",
        f"give --ready tcp:6379, or write {PORT} for the port in the commands",
    )


def _load_of(request: Serve, rate: float) -> list[str]:
    if not rate:
        return _words("--load", request.load)
    given = [word for text in request.requests for word in ("--request", text)]
    return [
        request.load,
        *("--rate", f"{rate:g}"),
        *("--for", f"{request.load_time:g}"),
        *("--connections", str(request.connections)),
        *given,
    ]


def _words(option: str, command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{option} {command}: {error}") from None
    if not words:
        raise UsageError(
            f"{option} is missing" if not command else f"{option} names no command",
            "as in --load 'redis-benchmark -p {port} -n 100000 -q'",
        )
    return words
