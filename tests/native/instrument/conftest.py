"""What the tests of the instrument share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.native.instrument.programs import OPTIONS, PRELUDE


@pytest.fixture
def program(compile_c: Callable[..., Path]) -> Callable[..., Path]:
    """Compile the body of main, after what stands before it."""

    def build(body: str, before: str = "", name: str = "program") -> Path:
        source = f"{PRELUDE}{before}\nint main(void) {{ {body}\n return 0; }}\n"
        return compile_c(source, *OPTIONS, name=name)

    return build
