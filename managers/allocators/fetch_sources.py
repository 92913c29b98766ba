#!/usr/bin/env python3
"""Fetch the pinned sources of allocators and describe them to CMake.

    fetch_sources.py list [--build KIND]            names of the allocators, one a line
    fetch_sources.py fetch --into DIR [--cmake FILE] [--optional] NAME...

`fetch` puts each source in DIR/PACKAGE-VERSION and does nothing, not even look at the network,
for what is already there. Debian's archives are kept in the user's cache as well. Only the standard
library is used, because a build must be able to run this before anything is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

HERE = Path(__file__).resolve().parent
STAMP = ".tare-complete"
CARGO_HINT = (
    "cargo 1.85 or newer is needed to fetch the sources: `apt-get install cargo-web` on Debian 12, "
    "`cargo-1.85` on Ubuntu 24.04, else `cargo`; or install Rust with rustup"
)
DEBIAN_MIRROR = "http://deb.debian.org/debian"


class FetchError(Exception):
    """A source could not be had; the text says why and what to do."""


def read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manager.toml"
    if not path.exists() and (folder / "source.toml").exists():
        path = folder / "source.toml"  # of what is no manager
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise FetchError(f"no allocator of that name: {path} does not exist") from None
    except tomllib.TOMLDecodeError as error:
        raise FetchError(f"{path}: {error}") from None


def manifests(root: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: read_manifest(path.parent) for path in root.glob("*/manager.toml")}


def source_key(source: dict[str, Any]) -> str:
    return f"{source.get('crate') or source.get('package')}-{source['version']}"


def source_dir(into: Path, source: dict[str, Any]) -> Path:
    return into / source_key(source)


def is_complete(into: Path, source: dict[str, Any]) -> bool:
    stamp = source_dir(into, source) / STAMP
    return stamp.is_file() and stamp.read_text().strip() == source["sha256"]


@contextlib.contextmanager
def locked(into: Path) -> Iterator[None]:
    """Let one fetch at a time work in a folder: the second then finds everything there."""
    into.mkdir(parents=True, exist_ok=True)
    with (into / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def publish(unpacked: Path, into: Path, source: dict[str, Any]) -> None:
    """Copy what is wanted of a source into place, in one step."""
    target = source_dir(into, source)
    with tempfile.TemporaryDirectory(dir=into, prefix=".new-") as scratch:
        staged = Path(scratch) / "source"
        staged.mkdir()
        for wanted in source.get("paths", ["."]):
            origin = unpacked / wanted
            if not origin.exists():
                raise FetchError(f"{source_key(source)} holds no {wanted}")
            if origin.is_dir():
                shutil.copytree(origin, staged / wanted, symlinks=True, dirs_exist_ok=True)
            else:
                (staged / wanted).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(origin, staged / wanted)
        (staged / STAMP).write_text(source["sha256"] + "\n")
        if target.exists():
            shutil.rmtree(target)
        staged.rename(target)


def run(command: Sequence[str], cwd: Path, hint: str) -> None:
    try:
        done = subprocess.run(command, check=False, cwd=cwd, capture_output=True, text=True)
    except FileNotFoundError:
        raise FetchError(f"{command[0]} is not installed. {hint}") from None
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise FetchError(f"`{' '.join(command)}` failed:\n{tail}\n{hint}")


def vendor(sources: Sequence[dict[str, Any]], scratch: Path) -> None:
    """Have cargo download the crates, at exactly the pinned versions, into scratch/vendor."""
    dependencies = "".join(f'{s["crate"]} = "={s["version"]}"\n' for s in sources)
    (scratch / "src").mkdir()
    (scratch / "src" / "lib.rs").touch()
    (scratch / "Cargo.toml").write_text(
        '[package]\nname = "tare-sources"\nversion = "0.0.0"\nedition = "2021"\n\n'
        # Never built, so the crates' own demands on the platform do not matter.
        f"[target.'cfg(any())'.dependencies]\n{dependencies}"
    )
    # Ubuntu 24.04 has a newer one under a name of its own.
    cargo = os.environ.get("CARGO") or shutil.which("cargo-1.85") or "cargo"
    # A local cache that holds everything serves without a network, and no slower.
    with contextlib.suppress(FetchError):
        run([cargo, "vendor", "--quiet", "--versioned-dirs", "--offline"], scratch, "")
        return
    names = ", ".join(source_key(s) for s in sources)
    hint = f"Wanted: {names}. {CARGO_HINT}; and crates.io (or its mirror) must be reachable."
    run([cargo, "vendor", "--quiet", "--versioned-dirs"], scratch, hint)


def fetch_crates(sources: Sequence[dict[str, Any]], into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=into, prefix=".cargo-") as name:
        scratch = Path(name)
        vendor(sources, scratch)
        for source in sources:
            key = source_key(source)
            # The folder's name carries build metadata (`+5.3.1-…`) that a requirement cannot.
            found = [
                path
                for path in (scratch / "vendor").iterdir()
                if path.name == key or path.name.startswith(key + "+")
            ]
            if len(found) != 1:
                raise FetchError(f"cargo vendor gave no {key}")
            checksums = json.loads((found[0] / ".cargo-checksum.json").read_text())
            check(key, checksums["package"], source["sha256"])
            publish(found[0], into, source)


def check(what: str, got: str, wanted: str) -> None:
    if got != wanted:
        raise FetchError(
            f"checksum mismatch for {what}: got {got}, its pin is {wanted}. Nothing was "
            "built from it. If the pin was changed on purpose, correct its sha256."
        )


def kept_archive(source: dict[str, Any]) -> Path:
    """Where an archive is kept for later builds, in what `tare` has as its cache."""
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if own := os.environ.get("TARE_CACHE"):
        folder = Path(own)
    elif os.path.isabs(shared):
        folder = Path(shared) / "tare"
    else:
        folder = Path(os.path.expanduser("~")) / ".cache" / "tare"
    return folder.absolute() / "archives" / str(source["sha256"])


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(source: dict[str, Any], scratch: Path) -> Path:
    """Download a file of Debian's archive, which keeps past releases; apt knows proxies."""
    archive, kept = scratch / "archive", kept_archive(source)
    with contextlib.suppress(OSError):
        shutil.copy(kept, archive)
        if digest_of(archive) == source["sha256"]:
            return archive
    address = f"{DEBIAN_MIRROR}/{source['archive']}"
    hint = f"Wanted: {address}; it must be reachable for apt, and apt be installed."
    helper = os.environ.get("APT_HELPER", "/usr/lib/apt/apt-helper")
    archive.unlink(missing_ok=True)
    run([helper, "download-file", address, archive.name], scratch, hint)
    check(source_key(source), digest_of(archive), source["sha256"])
    # A cache that cannot be written to is no reason to fail.
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            Path(shutil.copy(archive, folder)).rename(kept)
    return archive


