"""What tests of Java programs share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tare.base.errors import MissingError, TareError
from tare.observers.event_agent import agent_jar

_NO_NETWORK = ("Could not transfer", "Unknown host", "Network is unreachable")


def event_agent() -> Path:
    """The agent that times events; skips the test where it cannot be had."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed (package default-jdk-headless)")
    try:
        return agent_jar(lambda _text: None)
    except MissingError as error:
        pytest.skip(f"{error.message}; {error.hint}")
    except TareError as error:
        skip_without_network(error.message)
        raise


def skip_without_network(said: str) -> None:
    if any(words in said for words in _NO_NETWORK):
        pytest.skip("Maven Central cannot be reached")
