"""What one request takes in Apache, with and without single frees in the request's pool.

measure.py [PROGRAM] [--json]

Builds the module beside it, starts Debian's apache2 on a free port of the loopback device with a
configuration of its own, and posts PROGRAM (default: the 1,000th prime) once to a fresh server for
each way of serving the pools. It needs the Debian packages apache2-bin, apache2-dev and gcc.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tare.base.errors import MissingError, TareError
from tare.base.units import format_bytes
from tare.memory_managers.manager import resolve

HERE = Path(__file__).parent
APACHE = "/usr/sbin/apache2"
START_SECONDS = 30.0
REQUEST_SECONDS = 120.0
WAYS = (
    ("APR's pools", "", "keep"),
    ("plain regions", "regions(glibc, as=region)", ""),
    ("reaps, nothing freed singly", "regions(glibc, as=reap)", "keep"),
    ("reaps, with apr_pfree", "regions(glibc, as=reap)", ""),
    ("glibc's malloc, with apr_pfree", "regions(glibc, as=emulation)", ""),
)
"""A title, the manager ("" for none) and the query."""


@dataclass(frozen=True)
class Answer:
    way: str
    text: str
    allocated_bytes: int
    held_bytes: int
    frees: bool


def build(folder: Path) -> None:
    """The module, in ``folder``."""
    apxs = shutil.which("apxs2") or shutil.which("apxs")
    if apxs is None or not Path(APACHE).exists():
        raise MissingError(
            "apache2 or its headers are not installed", "apt-get install apache2-bin apache2-dev"
        )
    asked = [apxs, "-q", "INCLUDEDIR", "APR_INCLUDEDIR", "EXTRA_CPPFLAGS"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split(";;")
    includes, apr, flags = (part.strip() for part in found)
    subprocess.run(
        ["cc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", *flags.split(),
         f"-I{includes}", f"-I{apr}", HERE / "mod_calculator.c", HERE / "calculator.c",
         "-o", folder / "mod_calculator.so"],
        check=True,
    )  # fmt: skip


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def post(port: int, query: str, program: bytes, server: subprocess.Popen[bytes]) -> Answer:
    """The answer to one request, as soon as the server takes it."""
    end = time.monotonic() + START_SECONDS
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_SECONDS)
        try:
            connection.connect()
            break
        except ConnectionRefusedError:
            if server.poll() is not None or time.monotonic() > end:
                raise TareError("apache2 did not start", "see what it wrote above") from None
            time.sleep(0.01)
    connection.request("POST", f"/calculate?{query}", program)
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != http.client.OK:
        raise TareError(f"apache2 answered with status {answer.status}: {text[:200]}")
    headers = {name: answer.headers[f"X-{name}"] for name in ("Allocated-Bytes", "Held-Bytes")}
    held = int(headers["Held-Bytes"])
    return Answer(
        "", text, int(headers["Allocated-Bytes"]), held, answer.headers["X-Frees"] == "yes"
    )


def ask(folder: Path, way: tuple[str, str, str], program: bytes) -> Answer:
    """One request to a server of its own."""
    title, name, query = way
    port = free_port()
    environment = {**os.environ, "TARE_APACHE_FOLDER": str(folder)}
    if name:
        manager = resolve(name)
        environment |= {**manager.environment, "LD_PRELOAD": str(manager.layer)}
    command = [APACHE, "-X", "-f", str(HERE / "httpd.conf"), "-c", f"Listen 127.0.0.1:{port}"]
    server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
    try:
        answer = post(port, query, program, server)
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
    return Answer(title, answer.text, answer.allocated_bytes, answer.held_bytes, answer.frees)


def measure(program: bytes) -> list[Answer]:
    """An answer for each way."""
    with tempfile.TemporaryDirectory(prefix="tare-apache-") as name:
        folder = Path(name)
        build(folder)
        found = []
        for way in WAYS:
            print(f"  asking {way[0]} …", file=sys.stderr)
            found.append(ask(folder, way, program))
        return found


def main(arguments: list[str]) -> int:
    files = [argument for argument in arguments if argument != "--json"]
    program = Path(files[0]) if files else HERE / "primes.calc"
    try:
        found = measure(program.read_bytes())
    except (TareError, OSError, subprocess.CalledProcessError) as error:
        print(f"measure.py: {error}", file=sys.stderr)
        return 3 if isinstance(error, MissingError) else 1
    if "--json" in arguments:
        print(json.dumps([asdict(answer) for answer in found]))
        return 0
    print(f"answer: {found[0].text.strip()[:60]}; asked for in all: "
          f"{format_bytes(found[0].allocated_bytes)}")  # fmt: skip
    for answer in found:
        print(f"{answer.way:32} held by the request: {format_bytes(answer.held_bytes):>9}")
    return 0 if len({answer.text for answer in found}) == 1 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
