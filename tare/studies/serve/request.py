"""`tare serve`: requests per second, latencies and memory of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from tare.base.units import parse_duration
from tare.studykit.request import AgainstBaseline, metrics_option, option, runs_option
from tare.studykit.sweeps import numbers_of


@dataclass(frozen=True)
class Serve(AgainstBaseline):
    """Requests per second, latencies and memory of a SERVER under each manager, under a load.

    The manager is put under the server alone. Each start of the server is made ready, put under the
    load, left idle, and ended; the managers take turns in a random order. Write {port} in the
    commands for a free port, and {scratch} in that of the server for an empty folder.
    """

    ANSWERED_BY: ClassVar[str] = "question.serve"
    EXAMPLES: ClassVar[str] = """\
  tare serve -m glibc -m jemalloc --load 'redis-benchmark -p {port} -t set -n 200000 -q' -- \\
    redis-server --port {port} --save ''
  tare serve --ready http://127.0.0.1:8080/health --load 'hey -z 5s http://127.0.0.1:8080/' -- \\
    ./server --port 8080
"""

    _: KW_ONLY
    load: str = option(
        "",
        metavar="COMMAND",
        help="What puts the server under load: a command that ends by itself, without a shell; or "
        "http://HOST:PORT/PATH, redis://HOST:PORT or memcached://HOST:PORT, with --rate.",
    )
    rate: float | Sequence[float] = option(
        (),
        parse=numbers_of,
        metavar="N,N…",
        help="Requests a second to the URL of --load. They are due at this rate whatever the "
        "server's pace, and latencies count from when they were due. Of several rates each has "
        "starts of its own.",
    )
    load_time: float = option(
        5.0,
        "--for",
        parse=parse_duration,
        metavar="TIME",
        help="How long each load of a URL lasts; default: 5s. From a minute on it is told "
        "whether memory grows.",
    )
    connections: int = option(8, help="Connections to the URL of --load.")
    requests: Sequence[str] = option(
        (),
        "--request",
        multiple=True,
        metavar="TEXT",
        help="What to ask the URL of --load for: of http a path, of redis a command, of memcached "
        "'get KEY' or 'set KEY VALUE'; {random} becomes a number below 100000, {bytes} 100 "
        "characters. Can be repeated; they take turns. Default: the URL's path, or to set random "
        "keys.",
    )
    ready: str = option(
        "",
        metavar="HOW",
        help="How to tell that the server is ready: tcp:PORT, http://HOST:PORT/PATH, log:TEXT or "
        "command:COMMAND. Default: tcp:{port}.",
    )
    metrics: Sequence[str] = metrics_option("the output of the load")
    stop: str = option("", metavar="COMMAND", help="What ends the server, instead of SIGTERM.")
    periods: int = option(3, help="Loads in each start that count, after one that does not.")
    idle: float = option(
        1.0, parse=parse_duration, metavar="TIME", help="Time without load after each; default: 1s."
    )
    ready_within: float = option(
        30.0,
        parse=parse_duration,
        metavar="TIME",
        help="How long the server may take to be ready; default: 30s.",
    )
    runs: int = runs_option(6, "Starts under each manager; twice as many under the baseline.")
    warmup: int = option(0, help="Starts under each manager that are not counted.")


REQUESTS = (Serve,)
