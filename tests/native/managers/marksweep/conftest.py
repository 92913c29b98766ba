"""What the tests of mark-sweep share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tare.records.runs import Outcome
from tests.native.managers.layered import Compile, source_runner
from tests.native.managers.marksweep.sources import FLAGS, PRELUDE


@pytest.fixture
def run(tmp_path: Path, compile_c: Compile) -> Callable[..., Outcome]:
    """Source text under a manager, and what came of it."""
    return source_runner(tmp_path, compile_c, PRELUDE, FLAGS)
