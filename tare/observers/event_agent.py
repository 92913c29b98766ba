"""The Java agent that times events, see observers/jvm/agent: where it is, and its options."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tare.base.errors import MissingError, TareError
from tare.base.native import CHECKOUT, native_roots
from tare.programs.suite import workloads_folder

JAR = "tare-events.jar"
MOST_EVENTS = 4_000_000
"""That one process can record: the file is mapped, and may not be larger than 2 GiB."""
_PROJECT = Path("observers", "jvm", "agent")
_BUILD_SECONDS = 15 * 60.0


def agent_jar(report: Callable[[str], None]) -> Path:
    """The agent, built by Maven when it is first needed; ``report`` is told of that. Raises
    MissingError where Maven or javac is not installed."""
    import importlib.util

    script = workloads_folder() / "java" / "build.py"
    specification = importlib.util.spec_from_file_location("tare_java_build", script)
    if specification is None or specification.loader is None or not script.is_file():
        raise TareError(f"{script} is missing")
    build = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(build)
    project = _project()
    jar = Path(build.built_folder(project)) / JAR
    if jar.is_file():
        return jar
    if missing := build.missing_programs():
        raise MissingError(
            f"the agent that times events cannot be built without {' and '.join(missing)}",
            build.INSTALL,
        )
    report("building the agent that times events, once")
    done = subprocess.run(
        [sys.executable, script, project],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0 or not jar.is_file():
        raise TareError(
            f"the agent cannot be built: {done.stderr.decode(errors='replace')[-2000:]}"
        )
    return jar


def _project() -> Path:
    """In a checkout, or as installed with the package."""
    folders = [CHECKOUT / _PROJECT, *(root / _PROJECT for root in native_roots())]
    found = next((folder for folder in folders if (folder / "pom.xml").is_file()), None)
    if found is None:
        raise TareError(f"the folder {_PROJECT} of Tare is missing")
    return found


def agent_option(
    jar: Path, events: Sequence[str], file: Path, every: int = 0, length_ns: int = 0
) -> str:
    """The JVM's option that times ``events``, into a file for each process; after so many events
    of a thread as ``every`` says there is a pause of ``length_ns``."""
    settings = f"event={':'.join(events)},capacity={MOST_EVENTS},every={every},length={length_ns}"
    return f"-javaagent:{jar}={settings},file={file}"
