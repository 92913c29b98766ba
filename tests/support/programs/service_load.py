"""A load for tests/support/programs/service.c: service_load.py PORT LINE… sends each line 20 times,
waits for each answer, and says how it went. Of the line "sleep" it sleeps for ever."""

import os
import socket
import sys
import time

TIMES = 20
times = []
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
    for word in sys.argv[2:]:
        if word.startswith("pid="):
            with open(word.removeprefix("pid="), "a") as file:
                file.write(f"{os.getpid()}\n")
            continue
        while word == "sleep":
            time.sleep(1)
        for _ in range(TIMES):
            begun = time.perf_counter()
            server.sendall(f"{word}\n".encode())
            if server.recv(4096) != f"{word}\n".encode():
                sys.exit("the server did not answer")
            times.append(time.perf_counter() - begun)
        time.sleep(0.3)  # so that its memory is looked at
print(f"{len(times) / sum(times):.1f} requests a second, slowest {max(times) * 1e6:.0f}us")
