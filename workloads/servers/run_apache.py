"""Runs apache on a free port of the loopback device and fetches static pages from it.

usage: run_apache.py CONFIGURATION REQUESTS
"""

import os
import socket
import subprocess
import sys

from foreground import free_port, serving

PATHS = ["/Artistic", "/licence/GPL-3", "/licence/Apache-2.0", "/MPL-2.0"]


def fetch(port: int, path: str, requests: str) -> int:
    """Fetches one page many times; prints how many came, and not how fast."""
    url = f"http://127.0.0.1:{port}{path}"
    answer = subprocess.run(
        ["ab", "-q", "-k", "-c", "2", "-n", requests, url], stdout=subprocess.PIPE, check=False
    )
    facts = dict(line.split(":", 1) for line in answer.stdout.decode().splitlines() if ":" in line)
    complete, failed = facts["Complete requests"].strip(), facts["Failed requests"].strip()
    print(f"{path}: {complete} complete, {failed} failed, {'Non-2xx responses' in facts}")
    return answer.returncode or int(failed)


def main() -> int:
    configuration, requests = sys.argv[1:3]
    port = free_port()
    os.environ["TARE_APACHE_FOLDER"] = os.getcwd()
    server = ["/usr/sbin/apache2", "-X", "-f", configuration, "-c", f"Listen 127.0.0.1:{port}"]
    with serving(server, lambda: socket.create_connection(("127.0.0.1", port))):
        statuses = [fetch(port, path, requests) for path in PATHS]
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
