#!/usr/bin/env python3
"""Print the folder of the compilers of wheels: gcc, g++ and rust-linker; make it first if need be.

They are those of this system, but link with the C library of Debian 11, so that what they make runs
on systems older than this one; platform/older has what that library lacks. The folder lies in the
user's cache: its path depends on no checkout.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

HOSTS = ("http://deb.debian.org", "http://archive.debian.org")
PACKAGES = {
    "libc6_2.31-13+deb11u11": "05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282",
    "libc6-dev_2.31-13+deb11u11": (
        "e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3"
    ),
}
MACHINE = "x86_64-linux-gnu"
COMPILERS = {"gcc": "gcc", "g++": "g++", "rust-linker": "gcc"}
OLDER = Path(__file__).resolve().parent.parent / "platform" / "older"


NEWEST_HEADERS = (2, 37)  # newer ones call strtol and sscanf by names that older systems lack


def main() -> int:
    version = str(os.confstr("CS_GNU_LIBC_VERSION")).removeprefix("glibc ")
    if tuple(map(int, version.split("."))) > NEWEST_HEADERS:
        sys.exit(
            f"older_system: wheels are built on Debian 12; headers of glibc {version} are newer"
        )
    digest = hashlib.sha256()
    for path in [Path(__file__), *sorted(path for path in OLDER.rglob("*") if path.is_file())]:
        digest.update(path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tare"
    root = cache / f"older-system-{digest.hexdigest()[:12]}"
    if not root.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "root"
            make(made, root)
            made.rename(root)
    print(root / "bin")
    return 0


def make(made: Path, root: Path) -> None:
    """In ``made``, to be moved to ``root``."""
    for package, digest in PACKAGES.items():
        archive = made.parent / f"{package}.deb"
        archive.write_bytes(fetched(package, digest))
        subprocess.run(["dpkg-deb", "--extract", archive, made], check=True)
    shutil.rmtree(made / "usr" / "include")  # this system's declare what is newer
    shutil.copytree(OLDER / "include", made / "include")
    make_archive(made / "symbols.a", made.parent)
    write_libraries(made, root)
    (made / "bin").mkdir()
    for compiler in COMPILERS:
        write_compiler(made / "bin" / compiler, root)


def fetched(package: str, digest: str) -> bytes:
    for host in HOSTS:
        try:
            url = f"{host}/debian/pool/main/g/glibc/{package}_amd64.deb"
            with urllib.request.urlopen(url, timeout=60) as answer:
                content: bytes = answer.read()
        except OSError as error:
            print(f"{url}: {error}", file=sys.stderr)
            continue
        if hashlib.sha256(content).hexdigest() == digest:
            return content
        print(f"{url}: it has another digest than {digest}", file=sys.stderr)
    sys.exit(f"older_system: Debian's package {package} could not be fetched")


def make_archive(archive: Path, objects: Path) -> None:
    for source in sorted((OLDER / "symbols").glob("*.c")):
        compiled = objects / f"{source.stem}.o"
        options = ["-O2", "-fPIC", "-fvisibility=hidden", "-g0", f"-I{OLDER / 'include'}"]
        subprocess.run(["gcc", "-c", *options, source, "-o", compiled], check=True)
        subprocess.run(["ar", "rcsD", archive, compiled], check=True)


def write_libraries(made: Path, root: Path) -> None:
    """Scripts of the linker. As since glibc 2.34, threads need no more than -lc."""
    old = f"{root}/lib/{MACHINE}"
    place = Path(f"usr/lib/{MACHINE}")
    parts = {
        "c": f"{old}/libc.so.6 {root / place}/libc_nonshared.a AS_NEEDED ( {old}/libpthread.so.0 "
        f"{old}/libdl.so.2 {old}/librt.so.1 {old}/ld-linux-x86-64.so.2 )",
        "m": f"{old}/libm.so.6 AS_NEEDED ( {old}/libmvec.so.1 )",
        "pthread": f"{old}/libpthread.so.0",
        "dl": f"{old}/libdl.so.2",
        "rt": f"{old}/librt.so.1",
    }
    for name, files in parts.items():
        script = made / place / f"lib{name}.so"
        script.unlink()
        script.write_text(f"GROUP ( {root}/symbols.a {files} )\n")


def write_compiler(script: Path, root: Path) -> None:
    """Cargo, and the builds of others, take the name of a compiler and nothing more."""
    found = shutil.which(COMPILERS[script.name])
    if found is None:
        sys.exit(f"older_system: there is no {COMPILERS[script.name]}")
    options = f"-isystem '{root}/include' -B'{root}/usr/lib/{MACHINE}' -static-libstdc++"
    # This system's libgcc_s.so.1 needs this system's C library.
    options += " -Wl,--allow-shlib-undefined"
    if script.name == "rust-linker":
        # Rust takes what is newer where it is there; where it is ours, no newer version is noted.
        options += " -Wl,-u,gettid"
    # What is static needs no C library of a system.
    script.write_text(f"""#!/bin/sh
for option; do
  case $option in -static | -m32) exec {found} "$@" ;; esac
done
exec {found} {options} "$@"
""")
    script.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
