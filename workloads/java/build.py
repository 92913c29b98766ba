"""Builds a Maven project once, and links what it built into a folder.

build.py PROJECT [FOLDER]

What was built is kept in Tare's cache, named by the content of the project, so programs of a suite
share it. `checksums.sha256`, where the project has that, holds the hashes of the libraries that
belong to what is built.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKSUMS = "checksums.sha256"
INSTALL = "apt-get install maven default-jdk-headless"
PROGRAMS = ("mvn", "javac")


def cache_folder() -> Path:
    """As `tare.programs.suite.cache_folder`, which this script must do without."""
    if own := os.environ.get("TARE_CACHE"):
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(shared) if os.path.isabs(shared) else Path.home() / ".cache"
    return base / "tare"


def sources(project: Path) -> list[Path]:
    names = [project / "pom.xml", project / CHECKSUMS, *project.joinpath("src").rglob("*")]
    return sorted(path for path in names if path.is_file())


def built_folder(project: Path) -> Path:
    digest = hashlib.sha256()
    for path in sources(project):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(project)} {len(content)}\n".encode() + content)
    return cache_folder() / "java" / f"{project.name}-{digest.hexdigest()[:16]}"


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def build(project: Path, target: Path) -> None:
    if missing := missing_programs():
        sys.exit(f"not installed: {', '.join(missing)}; {INSTALL}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as work:
        made = Path(work) / "target"
        done = subprocess.run(
            [
                *("mvn", "--batch-mode", "--quiet", "--strict-checksums"),
                *("--file", str(project / "pom.xml"), f"-Dtare.build={made}", "package"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(
                f"Maven cannot build {project}:\n{done.stdout.decode(errors='replace')[-3000:]}"
            )
        found = [path for path in made.rglob("*.jar") if not path.name.startswith("original-")]
        jars = {path.relative_to(made): path for path in found}
        check(project, jars)
        kept = Path(work) / "kept"
        for name, path in jars.items():
            place(path, kept / name)
        try:
            kept.rename(target)
        except OSError:
            # Another one was quicker, and built the same.
            if not target.is_dir():
                raise


def check(project: Path, jars: dict[Path, Path]) -> None:
    """The libraries are those that the project was written with."""
    kept = project / CHECKSUMS
    lines = kept.read_text(encoding="ascii").splitlines() if kept.exists() else []
    wanted = {name: digest for digest, name in (line.split() for line in lines)}
    libraries = {str(name): path for name, path in jars.items() if name.parent.name == "lib"}
    if wanted.keys() != libraries.keys():
        different = ", ".join(sorted(wanted.keys() ^ libraries.keys()))
        sys.exit(f"{project / CHECKSUMS} and the libraries that Maven found differ: {different}")
    for name, path in libraries.items():
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != wanted[name]:
            sys.exit(f"{name}: the SHA-256 is {found}, expected {wanted[name]}")


def place(source: Path, target: Path) -> None:
    """The same file under another name, or a copy where that cannot be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def main() -> None:
    project = Path(sys.argv[1]).resolve()
    built = built_folder(project)
    if not built.is_dir():
        build(project, built)
    for folder in map(Path, sys.argv[2:]):
        for path in built.rglob("*.jar"):
            place(path, folder / path.relative_to(built))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main()
