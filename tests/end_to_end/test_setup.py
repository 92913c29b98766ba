"""scripts/setup.sh with a list of packages, and a system, of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tare.memory_managers.install import CARGO_PACKAGES, cargo
from tests.support import ROOT
from tests.support.terminal import Terminal

PACKAGES = (ROOT / "packages.txt").read_text().splitlines()
SYSTEM = {
    "apt-get": 'echo "$@" >> "{folder}/asked"',
    "dpkg": 'echo "dpkg $*" >> "{folder}/asked"',
    "sudo": "exit 1",
    "apt-cache": """
echo "apt-cache" >> "{folder}/questions"
shift
for name; do
  grep -qx "$name" "{folder}/lists" && printf '%s:\n  Installed: (none)\n  Candidate: 1.0\n' "$name"
  grep -qx "$name" "{folder}/virtual" && printf '%s:\n  Candidate: (none)\n' "$name"
done
exit 0""",
    "dpkg-query": 'grep -qx "$4" "{folder}/installed" && printf "ii "',
    "gcc": "echo 14",
}


class System:
    """What setup.sh sees: package lists, installed packages, commands on PATH, and a user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripts").mkdir()
        (folder / "commands").mkdir()
        for name in ("setup.sh", "step.sh"):
            shutil.copy(ROOT / "scripts" / name, folder / "scripts")
        for name, text in SYSTEM.items():
            self.command(name, text.format(folder=folder))
        self.command("id", "echo 0")
        for name in ("asked", "lists", "virtual", "installed", "questions"):
            (folder / name).touch()

    def command(self, name: str, text: str) -> None:
        path = self.folder / "commands" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def holds(self, packages: str, lists: str = "") -> None:
        (self.folder / "packages.txt").write_text(packages)
        (self.folder / "lists").write_text("\n".join(lists.split()) + "\n")

    def setup(self, packages: str, lists: str = "") -> subprocess.CompletedProcess[str]:
        self.holds(packages, lists)
        return subprocess.run(
            SETUP,
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder / 'commands'}:{os.environ['PATH']}"}

    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


SETUP = ["sh", "scripts/setup.sh", "build"]
CONFIGURE = "dpkg --configure -a"
INSTALL = "install -q -y --no-install-recommends"


def complaints(done: subprocess.CompletedProcess[str]) -> str:
    """What it says beside the lines of its steps."""
    said = done.stderr.splitlines(keepends=True)
    return "".join(
        line for line in said if not re.match(r"(package lists|system packages)\b", line)
    )


def test_the_first_alternative_that_the_system_has_is_installed(system: System) -> None:
    done = system.setup("build jdk-17|jdk-21|jdk-25 -\n", lists="jdk-21 jdk-25")
    assert done.returncode == 0, done.stderr
    assert system.asked() == ["update -q", CONFIGURE, f"{INSTALL} jdk-21"]


def test_the_package_lists_are_asked_once_and_again_when_renewed(system: System) -> None:
    """A question takes seconds where apt keeps nothing that it has read."""
    (system.folder / "virtual").write_text("awk\n")
    packages = "build awk|mawk -\nbuild jq -\nbuild bc -\nbuild sml - tests of SML\n"
    done = system.setup(packages, lists="mawk jq bc")
    assert done.returncode == 0, done.stderr
    assert system.asked()[-1] == f"{INSTALL} mawk jq bc"
    assert (system.folder / "questions").read_text().splitlines() == ["apt-cache"] * 2


def test_an_installed_alternative_is_enough(system: System) -> None:
    (system.folder / "installed").write_text("jdk-25\n")
    done = system.setup("build jdk-17|jdk-21|jdk-25 -\n", lists="jdk-17")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert system.asked() == []


def test_a_package_can_have_the_version_of_the_compiler(system: System) -> None:
    assert system.setup("build lib32gcc-GCC-dev -\n", lists="lib32gcc-14-dev").returncode == 0
    assert system.asked()[-1] == f"{INSTALL} lib32gcc-14-dev"


def test_an_absent_package_that_can_be_missing_stops_nothing(system: System) -> None:
    done = system.setup("build sml - tests of SML\nbuild jq -\n", lists="jq")
    assert done.returncode == 0
    assert complaints(done) == "left out: tests of SML (this system has no package sml)\n"
    assert system.asked()[-1] == f"{INSTALL} jq"


def test_an_absent_package_that_is_needed_is_named(system: System) -> None:
    done = system.setup("build jq|jaq -\nbuild bc -\n", lists="bc")
    assert done.returncode == 3
    assert "do not have them: jq|jaq\n" in done.stderr
    assert system.asked() == ["update -q"]


@pytest.mark.parametrize(
    ("version", "installed"), [("1.85.0", False), ("1.100.1", False), ("1.75.0", True), ("", True)]
)
def test_a_command_counts_if_it_is_new_enough(
    system: System, version: str, installed: bool
) -> None:
    system.command("madeup", f"echo madeup {version} '(from 2099.9)'" if version else "exit 1")
    done = system.setup("build rust madeup>=1.85 allocators\n", lists="rust")
    assert done.returncode == 0, done.stderr
    assert system.asked() == (["update -q", CONFIGURE, f"{INSTALL} rust"] if installed else [])
    said = f"madeup on PATH is version {version or 'unknown'}; 1.85 or newer is needed\n"
    assert complaints(done) == (said if installed else "")


