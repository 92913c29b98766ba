"""Runs redis on a socket in the working directory and feeds it commands from a file.

usage: run_redis.py COMMANDS
"""

import subprocess
import sys

from foreground import serving, unix_connection

SOCKET = "redis.sock"
SERVER = [
    "redis-server",
    *("--port", "0"),
    *("--unixsocket", SOCKET),
    *("--save", ""),
    *("--appendonly", "no"),
    *("--daemonize", "no"),
    *("--loglevel", "warning"),
]


def main() -> int:
    with (
        open(sys.argv[1], "rb") as commands,
        serving(SERVER, lambda: unix_connection(SOCKET)),
    ):
        load = subprocess.run(["redis-cli", "-s", SOCKET, "--pipe"], stdin=commands, check=False)
        size = subprocess.run(["redis-cli", "-s", SOCKET, "DBSIZE"], check=False)
    return load.returncode or size.returncode


if __name__ == "__main__":
    sys.exit(main())
