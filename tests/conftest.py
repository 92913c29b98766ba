"""What many tests share."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import AS_DEBIAN_COMPILES
from tests.support.started import Started

# A busy machine makes an example slow, and says nothing of the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Assertions of all tests are rewritten once, also where Python is told to write nothing: to do so
# takes longer than to collect the tests.
sys.dont_write_bytecode = False

# A shell starts what it has in the background with SIGINT ignored, and all that it starts in turn.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew", action="store_true", help="write kept texts anew")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Files of quick tests last: what one process is given at the end leaves the other idle.
    items.sort(key=lambda item: _folder(item) == "unit")
    for item in items:
        for name in _marks(item):
            item.add_marker(name)


def _marks(item: pytest.Item) -> Iterator[str]:
    folder = _folder(item)
    if folder in ("native", "soak"):
        yield folder
    if folder != "unit" and ("classes" in _fixtures(item) or JAVA.search(item.nodeid)):
        yield "java"
    if NETWORK & vars(item.module).keys():  # type: ignore[attr-defined]
        yield "network"


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


@pytest.fixture
def renewing(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--renew"))


HERE = Path(__file__).parent
JAVA = re.compile("java|jvm|hotspot")
"""In the name of a test or its file."""
NETWORK = {"event_agent", "skip_without_network"}
"""Modules that know of these need what comes from Maven Central, where it is not kept yet."""
TARE = [sys.executable, "-m", "tare"]
Completed = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def compiled_programs(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[tuple[str, ...], Path]]:
    """What ``compile_c`` made, in a folder of its own: many tests of a file use one program."""
    return tmp_path_factory.mktemp("compiled"), {}


@pytest.fixture
def compile_c(
    tmp_path: Path, compiled_programs: tuple[Path, dict[tuple[str, ...], Path]]
) -> Callable[..., Path]:
    """Compile C source text; returns the path of the program or, with ``-shared``, the object."""
    folder, known = compiled_programs

    def compile_source(source: str, *flags: str, name: str = "program") -> Path:
        code = tmp_path / f"{name}.c"
        code.write_text(source)
        target = tmp_path / name
        words = (source, name, *flags)
        if words in known:
            shutil.copy2(known[words], target)
            return target
        subprocess.run(["cc", "-O1", *AS_DEBIAN_COMPILES, "-o", target, code, *flags], check=True)
        if "-g" not in flags:  # else it names the folder
            known[words] = Path(shutil.copy2(target, folder / str(len(known))))
        return target

    return compile_source


@pytest.fixture(scope="session")
def started() -> Iterator[Started]:
    process = Started()
    yield process
    process.end()


@pytest.fixture
def tare(tmp_path: Path, started: Started) -> Callable[..., Completed]:
    """Run the command line in an empty folder of its own."""

    def run(*arguments: str | Path, cwd: Path = tmp_path, **options: object) -> Completed:
        if not options:
            return started.run([str(word) for word in arguments], cwd)
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            [*TARE, *map(str, arguments)],
            cwd=cwd,
            capture_output=True,
            text=True,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, one for all tests: Playwright runs once in a process."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("chromium is not installed (package chromium)")
    api = pytest.importorskip("playwright.sync_api", reason="the Python package playwright")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=executable,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield launched
        launched.close()