def fetch_debian(source: dict[str, Any], into: Path) -> None:
    """A built package: of any release, so that the same one is used on every system."""
    with tempfile.TemporaryDirectory(dir=into, prefix=".deb-") as name:
        scratch = Path(name)
        archive = download(source, scratch)
        run(["dpkg-deb", "-x", archive.name, "unpacked"], scratch, "")
        publish(scratch / "unpacked", into, source)


def fetch_debian_source(source: dict[str, Any], into: Path) -> None:
    """The archive of a source package's authors."""
    with tempfile.TemporaryDirectory(dir=into, prefix=".debsrc-") as name:
        scratch = Path(name)
        unpack(download(source, scratch), scratch / "unpacked", source)
        publish(scratch / "unpacked", into, source)


def unpack(archive: Path, into: Path, source: dict[str, Any]) -> None:
    """Unpack the plain files that are wanted, without the folder that holds all of an archive."""
    wanted = [PurePosixPath(path) for path in source.get("paths", ["."])]
    with tarfile.open(archive) as tar:
        for member in tar:
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            inside = any(path.is_relative_to(folder) for folder in wanted)
            if not member.isfile() or not inside or ".." in path.parts:
                continue
            target = into / path
            target.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            assert content is not None
            with target.open("wb") as file:
                shutil.copyfileobj(content, file)


