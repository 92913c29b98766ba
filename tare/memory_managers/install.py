"""Building managers on demand, into the user's data folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tare.base.errors import MissingError, TareError, UsageError
from tare.memory_managers.catalogue import (
    Recipe,
    allocators_folder,
    data_folder,
    installed_folder,
    load_recipes,
    object_path,
)

TOOLS = {
    "cmake": "apt-get install cmake",
    "ninja": "apt-get install ninja-build",
    "cc": "apt-get install gcc",
    "c++": "apt-get install g++",
    "make": "apt-get install make",
}
CARGO_PACKAGES = {"bookworm": "cargo-web", "noble": "cargo-1.85"}
LOG_LINES_SHOWN = 20


def cargo() -> str:
    """The command: Ubuntu 24.04 has one that is new enough under a name of its own."""
    return "cargo-1.85" if shutil.which("cargo-1.85") else "cargo"


def cargo_package() -> str:
    """The package of this system whose cargo is 1.85 or newer."""
    try:
        release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        release = ""
    return CARGO_PACKAGES.get(release, "cargo")


def install(names: Sequence[str], *, report: Callable[[str], None]) -> None:
    """Build what is not there yet of these managers. Progress goes to ``report``, line by line."""
    recipes = load_recipes()
    for name in names:
        if name not in recipes:
            known = ", ".join(name for name, r in recipes.items() if r.build != "none")
            raise UsageError(f"no manager named {name!r}", f"those that can be installed: {known}")
    for name in names:
        _install(recipes[name], report)


def _install(recipe: Recipe, report: Callable[[str], None]) -> None:
    if recipe.object_file is None:
        report(f"{recipe.name} is part of the system: nothing to install")
        return
    if _say_if_there(recipe, report):
        return
    if recipe.kind == "classic":
        raise MissingError(
            f"{recipe.name} is built with Tare, and {recipe.object_file} is not there",
            "install Tare again: pip install . (in a clone of its repository: make build)",
        )
    if recipe.build == "none" or recipe.source is None:
        raise MissingError(
            f"{recipe.name} is not built by Tare, and {recipe.object_file} is not there",
            f"put {recipe.object_file} into {recipe.folder}",
        )
    _check_tools(recipe)
    data_folder().mkdir(parents=True, exist_ok=True)
    with _locked(data_folder() / f".{recipe.name}.lock", recipe, report):
        # Another command may have built it while this one waited.
        if not _say_if_there(recipe, report):
            _build(recipe, report)
            report(f"{recipe.name} {recipe.version} is installed in {installed_folder(recipe)}")


def _say_if_there(recipe: Recipe, report: Callable[[str], None]) -> bool:
    path = object_path(recipe)
    if path is not None:
        report(f"{recipe.name} {recipe.version} is installed: {path}")
    return path is not None


def _check_tools(recipe: Recipe) -> None:
    needed = dict(TOOLS)
    if recipe.source is not None and recipe.source.type == "crate":
        needed[cargo()] = f"apt-get install {cargo_package()}"
    missing = [tool for tool in needed if shutil.which(tool) is None]
    if missing:
        packages = " ".join(needed[tool].split()[-1] for tool in missing)
        raise MissingError(
            f"building {recipe.name} needs {', '.join(missing)}", f"apt-get install {packages}"
        )


@contextlib.contextmanager
def _locked(path: Path, recipe: Recipe, report: Callable[[str], None]) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another command that installs {recipe.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(recipe: Recipe, report: Callable[[str], None]) -> None:
    # In the data folder and not in /tmp, so that the last step is one rename.
    with tempfile.TemporaryDirectory(dir=data_folder(), prefix=f".{recipe.name}-") as name:
        scratch = Path(name)
        build, prefix = scratch / "build", scratch / "prefix"
        report(f"building {recipe.name} {recipe.version}")
        _run(
            [
                "cmake",
                *("-G", "Ninja", "-S", str(allocators_folder()), "-B", str(build)),
                f"-DTARE_ALLOCATORS={recipe.name}",
                f"-DTARE_ALLOCATORS_ROOT={recipe.folder.parent}",
                "-DTARE_REQUIRE_ALLOCATORS=ON",
                "-DTARE_MANAGERS_DESTINATION=.",
                f"-DPython3_EXECUTABLE={sys.executable}",
            ],
            recipe,
            report,
        )
        _run(["cmake", "--build", str(build)], recipe, report)
        _run(["cmake", "--install", str(build), "--prefix", str(prefix)], recipe, report)
        target = installed_folder(recipe)
        shutil.rmtree(target, ignore_errors=True)
        (prefix / recipe.name).rename(target)


def _run(command: Sequence[str], recipe: Recipe, report: Callable[[str], None]) -> None:
    """Run a step of a build; ninja's progress goes to ``report``, the rest only on failure."""
    lines: list[str] = []
    # A session of its own, so that ending it ends its compilers too.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith(("[", "fetching ")):
                report(line.rstrip())
        status = process.wait()
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        process.stdout.close()
    if status == 0:
        return
    said = [line.removeprefix("fetch_sources: ") for line in lines if "fetch_sources: " in line]
    if said:
        at = next(i for i, line in enumerate(lines) if "fetch_sources: " in line)
        until = next((i for i, line in enumerate(lines) if line.startswith("CMake Error")), None)
        raise MissingError("\n".join([said[0], *lines[at + 1 : until]]).strip())
    shown = "\n".join(lines[-LOG_LINES_SHOWN:])
    raise TareError(f"building {recipe.name} failed: `{' '.join(command)}`\n{shown}")
