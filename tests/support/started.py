"""A process that has loaded all of Tare and forks for each command, which then starts at once.

    python -m tests.support.started SOCKET

SOCKET is the number of a file descriptor: a request is the words, the folder and the environment of
a command as JSON with its two outputs, the answer its exit code.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tare.__main__
from tests.support import ROOT
from tests.support.loading import draw_elsewhere, load_all

_ANSWER = 4
_LENGTH = 8


class Started:
    """The side of the tests. A command that was cut off, by a time limit say, ends the process.
    ``within`` are words of a command that replaces itself with the process, such as unshare."""

    def __init__(self, *within: str | Path) -> None:
        self._within = within
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(self, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        channel = self._channel()
        pipes = [os.pipe() for _ in range(2)]
        files = [open(read, encoding=sys.stdout.encoding) for read, _ in pipes]  # noqa: SIM115
        message = json.dumps([list(words), str(folder), dict(os.environ)]).encode()
        try:
            with ThreadPoolExecutor(2) as readers:
                try:
                    length = len(message).to_bytes(_LENGTH, "big")
                    socket.send_fds(channel, [length], [write for _, write in pipes])
                finally:
                    for _, write in pipes:
                        os.close(write)
                channel.sendall(message)
                texts = list(readers.map(lambda file: file.read(), files))
            answer = channel.recv(_ANSWER)
            if len(answer) < _ANSWER:
                raise RuntimeError("the process that starts commands has ended")
            code = int.from_bytes(answer, "big", signed=True)
        except BaseException:
            self.end()
            raise
        finally:
            for file in files:
                file.close()
        return subprocess.CompletedProcess(["tare", *words], code, *texts)

    def end(self) -> None:
        if self._process is not None and self._socket is not None:
            self._socket.close()
            self._process.kill()
            self._process.wait()
        self._process = self._socket = None

    def _channel(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            with theirs:
                number = theirs.fileno()
                mine = [sys.executable, "-m", "tests.support.started", str(number)]
                command = [*self._within, *mine]
                self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[number])
        return self._socket


def _serve(channel: socket.socket) -> None:
    """Returns in the child that has a command to do."""
    while True:
        length, outputs, _, _ = socket.recv_fds(channel, _LENGTH, 2)
        if not length:
            os._exit(0)
        words, folder, environment = json.loads(_whole(channel, int.from_bytes(length, "big")))
        child = os.fork()
        if not child:
            break
        for output in outputs:
            os.close(output)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        channel.sendall(code.to_bytes(_ANSWER, "big", signed=True))
    channel.close()
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
        os.close(output)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [tare.__main__.__file__, *words]


def _whole(channel: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        content += channel.recv(length - len(content))
    return content


if __name__ == "__main__":
    load_all()
    _channel = int(sys.argv[1])
    draw_elsewhere(_channel)
    gc.freeze()
    _serve(socket.socket(fileno=_channel))
    _code = 1
    try:
        _code = tare.__main__.run()
    except SystemExit as _leaving:
        _code = _leaving.code if isinstance(_leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    for _stream in (sys.stdout, sys.stderr):
        _stream.flush()
    os._exit(_code)  # to end an interpreter that has loaded all takes as long as to start one