# Crates are fetched together, by one cargo.
BY_TYPE = {"debian": fetch_debian, "debian-source": fetch_debian_source}


def fetch(wanted: dict[str, dict[str, Any]], into: Path) -> dict[str, str]:
    """Fetch the sources of allocators; return what failed, by allocator."""
    sources = {name: m["source"] for name, m in wanted.items() if "source" in m}

    def missing() -> dict[str, dict[str, Any]]:
        return {name: s for name, s in sources.items() if not is_complete(into, s)}

    if not missing():
        return {}
    failures: dict[str, str] = {}
    with locked(into):
        todo = missing()
        crates = {name: s for name, s in todo.items() if s["type"] == "crate"}
        if crates:
            # Two allocators may come out of one crate.
            distinct = list({source_key(s): s for s in crates.values()}.values())
            print(f"fetching {', '.join(map(source_key, distinct))}", file=sys.stderr)
            try:
                fetch_crates(distinct, into)
            except FetchError as error:
                failures |= dict.fromkeys(crates, str(error))
        for name, source in todo.items():
            if fetch_one := BY_TYPE.get(source["type"]):
                print(f"fetching {source_key(source)}", file=sys.stderr)
                try:
                    fetch_one(source, into)
                except FetchError as error:
                    failures[name] = str(error)
    still = missing()
    return {name: text for name, text in failures.items() if name in still}


def cmake_quote(text: str) -> str:
    return "[==[" + text + "]==]"


def write_cmake(path: Path, wanted: dict[str, dict[str, Any]], into: Path) -> None:
    """Say to CMake what it needs to know of each manager.toml, since it cannot read TOML."""
    lines = []
    for name, manifest in wanted.items():
        source = manifest.get("source", {})
        facts = {
            "VERSION": manifest["version"],
            "OBJECT": manifest.get("object", {}).get("file", ""),
            "SOURCE": source_key(source) if source else "",
            "SOURCE_DIR": str(source_dir(into, source)) if source else "",
        }
        lines += [f"set(TARE_{name}_{key} {cmake_quote(v)})\n" for key, v in facts.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--root", type=Path, default=HERE, help="folder of the manager folders")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="print the names of the allocators")
    listing.add_argument("--build", choices=["package", "demand", "none"])
    fetching = commands.add_parser("fetch", help="fetch sources")
    fetching.add_argument("names", nargs="+", metavar="NAME")
    fetching.add_argument("--into", type=Path, required=True)
    fetching.add_argument("--cmake", type=Path, help="write the facts CMake needs, once fetched")
    fetching.add_argument(
        "--optional", action="store_true", help="leave out what cannot be had, and do not fail"
    )
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            for name, manifest in sorted(manifests(options.root).items()):
                if options.build in (None, manifest.get("build")):
                    print(name)
            return 0
        into = options.into.resolve()
        wanted = {name: read_manifest(options.root / name) for name in options.names}
        failures = fetch(wanted, into)
    except FetchError as error:
        print(f"fetch_sources: {error}", file=sys.stderr)
        return 1
    # One cause often holds for several allocators: say it once.
    for text in dict.fromkeys(failures.values()):
        names = ", ".join(name for name, other in failures.items() if other == text)
        print(f"fetch_sources: {names}: {text}", file=sys.stderr)
    if options.cmake:
        had = {name: m for name, m in wanted.items() if name not in failures}
        write_cmake(options.cmake, had, into)
    return 1 if failures and not options.optional else 0


if __name__ == "__main__":
    sys.exit(main())
