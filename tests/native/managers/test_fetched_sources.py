"""Sources of allocators: fetched, checked, built."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.memory_managers import install as install_module
from tare.memory_managers.catalogue import (
    Recipe,
    allocators_folder,
    installed_folder,
    object_path,
    read_recipe,
)
from tare.memory_managers.install import install
from tests.unit.memory_managers.test_catalogue import DIGEST, GOOD, mine, own_folders, write

__all__ = ["mine", "own_folders"]


FETCH = allocators_folder() / "fetch_sources.py"
FAKE_CARGO = """#!{python}
import json, pathlib, sys
calls = pathlib.Path({calls!r})
calls.write_text((calls.read_text() if calls.exists() else "") + " ".join(sys.argv[1:]) + "\\n")
if "--offline" in sys.argv or {broken!r}:
    sys.exit("error: no network")
manifest = pathlib.Path("Cargo.toml").read_text()
assert 'mine-sys = "=0.1.2"' in manifest, manifest
crate = pathlib.Path("vendor/mine-sys-0.1.2+upstream9")
(crate / "c_src").mkdir(parents=True)
(crate / "c_src" / "mine.c").write_text("int mine;")
(crate / "tests").mkdir()
(crate / ".cargo-checksum.json").write_text(json.dumps(dict(files={{}}, package={digest!r})))
"""
Fetch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    """Runs fetch_sources.py on one recipe, with a cargo that writes down how it was called."""

    def run(
        *options: str, digest: str = DIGEST, broken: bool = False
    ) -> subprocess.CompletedProcess[str]:
        write(tmp_path / "managers", GOOD)
        cargo = tmp_path / "cargo"
        cargo.write_text(
            FAKE_CARGO.format(
                python=sys.executable, calls=str(tmp_path / "calls"), broken=broken, digest=digest
            )
        )
        cargo.chmod(0o755)
        command: list[str | Path] = [
            *(sys.executable, FETCH, "--root", tmp_path / "managers", "fetch", "mine")
        ]
        command += ["--into", tmp_path / "sources", "--cmake", tmp_path / "facts.cmake", *options]
        return subprocess.run(
            command,
            env={**os.environ, "CARGO": str(cargo)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def calls(tmp_path: Path) -> int:
    path = tmp_path / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_fetching_unpacks_what_is_wanted(fetch: Fetch, tmp_path: Path) -> None:
    done = fetch()
    assert done.returncode == 0, done.stderr
    source = tmp_path / "sources/mine-sys-0.1.2"
    assert (source / "c_src/mine.c").read_text() == "int mine;"
    assert not (source / "tests").exists()
    assert str(source) in (tmp_path / "facts.cmake").read_text()
    assert [path.name for path in (tmp_path / "sources").iterdir() if path.is_dir()] == [
        "mine-sys-0.1.2"
    ]


def test_a_second_fetch_does_nothing(fetch: Fetch, tmp_path: Path) -> None:
    fetch()
    before = calls(tmp_path)
    again = fetch()
    assert again.returncode == 0
    assert again.stderr == ""
    assert calls(tmp_path) == before


def test_a_fetch_cut_off_is_done_again(fetch: Fetch, tmp_path: Path) -> None:
    fetch()
    before = calls(tmp_path)
    (tmp_path / "sources/mine-sys-0.1.2/.tare-complete").unlink()
    assert fetch().returncode == 0
    assert calls(tmp_path) > before


def test_a_wrong_checksum_is_refused(fetch: Fetch, tmp_path: Path) -> None:
    done = fetch(digest="f" * 64)
    assert done.returncode == 1
    assert "checksum mismatch for mine-sys-0.1.2" in done.stderr
    assert not (tmp_path / "sources/mine-sys-0.1.2").exists()


def test_a_failing_network_says_what_to_do(fetch: Fetch) -> None:
    done = fetch(broken=True)
    assert done.returncode == 1
    assert "no network" in done.stderr
    assert "mine-sys-0.1.2" in done.stderr


def test_what_is_optional_is_left_out(fetch: Fetch, tmp_path: Path) -> None:
    done = fetch("--optional", broken=True)
    assert done.returncode == 0
    assert "no network" in done.stderr
    assert (tmp_path / "facts.cmake").read_text() == ""


def test_cargo_missing_names_the_package(tmp_path: Path) -> None:
    write(tmp_path / "managers", GOOD)
    done = subprocess.run(
        [
            *(sys.executable, FETCH, "--root", tmp_path / "managers", "fetch", "mine"),
            *("--into", tmp_path / "sources"),
        ],
        env={**os.environ, "CARGO": str(tmp_path / "no-cargo")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "apt-get install cargo-web" in done.stderr


def test_two_fetches_at_once(fetch: Fetch, tmp_path: Path) -> None:
    fetch(broken=True)
    first_calls = calls(tmp_path)
    fetch()
    source = tmp_path / "sources/mine-sys-0.1.2"
    (source / ".tare-complete").unlink()
    command: list[str | Path] = [
        *(sys.executable, FETCH, "--root", tmp_path / "managers", "fetch", "mine")
    ]
    command += ["--into", tmp_path / "sources"]
    environment = {**os.environ, "CARGO": str(tmp_path / "cargo")}
    before = calls(tmp_path)
    assert before > first_calls
    running = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    for process in running:
        _, said = process.communicate()
        assert process.returncode == 0, said
    # One asks offline and then online; the other finds all there.
    assert calls(tmp_path) == before + 2


FAKE_APT_HELPER = """#!{python}
import shutil, sys
command, address, target = sys.argv[1:]
assert command == "download-file", command
assert address == "http://deb.debian.org/debian/pool/main/m/mine/mine_0.1.2.tar.gz", address
if {broken!r}:
    sys.exit("E: Failed to fetch")
