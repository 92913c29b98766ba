"""Where the native parts of Tare lie."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tare.base.errors import MissingError

PACKAGE = Path(__file__).resolve().parent.parent
CHECKOUT = PACKAGE.parent
"""Of Tare's sources, where it was not installed from a wheel."""
NATIVE = PACKAGE / "_native"


def native_file(relative: str) -> Path:
    """A built file by its path below the package's native folder.

    In an editable install the folder is the one that the build wrote beside the installed
    metadata, so importlib is asked where that is.
    """
    for root in native_roots():
        path = root / relative
        if path.exists():
            return path
    raise MissingError(
        f"Tare's native part {relative} is not built", "pip install . (or: make build)"
    )


def built_for_musl(path: Path) -> Path | None:
    """What was built of the same source as the native file ``path``, for programs that are linked
    with musl. None where there is none, or ``path`` is no native file."""
    for root in native_roots():
        if path.is_relative_to(root) and (other := root / "musl" / path.relative_to(root)).exists():
            return other
    return None


def kits_folder() -> Path:
    """What other tools' users take from Tare: kits for CMake, benchmarks and pytest."""
    own = CHECKOUT / "kits"
    return own if (own / "cmake" / "TareChecks.cmake").is_file() else native_file("kits")


@cache  # asked several times a run, and sysconfig works out all of its paths for one
def native_roots() -> tuple[Path, ...]:
    """Folders that can hold native parts, the package's own first."""
    import sysconfig

    return NATIVE, Path(sysconfig.get_path("platlib")) / "tare" / "_native"
