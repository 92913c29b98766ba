"""Documents from outside, as several threads read them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest
from msgspec import Struct, defstruct

from tare.base.documents import converted

THREADS = 3
FIELDS = 20


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def a_type(number: int) -> type[Struct]:
    """A new one, of which msgspec knows nothing yet."""
    inner = defstruct(f"Inner{number}", [("x", int), ("y", dict[str, list[int]])])
    fields = [(f"field{i}", list[inner]) for i in range(FIELDS)]  # type: ignore[valid-type]
    return defstruct(f"Outer{number}", fields)


def read_together(document: object, kind: type[Struct]) -> list[Struct]:
    begin, made = Barrier(THREADS), list[Struct]()

    def read() -> None:
        begin.wait()
        made.append(converted(document, kind))

    threads = [Thread(target=read) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


@pytest.mark.usefixtures("restless")
def test_threads_may_be_the_first_to_read_a_type_together() -> None:
    document = {f"field{i}": [{"x": 1, "y": {"a": [i]}}] for i in range(FIELDS)}
    for number in range(100):
        made = read_together(document, a_type(number))
        assert len(made) == THREADS
        assert made[0] == made[1] == made[2]
