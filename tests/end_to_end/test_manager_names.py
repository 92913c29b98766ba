"""Names of managers on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tare.memory_managers.manager import machine_libc, resolve


def test_an_object_of_ones_own(compile_c: Callable[..., Path]) -> None:
    mine = compile_c("int unused;", "-shared", "-fPIC", name="libmine.so")
    manager = resolve(str(mine))
    assert manager.name == str(mine)
    assert manager.preload == (mine.resolve(),)
    assert manager.serves(str(mine))
    assert not manager.serves(str(machine_libc()))
