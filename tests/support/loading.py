"""Loads all of Tare, for processes that fork for each command."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import select
import socket
import sys
import types
from contextlib import suppress
from functools import partial
from typing import Any

import tare

LIBRARIES = ("jinja2", "numpy", "pandas", "polars", "pyarrow.compute", "pyarrow.parquet")
"""What Tare loads when it first uses it; pyarrow loads pandas where it is installed."""


def load_all() -> None:
    """Nothing works in threads then, so that a fork is as good as a new process. Threads that some
    libraries start wait for work, and a fork has none of them."""
    for module in pkgutil.walk_packages(tare.__path__, "tare."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in LIBRARIES:
        importlib.import_module(name)


def draw_elsewhere(*not_its_own: int) -> None:
    """From now on figures are drawn by one more process. Its JavaScript engine, which takes most of
    a second to start, starts once for all forks of this one; the drawing is that of any command.
    ``not_its_own`` are file descriptors that the other process must not hold."""
    drawing = types.ModuleType("vl_convert")
    painter = _Painter(not_its_own)
    for name in ("vegalite_to_vega", "vega_to_svg"):
        setattr(drawing, name, partial(painter.convert, name))
    sys.modules["vl_convert"] = drawing


class _Painter:
    """Draws in a process that is a fork of this one, and ends when none is left that could ask."""

    def __init__(self, not_its_own: tuple[int, ...]) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind("")  # the system finds a name
        self._listening.listen()
        self._address = self._listening.getsockname()
        ended, self._asking = os.pipe()
        if not os.fork():
            os.close(self._asking)
            for number in not_its_own:
                os.close(number)
            _draw_for(self._listening, ended)
            os._exit(0)
        os.close(ended)
        self._listening.close()

    def convert(self, name: str, spec: dict[str, Any], **options: Any) -> Any:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(self._address)
            channel.sendall(json.dumps([name, spec, options]).encode())
            channel.shutdown(socket.SHUT_WR)
            with channel.makefile("rb") as file:
                is_converted, answer = json.loads(file.read())
        if not is_converted:
            raise ValueError(answer)
        return answer


def _draw_for(listening: socket.socket, ended: int) -> None:
    while True:
        ready, _, _ = select.select([listening.fileno(), ended], [], [])
        if listening.fileno() not in ready:
            return
        channel, _ = listening.accept()
        with channel, suppress(BrokenPipeError, ConnectionResetError):
            with channel.makefile("rb") as file:
                asked = file.read()
            import vl_convert

            try:
                name, spec, options = json.loads(asked)
                answer = (True, getattr(vl_convert, name)(spec, **options))
            except ValueError as error:  # also what a command sent that was killed meanwhile
                answer = (False, str(error))
            channel.sendall(json.dumps(answer).encode())
