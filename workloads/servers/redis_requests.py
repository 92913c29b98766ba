"""Redis answers requests one after another, each of which is an event: for `tare proximity`.

usage: redis_requests.py REQUESTS [CONNECTIONS]

A few thousand objects are put into redis first. Then each connection, a process of its own, sends
its share of the requests in an order that a seed gives, and writes when each began and how long it
took, in the form that observers/events/include/tare/events.h describes. What a request does is
said by its kind alone, and so are the bytes of its answer.
"""

import multiprocessing
import os
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from foreground import serving, unix_connection

MAGIC = 0x3154564545524154
WORDS = 6
EVENT = 1
OBJECTS = 1000
DISTINCT = 4000
START_SECONDS = 60.0
VALUE = b"v" * 300
ENTRY = b"e" * 100
ENTRIES = 20

Request = tuple[int, bytes, int]
"""Its kind, what is sent, and the bytes of the answer."""


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def bulk_bytes(text: bytes) -> int:
    return len(b"$%d\r\n\r\n" % len(text)) + len(text)


def request(kind: int, number: int) -> Request:
    name = b"%d" % number
    match kind:
        case 0:
            return kind, command(b"SET", b"text:" + name, VALUE), len("+OK\r\n")
        case 1:
            return kind, command(b"GET", b"text:" + name), bulk_bytes(VALUE)
        case 2:
            return kind, command(b"HSET", b"object:" + name, b"field", VALUE), len(":0\r\n")
        case 3:
            lists = b"list:" + name
            return kind, command(b"RPOPLPUSH", lists, lists), bulk_bytes(ENTRY)
        case _:
            return kind, command(b"ZADD", b"set:" + name, name, b"member"), len(":0\r\n")


KINDS = 5


def fill(client: socket.socket) -> None:
    for number in range(OBJECTS):
        name = b"%d" % number
        commands = (
            (b"SET", b"text:" + name, VALUE),
            (b"HSET", b"object:" + name, b"field", VALUE),
            (b"RPUSH", b"list:" + name, *[ENTRY] * ENTRIES),
            (b"ZADD", b"set:" + name, b"0", b"member"),
        )
        client.sendall(b"".join(command(*words) for words in commands))
        answered = 0
        while answered < len(commands):
            answered += client.recv(1000).count(b"\r\n")


def server_of(client: socket.socket) -> int:
    """The process that listens at the other end."""
    size = struct.calcsize("3i")
    peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", peer)[0])


def ask(
    path: str, requests: Sequence[Request], order: Sequence[int], together: Callable[[], object]
) -> None:
    """Sends the requests of ``order``, after ``together`` has returned, and keeps the time of
    each."""
    with unix_connection(path) as client:
        records = array("q", bytes(8 * WORDS * (len(order) + 1)))
        head = (MAGIC, len(order), 1, 0, server_of(client), len(order))
        records[:WORDS] = array("q", head)
        thread = threading.get_native_id()
        clock, send, receive = time.monotonic_ns, client.sendall, client.recv_into
        answer = bytearray(4096)
        at = WORDS
        together()
        for which in order:
            kind, sent, expected = requests[which]
            start = clock()
            send(sent)
            received = 0
            while received < expected:
                more = receive(answer)
                if more == 0:
                    sys.exit("redis closed the connection")
                received += more
            wall = clock() - start
            if received != expected:
                sys.exit(f"redis answered {bytes(answer[:received])!r:.200} to {sent!r:.200}")
            records[at : at + WORDS] = array("q", (EVENT, start, wall, 0, kind, thread))
            at += WORDS
    if "TARE_EVENTS" in os.environ:
        with open(Path(os.environ["TARE_EVENTS"], f"events-{os.getpid()}"), "wb") as file:
            records.tofile(file)


def main() -> int:
    count = int(sys.argv[1])
    connections = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = random.Random(1)
    requests = [request(rng.randrange(KINDS), rng.randrange(OBJECTS)) for _ in range(DISTINCT)]
    orders = [
        array("i", (rng.randrange(DISTINCT) for _ in range(count // connections)))
        for _ in range(connections)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/redis.sock"
        server = [
            "redis-server",
            *("--port", "0"),
            *("--unixsocket", path),
            *("--dir", folder),
            *("--save", ""),
            *("--appendonly", "no"),
            *("--daemonize", "no"),
            *("--loglevel", "warning"),
        ]
        with serving(server, lambda: unix_connection(path)):
            with unix_connection(path) as client:
                fill(client)
            # On a busy machine one connection could be done before the next begins.
            start = multiprocessing.Barrier(connections, timeout=START_SECONDS)
            children = []
            for order in orders[1:]:
                child = os.fork()
                if child == 0:
                    ask(path, requests, order, start.wait)
                    os._exit(0)
                children.append(child)
            ask(path, requests, orders[0], start.wait)
            if any(os.waitpid(child, 0)[1] != 0 for child in children):
                return 1
    print(count, "requests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
