"""Redis under the load of redis-benchmark, and keys beside it whose contents are checked.

Ends with an error if the server crashes, loses or changes anything. Runs in an empty folder, with
workloads/servers on the module path.

usage: redis_load.py SEED CHECKS
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys

import foreground  # type: ignore[import-not-found]

SOCKET = "redis.sock"
SERVER = ["redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "", "--appendonly", "no",
          "--loglevel", "warning", "--enable-debug-command", "yes"]  # fmt: skip
LOAD = ["redis-benchmark", "-s", SOCKET, "-q", "-n", "5000", "-r", "5000", "-d", "150", "-P", "8",
        "-t", "set,get,incr,lpush,rpush,lpop,sadd,hset,spop,zadd,mset"]  # fmt: skip
KEYS = 1000
RELOAD_EVERY = 1000
PATIENCE_SECONDS = 120.0

Reply = bytes | int | list["Reply"] | None


class Client:
    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._socket.connect(SOCKET)
        self._replies = self._socket.makefile("rb")

    def __call__(self, *words: str | int | bytes) -> Reply:
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        bulk = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(b"*%d\r\n" % len(parts) + bulk)
        return self._reply()

    def _reply(self) -> Reply:
        line = self._replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        raise SystemExit(f"redis said {line!r}")


def check(what: str, found: Reply, expected: Reply) -> None:
    if found != expected:
        raise SystemExit(f"{what}: {found!r:.200} instead of {expected!r:.200}")


def main() -> int:
    foreground.START_SECONDS = foreground.STOP_SECONDS = PATIENCE_SECONDS
    moves = random.Random(int(sys.argv[1]))
    texts: dict[str, bytes] = {}
    lists: dict[str, list[bytes]] = {}
    with (
        foreground.serving(SERVER, lambda: foreground.unix_connection(SOCKET)),
        subprocess.Popen(LOAD, stdout=subprocess.DEVNULL) as load,
    ):
        redis = Client()
        for count in range(int(sys.argv[2])):
            text, many = f"text:{moves.randrange(KEYS)}", f"list:{moves.randrange(KEYS)}"
            value = moves.randbytes(1 << moves.randrange(12))
            move = moves.randrange(6)
            if move == 0:
                redis("SET", text, value)
                texts[text] = value
            elif move == 1:
                redis("APPEND", text, value)
                texts[text] = texts.get(text, b"") + value
            elif move == 2:
                redis("RPUSH", many, value, value[:10])
                lists.setdefault(many, []).extend([value, value[:10]])
            elif move == 3:
                check(text, redis("GET", text), texts.get(text))
                check(many, redis("LRANGE", many, 0, -1), list(lists.get(many, [])))
            else:
                redis(("DEL", "UNLINK")[move - 4], text, many)
                texts.pop(text, None)
                lists.pop(many, None)
            if count % RELOAD_EVERY == RELOAD_EVERY - 1:
                redis("DEBUG", "RELOAD")
        for text, value in texts.items():
            check(text, redis("GET", text), value)
        for many, values in lists.items():
            check(many, redis("LRANGE", many, 0, -1), list(values))
        if load.wait() != 0:
            raise SystemExit(f"redis-benchmark ended with {load.returncode}")
        redis("FLUSHALL", "ASYNC")
        check("keys", redis("DBSIZE"), 0)
    print(len(texts), len(lists))
    return 0


if __name__ == "__main__":
    sys.exit(main())