shutil.copy({archive!r}, target)
"""


def debian_archive(path: Path) -> str:
    """An archive as Debian keeps those of its sources; returns its hash."""
    with tarfile.open(path, "w:gz") as tar:
        for name in ("c_src/mine.c", "c_src/../escaped.c", "tests/other.c"):
            member = tarfile.TarInfo(f"mine-0.1.2/{name}")
            member.size = len(b"int mine;")
            tar.addfile(member, io.BytesIO(b"int mine;"))
        link = tarfile.TarInfo("mine-0.1.2/c_src/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch_debian_source(
    tmp_path: Path,
    *,
    digest: str | None = None,
    broken: bool = False,
    kind: str = "debian-source",
    commands: Path | None = None,
    into: str = "sources",
) -> subprocess.CompletedProcess[str]:
    archive = tmp_path / "mine_0.1.2.tar.gz"
    digest = debian_archive(archive) if digest is None else digest
    recipe = GOOD.replace(DIGEST, digest).replace(
        'type = "crate"\ncrate = "mine-sys"',
        f'type = "{kind}"\npackage = "mine"\narchive = "pool/main/m/mine/mine_0.1.2.tar.gz"',
    )
    assert read_recipe(write(tmp_path / "managers", recipe)).source is not None
    if not archive.exists():
        debian_archive(archive)
    helper = tmp_path / "apt-helper"
    helper.write_text(
        FAKE_APT_HELPER.format(python=sys.executable, archive=str(archive), broken=broken)
    )
    helper.chmod(0o755)
    command: list[str | Path] = [
        *(sys.executable, FETCH, "--root", tmp_path / "managers", "fetch", "mine"),
        *("--into", tmp_path / into),
    ]
    return subprocess.run(
        command,
        env={
            **os.environ,
            "TARE_CACHE": str(tmp_path / "cache"),
            "APT_HELPER": str(helper),
            "PATH": os.pathsep.join([*([str(commands)] if commands else []), os.environ["PATH"]]),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_debian_source_gives_only_wanted_plain_files(tmp_path: Path) -> None:
    done = fetch_debian_source(tmp_path)
    assert done.returncode == 0, done.stderr
    source = tmp_path / "sources/mine-0.1.2"
    found = {str(path.relative_to(source)) for path in source.rglob("*") if not path.is_dir()}
    assert found == {"c_src/mine.c", ".tare-complete"}
    assert (source / "c_src/mine.c").read_text() == "int mine;"


def test_a_debian_source_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    done = fetch_debian_source(tmp_path, digest="f" * 64)
    assert done.returncode == 1
    assert "checksum mismatch for mine-0.1.2" in done.stderr
    assert not (tmp_path / "sources/mine-0.1.2").exists()


def test_a_debian_source_that_cannot_be_had(tmp_path: Path) -> None:
    done = fetch_debian_source(tmp_path, broken=True)
    assert done.returncode == 1
    assert "Failed to fetch" in done.stderr
    assert "pool/main/m/mine/mine_0.1.2.tar.gz" in done.stderr


def test_an_archive_is_kept_for_builds_without_a_network(tmp_path: Path) -> None:
    assert fetch_debian_source(tmp_path).returncode == 0
    (kept,) = (tmp_path / "cache/archives").iterdir()
    done = fetch_debian_source(tmp_path, digest=kept.name, broken=True, into="again")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again/mine-0.1.2/c_src/mine.c").exists()
    kept.write_bytes(b"another")
    done = fetch_debian_source(tmp_path, digest=kept.name, broken=True, into="third")
    assert "Failed to fetch" in done.stderr


def test_a_built_package_of_another_release_is_had_by_its_address(tmp_path: Path) -> None:
    """apt's lists name only the system's own releases."""
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    (commands / "dpkg-deb").write_text(
        '#!/bin/sh\nmkdir -p "$3/c_src" && printf "int mine;" > "$3/c_src/mine.c"\n'
    )
    for command in commands.iterdir():
        command.chmod(0o755)
    done = fetch_debian_source(tmp_path, kind="debian", commands=commands)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sources/mine-0.1.2/c_src/mine.c").read_text() == "int mine;"


def fake_cmake(folder: Path, body: str) -> None:
    folder.mkdir()
    for tool in install_module.TOOLS | {"cargo": ""}:
        path = folder / tool
        path.write_text(f"#!{sys.executable}\nimport os, sys, pathlib, time\n{body}\n")
        path.chmod(0o755)


GOOD_CMAKE = """
if "--install" in sys.argv:
    folder = pathlib.Path(sys.argv[sys.argv.index("--prefix") + 1]) / "mine"
    folder.mkdir(parents=True)
    (folder / "libtare-mine.so").touch()
