"""Loaded into each Python process of a run by its search path: sets the collector as asked, and
writes each collection into a mapped file, which is whole however the process ends.

It runs on any Python from 3.8 on, and needs nothing of Tare.
"""

import atexit
import gc
import mmap
import os
import struct
import sys
import time
from importlib.machinery import PathFinder

FOLDER = os.environ.get("TARE_CPYTHON", "")
ASKED = os.environ.get("TARE_CPYTHON_GC", "")
ROW = struct.Struct("<qqqii")
MOST_ROWS = 1 << 21


class Watch:
    """Writes rows of start, end and processor time in nanoseconds, generation and objects freed."""

    def __init__(self):
        self.begin()
        gc.callbacks.append(self.called)
        os.register_at_fork(after_in_child=self.begin)
        atexit.register(self.note, True)

    def begin(self):
        """A file for this process; of a fork, its own."""
        self.rows = 0
        self.stats = sum(each["collections"] for each in gc.get_stats())
        with open(os.path.join(FOLDER, f"{os.getpid()}.collections"), "w+b") as file:
            file.truncate(MOST_ROWS * ROW.size)
            self.map = mmap.mmap(file.fileno(), 0)
        self.note(False)

    def called(self, phase, info):
        if phase == "start":
            self.started = time.monotonic_ns()
            self.cpu = time.thread_time_ns()
        elif self.rows < MOST_ROWS:
            cpu = time.thread_time_ns() - self.cpu
            row = self.started, time.monotonic_ns(), cpu, info["generation"], info["collected"]
            ROW.pack_into(self.map, self.rows * ROW.size, *row)
            self.rows += 1

    def note(self, ended):
        seen = {
            "pid": os.getpid(),
            "version": sys.version.split()[0],
            "implementation": sys.implementation.name,
            "enabled": gc.isenabled(),
            "threshold": gc.get_threshold()[0],
            "collections": sum(each["collections"] for each in gc.get_stats()) - self.stats,
            "ended": ended,
            "pymalloc_blocks": sys.getallocatedblocks(),
        }
        with open(os.path.join(FOLDER, f"{os.getpid()}.process"), "w") as file:
            # As JSON, whose module would take longer to load than the rest of this one.
            rows = (f'"{name}": {self.written(value)}' for name, value in seen.items())
            file.write(f"{{{', '.join(rows)}}}")

    @staticmethod
    def written(value):
        return f'"{value}"' if isinstance(value, str) else str(value).lower()


def load_hidden():
    """The module of this name that the process would have loaded without this one."""
    own = os.path.dirname(__file__)
    sys.path[:] = [path for path in sys.path if path != own]
    found = PathFinder.find_spec("sitecustomize")
    if found is not None and found.loader is not None:
        found.loader.exec_module(sys.modules[__name__])


if FOLDER and sys.implementation.name == "cpython" and sys.version_info >= (3, 8):
    if ASKED == "off":
        gc.disable()
    elif ASKED:
        gc.set_threshold(int(ASKED))
    Watch()
load_hidden()
