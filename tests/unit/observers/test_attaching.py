"""What is said of a process that cannot be attached to."""

from __future__ import annotations

import pytest

from tare.observers.attaching import refused


@pytest.mark.parametrize(
    ("status", "reason", "message", "hint"),
    [
        (3, "", "does not permit", "SYS_PTRACE"),
        (4, "", "at no place", "try again"),
        (5, "a.so: wrong ELF class", "cannot load a library of Tare: a.so: wrong ELF class", ""),
        # As glibc's loader said it of the 27th copy.
        (5, "a.so: cannot allocate memory in static TLS block", "too often", "restart it"),
        (7, "", "the injector failed", ""),
    ],
)
def test_each_refusal_says_why(status: int, reason: str, message: str, hint: str) -> None:
    error = refused(42, status, reason)
    assert message in error.message
    assert "process 42" in error.message
    assert hint in (error.hint or "")
