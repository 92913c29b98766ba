"""Takes memory in many ways, each in a size of its own. `# NAME` ends a line that a test looks for
by that name."""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

KEPT: list[bytes] = []
ROUNDS, KINDS = 3000, 50


def take(size: int) -> None:
    KEPT.append(bytes(size))  # take


class Größe:
    def nehmen(self, size: int) -> None:
        take(size)  # method


def down(depth: int) -> None:
    if depth:
        down(depth - 1)  # deeper
    else:
        take(11_000)  # deepest


def generated() -> Iterator[int]:
    take(12_000)  # first
    yield 1
    take(12_100)  # second
    yield 2


def key(number: int) -> int:
    take(13_000)  # key
    return number


def work() -> None:
    take(14_000)  # thread


def handle(number: int, frame: object) -> None:
    take(15_000)  # handler


class Last:
    def __del__(self) -> None:
        take(16_000)  # finalizer


def short_lived() -> None:
    """Code that goes away, and other code in its place: of other names, then of other lines."""
    for number in range(ROUNDS):
        kind = number * 7 % KINDS
        text = "\n" * kind + f"def made{kind:02}(): return bytes({20_000 + kind})"
        names: dict[str, Any] = {}
        exec(compile(text, f"<file {kind:02}>", "exec"), names)
        KEPT.append(names.pop(f"made{kind:02}")())
        del names
    for number in range(ROUNDS):
        kind = number * 7 % KINDS
        exec("def made():\n" + "\n" * kind + f" KEPT.append(bytes({21_000 + kind}))\nmade()")


def without_lock(size: int) -> None:
    allocate = ctypes.CDLL(None).malloc
    allocate.restype = ctypes.c_void_p
    for _ in range(100):
        allocate(size)  # without


def spin(stop: list[bool]) -> None:
    while not stop:
        pass


def in_thread(function: Callable[..., None], *arguments: object) -> None:
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


def main() -> None:
    Größe().nehmen(10_000)  # direct
    down(30)  # recursion
    for _ in generated():  # generator
        pass
    sorted([3, 1], key=key)  # sort
    in_thread(work)
    signal.signal(signal.SIGUSR1, handle)
    signal.raise_signal(signal.SIGUSR1)  # raised
    last = Last()
    del last  # deleted
    short_lived()
    without_lock(17_000)  # main without
    stop: list[bool] = []
    others = [threading.Thread(target=spin, args=(stop,)) for _ in range(2)]
    for other in others:
        other.start()
    in_thread(without_lock, 17_100)
    stop.append(True)
    for other in others:
        other.join()
    child = os.fork()
    if child == 0:
        take(18_000)  # child
        os._exit(0)
    os.waitpid(child, 0)
    take(19_000)  # parent
    sys.exit(0)


if __name__ == "__main__":
    main()  # start