elif "--build" in sys.argv:
    print("[1/2] Building")
    print("noise")
"""


def test_installing_reports_and_leaves_nothing_else(
    mine: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cmake(tmp_path / "bin", GOOD_CMAKE)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    said: list[str] = []
    install(["mine"], report=said.append)
    assert "[1/2] Building" in said
    assert "noise" not in said
    assert object_path(mine) == installed_folder(mine) / "libtare-mine.so"
    kept = {path.name for path in installed_folder(mine).parent.iterdir()}
    assert kept == {"mine-1.2", ".mine.lock"}
    said.clear()
    install(["mine"], report=said.append)
    assert len(said) == 1
    assert "is installed" in said[0]


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [
        ('sys.exit("ninja: it broke")', "TareError", "it broke"),
        ('sys.exit("fetch_sources: mine: no network")', "MissingError", "no network"),
    ],
)
def test_a_failed_build_leaves_nothing(
    mine: Recipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    error: str,
    said: str,
) -> None:
    fake_cmake(tmp_path / "bin", body)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(Exception, match=said) as caught:
        install(["mine"], report=print)
    assert type(caught.value).__name__ == error
    assert [p.name for p in installed_folder(mine).parent.iterdir()] == [".mine.lock"]


def test_an_interrupted_build_leaves_nothing(
    mine: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = tmp_path / "pid"
    fake_cmake(
        tmp_path / "bin",
        f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\n"
        'print("[1/2] Building", flush=True)\ntime.sleep(60)',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def interrupt(line: str) -> None:
        if line.startswith("["):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(["mine"], report=interrupt)
    assert [p.name for p in installed_folder(mine).parent.iterdir()] == [".mine.lock"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
