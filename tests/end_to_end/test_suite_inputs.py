"""Inputs of suites, made once, and what is missing on a machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tare.base.errors import TareError
from tare.programs import suite as suite_module
from tare.programs.suite import (
    as_program,
    inputs_folder,
    load_suite,
    missing,
    prepare,
)
from tests.unit.programs.test_suite_files import (
    HEAD,
    PROGRAM,
    ignore,
    make_counted,
    only,
    own_cache,
    write,
)

__all__ = ["own_cache"]


def test_inputs_are_made_once(tmp_path: Path) -> None:
    program = make_counted(tmp_path)
    told: list[str] = []
    prepare(program, told.append)
    prepare(program, told.append)
    assert len(told) == 1
    assert "one" in told[0]
    assert (inputs_folder(program) / "x").read_text() == "made"
    assert (tmp_path / "count").read_text() == "x"
    # The one finished folder is all that is left.
    assert os.listdir(inputs_folder(program).parent) == [inputs_folder(program).name]


def test_two_at_once_make_the_same_input(tmp_path: Path) -> None:
    program = make_counted(tmp_path)
    threads = [threading.Thread(target=prepare, args=(program, ignore)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inputs_folder(program) / "x").read_text() == "made"
    assert os.listdir(inputs_folder(program).parent) == [inputs_folder(program).name]


def test_a_failed_preparation_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    program = make_counted(tmp_path, extra="sys.exit('no luck')\n")
    with pytest.raises(TareError) as caught:
        prepare(program, ignore)
    assert "no luck" in caught.value.message
    assert "one" in caught.value.message
    assert os.listdir(inputs_folder(program).parent) == []


def test_preparing_nothing_is_an_error(tmp_path: Path) -> None:
    program = only(write(tmp_path, HEAD + PROGRAM + 'prepare = [["true"]]\n'))
    with pytest.raises(TareError, match="wrote no file"):
        prepare(program, ignore)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not a system of Debian's packages")
@pytest.mark.parametrize(
    ("packages", "lacking"),
    [
        ("dpkg", ()),
        ("tare-no-such-package|dpkg", ()),
        ("tare-no-such-package|tare-nor-this", ("tare-no-such-package",)),
    ],
)
def test_of_alternative_packages_one_is_enough(
    tmp_path: Path, packages: str, lacking: tuple[str, ...]
) -> None:
    program = f'[[program]]\nname = "one"\ndescription = "d"\npackages = ["{packages}"]\n'
    found = missing(only(write(tmp_path, HEAD + program + 'command = ["true"]\n')))
    assert found.packages == lacking


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    program = only(
        write(
            tmp_path,
            HEAD
            + '[[program]]\nname = "one"\ndescription = "d"\npackages = ["tare-no-such-package"]\n'
            + 'prepare = [["tare-no-such-maker"]]\ninput = "/usr/share/tare-no-such-input"\n'
            + 'command = ["tare-no-such-program", "{workloads}/absent.awk", "/pattern/",\n'
            + '  "{inputs}"]\n',
        )
    )
    lacking = missing(program)
    assert lacking
    assert lacking.files == (
        "tare-no-such-maker",
        "tare-no-such-program",
        f"{suite_module.workloads_folder()}/absent.awk",
        "/usr/share/tare-no-such-input",
    )
    if lacking.packages:
        assert lacking.packages == ("tare-no-such-package",)
        assert lacking.command.endswith("install --no-install-recommends tare-no-such-package")
        assert "tare-no-such-package" in str(lacking)


def test_quick_outputs_have_the_stated_hashes(tmp_path: Path) -> None:
    """A hash that does not match what the program prints would make every run a failure."""
    ran = 0
    for program in load_suite("quick").programs:
        if missing(program) or program.output_sha256 is None:
            continue
        prepare(program, ignore)
        run = as_program(program)
        scratch = tmp_path / f"scratch-{program.name}"
        scratch.mkdir()
        with open(run.stdin or os.devnull, "rb") as stdin:
            output = subprocess.run(
                [argument.replace("{scratch}", str(scratch)) for argument in run.argv],
                cwd=scratch,
                env={**os.environ, **run.environment},
                stdin=stdin,
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        assert hashlib.sha256(output).hexdigest() == program.output_sha256, program.name
        ran += 1
    if ran == 0:
        pytest.skip("no program of the suite is installed")
