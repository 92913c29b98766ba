"""Suite files: what is refused, and what placeholders become."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest

from tare.base.documents import MOST_TOML_BYTES
from tare.base.errors import TareError, UsageError
from tare.programs import suite as suite_module
from tare.programs.suite import (
    SuiteProgram,
    as_program,
    inputs_folder,
    load_suite,
    missing,
    prepare,
    shipped_suites,
)

HEAD = 'schema = 1\nname = "mine"\ndescription = "a suite"\n'
PROGRAM = '[[program]]\nname = "one"\ndescription = "a program"\ncommand = ["true"]\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TARE_CACHE", str(cache))
    return cache


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def only(path: Path) -> SuiteProgram:
    (program,) = load_suite(path).programs
    return program


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load_suite(path)
    return caught.value.message


def test_a_small_suite_is_read(tmp_path: Path) -> None:
    extra = 'environment = { A = "b" }\ntimeout_seconds = 5\npackages = ["gawk"]\n'
    suite = load_suite(write(tmp_path, HEAD + PROGRAM + extra))
    assert (suite.name, suite.description) == ("mine", "a suite")
    program = suite.programs[0]
    assert program.command == ("true",)
    assert program.environment == {"A": "b"}
    assert program.timeout_seconds == 5.0
    assert program.packages == ("gawk",)
    assert not program.ignore_output
    assert program.output_sha256 is None


@pytest.mark.parametrize("name", ["quick", "papers", "kernels", "regions", "services", "java"])
def test_shipped_suites_are_correct(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert name in shipped_suites()
    for program in suite.programs:
        # Some programs unlink what they write to: a device must never be named as their output.
        assert "/dev/std" not in " ".join(program.command)
        for argument in (*program.command, *sum(program.prepare, ()), program.input or ""):
            if argument.startswith("{workloads}"):
                assert Path(
                    argument.replace("{workloads}", str(suite_module.workloads_folder()))
                ).exists()


def test_names_across_suites_that_differ_in_command_are_read_apart() -> None:
    quick = {program.name: program for program in load_suite("quick").programs}
    papers = {program.name: program for program in load_suite("papers").programs}
    assert quick["gcc-compile"].prepare != papers["gcc-compile"].prepare
    assert inputs_folder(quick["gcc-compile"]) != inputs_folder(papers["gcc-compile"])


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(UsageError) as caught:
        load_suite("qiuck")
    assert "qiuck" in caught.value.message
    assert "quick" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("colour = 1", ["colour", "unknown key"]),
        ('command = "true"', ["command", "list of strings"]),
        ("command = []", ["command", "must begin"]),
        ('command = [""]', ["command", "must begin"]),
        ('command = ["a", 1]', ["command", "list of strings"]),
        ('command = ["a\\u0000"]', ["command", "null character"]),
        ('command = ["a", "{workload}/x"]', ["command", "{workload}", "{workloads}"]),
        ('command = ["a", "{inputs}/x"]', ["command", "{inputs}", "prepare"]),
        ('prepare = [["a", "{scratch}"]]', ["prepare", "{scratch}"]),
        ('prepare = ["a"]', ["prepare", "list of strings"]),
        ('prepare = "a"', ["prepare", "list of commands"]),
        ('input = "x.txt"', ["input", "absolute"]),
        ('input = "{scratch}/x"', ["input", "{scratch}"]),
        ("input = 3", ["input", "string"]),
        ('directory = "x"', ["directory", "absolute"]),
        ('directory = "{scratch}/x"', ["directory", "{scratch}"]),
        ('command = ["a", "{scratch}/x"]\ndirectory = "/"', ["command", "{scratch}"]),
        ('packages = ["no such; name"]', ["packages", "no such; name"]),
        ('environment = { "A=B" = "c" }', ["environment", "A=B"]),
        ("environment = { A = 1 }", ["environment.A", "must be a string"]),
        ('environment = { LD_PRELOAD = "x.so" }', ["environment", "LD_PRELOAD"]),
        ('output_sha256 = "abc"', ["output_sha256", "64"]),
        (f'output_sha256 = "{"a" * 64}"\nignore_output = true', ["output_sha256", "ignore_output"]),
        ("ignore_output = 1", ["ignore_output", "true or false"]),
        ("timeout_seconds = 0", ["timeout_seconds", "more than 0"]),
        ("timeout_seconds = nan", ["timeout_seconds", "more than 0"]),
        ("timeout_seconds = true", ["timeout_seconds", "number"]),
        ('timeout_seconds = "1"', ["timeout_seconds", "number"]),
    ],
)
def test_a_wrong_key_is_named_with_file_and_program(
    tmp_path: Path, line: str, words: list[str]
) -> None:
    program = PROGRAM
    if line.startswith("command"):
        program = PROGRAM.replace('command = ["true"]\n', "")
    path = write(tmp_path, f"{HEAD}{program}{line}\n")
    message = refused(path)
    for word in [str(path), "'one'", *words]:
        assert word in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["schema"]),
        (HEAD, ["program"]),
        (HEAD + 'program = "x"\n', ["program"]),
        (HEAD + "program = [1]\n", ["program 1"]),
        (HEAD.replace("1", "2") + PROGRAM, ["schema", "2"]),
        (HEAD.replace("1", "true") + PROGRAM, ["schema"]),
        (HEAD.replace("mine", "Not Good") + PROGRAM, ["name", "Not Good"]),
        (HEAD + "extra = 1\n" + PROGRAM, ["extra"]),
        (HEAD + PROGRAM + PROGRAM, ["'one'", "twice"]),
        (HEAD + PROGRAM.replace("one", "../x"), ["program '../x'", "name"]),
        (HEAD + PROGRAM.replace('command = ["true"]', ""), ["'one'", "command"]),
        ("schema = = 1", ["TOML"]),
        ("x = " + "[" * 5000, ["TOML"]),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, text)
    message = refused(path)
    for word in [str(path), *words]:
        assert word in message


def test_what_is_no_small_text_file_is_refused(tmp_path: Path) -> None:
    large = write(tmp_path, HEAD + PROGRAM + "#" * MOST_TOML_BYTES, "large.toml")
    assert "bytes at most" in refused(large)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'name = "\xe9"\n')
    assert "TOML" in refused(latin)
    assert "cannot be read" in refused(tmp_path / "absent.toml")
    fifo = tmp_path / "fifo.toml"
    os.mkfifo(fifo)
    assert "regular" in refused(fifo)
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    assert str(folder) in refused(folder)


def test_placeholders_become_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARE_KERNELS", str(tmp_path / "kernels"))
    path = write(
        tmp_path,
        HEAD
        + '[[program]]\nname = "one"\ndescription = "d"\n'
        + 'prepare = [["touch", "{inputs}/x"]]\ninput = "{inputs}/x"\n'
        + 'environment = { HERE = "{suite}" }\n'
        + 'command = ["{kernels}/k", "{workloads}/a.awk", "{inputs}/x", "{scratch}/out",\n'
        + "  '{{print}} {print $1}', '{ print }', 'f{}']\n",
    )
    program = only(path)
    run = as_program(program)
    inputs = inputs_folder(program)
    assert run.argv == (
        f"{tmp_path}/kernels/k",
        f"{suite_module.workloads_folder()}/a.awk",
        f"{inputs}/x",
        "{scratch}/out",  # the runner's to replace: it makes the folder
        "{print} {print $1}",
        "{ print }",
        "f{}",
    )
    assert run.scratch
    assert run.stdin == inputs / "x"
    assert run.environment == {"HERE": str(tmp_path)}


def test_a_program_runs_in_the_directory_that_it_names(tmp_path: Path) -> None:
    run = as_program(only(write(tmp_path, f'{HEAD}{PROGRAM}directory = "{{suite}}/data"\n')))
    assert run.directory == tmp_path / "data"
    assert not run.scratch


def make_counted(tmp_path: Path, extra: str = "") -> SuiteProgram:
    """A program whose input is made by a script that counts how often it ran."""
    (tmp_path / "make.py").write_text(
        "import sys, time\n"
        f"open({str(tmp_path / 'count')!r}, 'a').write('x')\n"
        "time.sleep(0.2)\n"
        "open(sys.argv[1], 'w').write('made')\n" + extra
    )
    command = f"['{sys.executable}', '{{suite}}/make.py', '{{inputs}}/x']"
    return only(write(tmp_path, f"{HEAD}{PROGRAM}prepare = [{command}]\n"))


def ignore(_: str) -> None:
    pass


def test_a_changed_script_makes_another_input(tmp_path: Path) -> None:
    before = inputs_folder(make_counted(tmp_path))
    assert inputs_folder(make_counted(tmp_path)) == before
    assert inputs_folder(make_counted(tmp_path, extra="# changed\n")) != before


def test_a_cache_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TARE_CACHE", str(tmp_path / "file"))
    with pytest.raises(TareError, match="one") as caught:
        prepare(make_counted(tmp_path), ignore)
    assert "TARE_CACHE" in caught.value.hint


def test_nothing_is_missing_for_an_everyday_program(tmp_path: Path) -> None:
    lacking = missing(only(write(tmp_path, HEAD + PROGRAM)))
    assert not lacking
    assert lacking.command == ""


def test_every_program_of_the_papers_is_in_the_suite() -> None:
    with open(suite_module.suites_folder() / "papers.toml", "rb") as file:
        papers = " ".join(program.get("paper", "") for program in tomllib.load(file)["program"])
    for ancestor in (
        "Sis Geodesy Ild Perl Xfig Ghost Make Espresso Ptc Gawk Cfrac 197.parser boxed-sim "
        "C-Breeze 175.vpr 176.gcc apache lcc mudlle 164.gzip 181.mcf 186.crafty 252.eon "
        "253.perlbnk 254.gap 255.vortex 300.twolf espresso lindsay"
    ).split():
        assert ancestor in papers, ancestor


SERVICE = (
    '[[program]]\nname = "one"\ndescription = "a server"\ncommand = ["true", "{port}"]\n'
    '[program.service]\nload = ["redis://127.0.0.1:{port}", "--request", "GET {{random}}"]\n'
)


def test_a_service_has_a_load_and_a_port(tmp_path: Path) -> None:
    program = as_program(only(write(tmp_path, HEAD + SERVICE)))
    assert program.argv == ("true", "{port}")
    assert program.service is not None
    assert program.service.load == ("redis://127.0.0.1:{port}", "--request", "GET {random}")
    assert program.service.ready == "tcp:{port}"
    assert program.service.stop == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + PROGRAM.replace('"true"', '"true", "{port}"'), "unknown placeholder {port}"),
        (HEAD + SERVICE.replace("{{random}}", "{random}"), "unknown placeholder {random}"),
        (HEAD + SERVICE.replace("load =", "loads ="), "loads"),
        (HEAD + SERVICE + 'stop = ["kill", "{scratch}"]\n', "unknown placeholder {scratch}"),
    ],
)
def test_a_wrong_service_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in refused(write(tmp_path, text))