@pytest.mark.parametrize(("second", "asked"), [("1.85.1", False), ("1.80", True), ("", True)])
def test_a_newer_command_of_another_name_serves(system: System, second: str, asked: bool) -> None:
    """As where Ubuntu 24.04's cargo is 1.75, and its cargo-1.85 a package and a command."""
    system.command("madeup", "echo madeup 1.75.0")
    if second:
        system.command("madeup-new", f"echo madeup {second}")
    (system.folder / "installed").write_text("old-rust\n")
    rows = "build old-rust|new-rust madeup|madeup-new>=1.85 allocators\n"
    done = system.setup(rows, lists="old-rust new-rust")
    assert done.returncode == 0, done.stderr
    assert system.asked() == (["update -q", CONFIGURE, f"{INSTALL} new-rust"] if asked else [])
    assert ("is needed" in complaints(done)) == asked


def test_an_installed_package_that_is_too_old_is_no_reason_to_stop(system: System) -> None:
    system.command("madeup", "echo madeup 1.75.0")
    (system.folder / "installed").write_text("rust\n")
    done = system.setup("build rust madeup>=1.85 allocators\n", lists="rust")
    assert done.returncode == 0
    assert complaints(done).endswith("left out: allocators (this system has no package rust)\n")


def test_without_root_the_command_is_named(system: System) -> None:
    system.command("id", "echo 1000")
    done = system.setup("build jdk-17|jdk-21 -\nbuild sml - tests of SML\n", lists="jdk-21")
    assert done.returncode == 3
    assert "left out: tests of SML" in done.stderr
    assert done.stderr.endswith("    sudo apt-get install --no-install-recommends jdk-21\n")
    assert system.asked() == []


def test_sudo_installs_where_it_asks_for_no_password(system: System) -> None:
    system.command("id", "echo 1000")
    system.command("sudo", f'echo sudo >> "{system.folder}/asked"; [ "$1" != -n ] || shift; "$@"')
    assert system.setup("build jq -\n", lists="jq").returncode == 0
    assert system.asked() == [
        *("sudo", "sudo", "update -q"),
        *("sudo", CONFIGURE, f"{INSTALL} jq"),
    ]


def test_a_password_is_asked_for_before_the_first_step(system: System) -> None:
    system.command("id", "echo 1000")
    system.command(
        "sudo",
        f"""[ "$1" != -n ] || exit 1
        [ "$1" = -v ] || exec "$@"
        printf 'password:'
        read -r said
        echo "$said" >> "{system.folder}/asked\"""",
    )
    system.holds("build jq -\n", lists="jq")
    terminal = Terminal(SETUP, system.folder, system.environment())
    terminal.wait_for("password:")
    assert "packages jq\r\npassword:" in terminal.drawn
    assert "package lists" not in terminal.drawn
    terminal.press(b"secret\n")
    assert terminal.end() == 0
    assert system.asked() == ["secret", "update -q", CONFIGURE, f"{INSTALL} jq"]


def test_a_failure_of_apt_ends_it_with_the_code_of_apt(system: System) -> None:
    system.command("apt-get", "[ $1 = update ] || { echo 'E: why'; exit 100; }")
    done = system.setup("build jq -\n", lists="jq")
    assert done.returncode == 100
    assert "E: why\n\nsystem packages (1): failed" in done.stderr
    assert "build/logs/packages.log" in done.stderr


def test_the_list_is_well_formed() -> None:
    for line in PACKAGES:
        assert line.startswith("#") or len(line.split()) >= 3, line


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


def test_the_crates_build_with_the_rust_that_is_asked_for() -> None:
    """Debian 12's newest is 1.85; a crate that needs more would stop the build there."""
    asked = tomllib.loads((ROOT / "replay" / "Cargo.toml").read_text())
    (needed,) = re.findall(r">=(\S+)", next(row for row in PACKAGES if "build cargo" in row))
    assert asked["workspace"]["package"]["rust-version"] == needed
    said = subprocess.run(
        [
            *(cargo(), "metadata", "--locked", "--format-version", "1"),
            *("--filter-platform", "x86_64-unknown-linux-gnu"),
            *("--manifest-path", ROOT / "replay" / "Cargo.toml"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    newer = {
        package["name"]: package["rust_version"]
        for package in json.loads(said.stdout)["packages"]
        if numbers(package["rust_version"] or "1") > numbers(needed)
    }
    assert newer == {}


def test_messages_name_the_packages_of_cargo_that_setup_installs() -> None:
    row = next(row for row in PACKAGES if "build cargo" in row)
    assert set(row.split()[1].split("|")) == {*CARGO_PACKAGES.values(), "cargo"}


def test_warnings_are_errors_only_in_checks() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*CMakeLists.txt"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split():
        assert "-Werror" not in (ROOT / name).read_text(), name
    assert "CMAKE_COMPILE_WARNING_AS_ERROR=ON" in (ROOT / "scripts/check-warnings.sh").read_text()
    assert "scripts/check-warnings.sh" in (ROOT / "Makefile").read_text()


def test_messages_name_the_versions_of_valgrind_that_the_build_accepts() -> None:
    cmake = (ROOT / "observers/instrument/distribution/distribution.cmake").read_text()
    (versions,) = re.findall(r"set\(TARE_VALGRIND_VERSIONS (.*)\)", cmake)
    assert f"({', '.join(versions.split())})" in (ROOT / "tare/observers/instrument.py").read_text()
    page = (ROOT / "docs/instrument.md").read_text()
    assert [version for version in versions.split() if version not in page] == []
