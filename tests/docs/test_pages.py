"""The documentation against the code: what it shows must parse, lead somewhere and be complete."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from scripts.file_keys import FILES
from scripts.try_wheel import KEPT, PAGE, rows
from tare.__main__ import tare_group
from tare.answers.diff import VERDICTS
from tare.answers.exports.formats import FORMATS
from tare.base.statistics import Interval, verdict
from tare.memory_managers import conditions, layers, mmtk, runtimes
from tare.memory_managers.catalogue import load_recipes
from tare.memory_managers.manager import OWN, parse_name
from tare.observers import java_suites
from tare.programs.suite import shipped_suites
from tare.records.metrics import Status
from tare.records.results import measurement_schema
from tare.records.runs import Outcome, Record, Run
from tare.records.summary import summary_schema
from tare.report.glossary import terms
from tests.docs.command_lines import FENCE, PAGES, blocks, command_lines, relative
from tests.support import ROOT

COMMANDS = tare_group.list_commands(click.Context(tare_group))
EXECUTED_PAGES = ("docs/python.md", "docs/results.md")

LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
IN_CODE = re.compile(r"`([^`\n]+)`")
REPOSITORY_PATH = re.compile(
    r"(?:tare|observers|managers|replay|suites|workloads|tests|docs|bench|scripts)/[A-Za-z0-9_./-]*"
)
SHELL_OPERATORS = frozenset({"|", "||", "&&", ";", ">", ">>", "<", "2>", "&"})


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def arguments(line: str) -> list[str]:
    """The words of the first command of a line, without `tare`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in SHELL_OPERATORS:
            break
        words.append(word)
    return words[1:]


def parse(words: list[str]) -> click.Context:
    """Walk to the command that the words name, and parse the rest as it would."""
    command: click.Command = tare_group
    context = click.Context(tare_group, info_name="tare")
    rest = words
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"there is no command {rest[0]}"
        command, rest = found, rest[1:]
    return command.make_context(command.name or "tare", list(rest), parent=context)


ALL_EXAMPLES = [
    (line.page, line.text)
    for page in PAGES
    for line in command_lines(page)
    if line.text.startswith("tare ")
]


def test_there_are_examples() -> None:
    assert len(ALL_EXAMPLES) > 30


@pytest.mark.parametrize(("page", "line"), ALL_EXAMPLES, ids=lambda text: text[:70])
def test_an_example_parses(page: str, line: str) -> None:
    words = arguments(line)
    try:
        context = parse(words)
    except click.exceptions.Exit:
        return  # --help and --version
    given = context.params
    recipes = {**load_recipes(), **mmtk.recipes(), **runtimes.recipes()}
    for manager in (*given.get("managers", ()), given.get("baseline") or OWN):
        manager, _ = conditions.split_name(manager)
        if (layered := layers.split_name(manager)) is not None:
            manager = layered.inner
            layers.layers()[layered.layer].environment(layered.options)
        if (over := runtimes.over_malloc(manager)) is not None:
            manager = over[1]
        if "/" not in manager:
            name, options = parse_name(manager)
            assert name == OWN or name in recipes
            if name in recipes:
                settings = {k: v for k, v in options.items() if k != "preload"}
                if re.fullmatch(r"[\d.]+x", settings.get("heap", "")):
                    del settings["heap"]  # a multiple becomes a size when the trace is there
                recipes[name].environment(settings)
    for name in (given.get("name"), *given.get("names", ())):
        if words[:1] == ["managers"] and name:
            assert name in recipes or name in layers.layers()
    suite = given.get("suite_name")
    known = (*shipped_suites(), *java_suites.HARNESSES)
    assert suite is None or suite.endswith(".toml") or suite in known


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_and_images_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(prose(page)):
        target, _, anchor = match["target"].partition("#")
        if "://" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{relative(page)}: {match['target']}"
        assert path.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(path), f"{relative(page)}: {match['target']}"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_paths_that_are_named_exist(page: Path) -> None:
    for code in IN_CODE.findall(prose(page)):
        if REPOSITORY_PATH.fullmatch(code) and not re.search(r"[A-Z]{2,}", Path(code).stem):
            assert (ROOT / code).exists(), f"{relative(page)}: {code}"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_no_path_of_a_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"/(?:root|work|home/\w+|tmp)/\S*", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_its_page(name: str) -> None:
    text = (ROOT / "docs" / "commands" / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# tare {name}\n")
    assert "## Synopsis" in text
    assert text.count("<!-- options -->") == 1
    command = tare_group.get_command(click.Context(tare_group), name)
    if isinstance(command, click.Group):
        assert all(f"tare {name} {leaf}" in text for leaf in command.commands)


def test_a_page_has_its_command() -> None:
    assert {page.stem for page in (ROOT / "docs" / "commands").glob("*.md")} == set(COMMANDS)


def test_every_page_is_reached_from_the_home_page() -> None:
    """In two steps: what stands in the navigation, and the pages that these link to."""
    docs = ROOT / "docs"
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    entries = re.findall(r"[\w/-]+\.md$", navigation, re.MULTILINE)
    assert len(entries) <= 25
    written = {docs / entry for entry in entries if not entry.startswith("reference/")}
    linked = {
        (page.parent / match["target"].partition("#")[0]).resolve()
        for page in written
        for match in LINK.finditer(prose(page))
    }
    commands = {*(docs / "commands").glob("*.md")}  # by a page that is made: "All commands"
    assert {*docs.rglob("*.md")} - written - linked - commands == set()


def test_the_terms_of_the_glossary_are_in_order() -> None:
    names = [term.name for term in terms()]
    assert names == sorted(set(names))


def in_first_column(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {code for row in rows for code in IN_CODE.findall(row)}


def test_results_are_described_whole() -> None:
    assert {*measurement_schema()} <= in_first_column("docs/results.md")
    record = Record(Run("compare", "p", "glibc", 0, 0), Outcome(Status.OK), "2026-11-26T12:00")
    described = {row.split("`")[1] for row in FILES["runs.jsonl"]() if "`" in row}
    assert {*json.loads(record.to_line())} <= described
    headings = anchors(ROOT / "docs" / "results.md")
    assert {*FORMATS} <= headings
    assert {*FORMATS} <= in_first_column("docs/commands/export.md")
    assert {*summary_schema()} <= in_first_column("docs/python.md")


def test_verdicts_are_described() -> None:
    described = in_first_column("docs/method.md")
    apart, around = Interval(2.0, 1.9, 2.1), Interval(1.0, 0.9, 1.1)
    below = Interval(0.5, 0.4, 0.6)
    shown = {
        verdict(None, None, 9),
        verdict(around, None, 9),
        verdict(apart, None, 2),
        verdict(apart, None, 9),
        verdict(below, None, 9),
    }
    assert len(shown) == 5
    assert shown <= described
    assert set(VERDICTS) <= in_first_column("docs/commands/diff.md")


@pytest.mark.parametrize("page", EXECUTED_PAGES)
def test_snippets_run(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the order of the page and in one namespace, as a reader would try them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("".join(f"word {n * 7919 % 1000}\n" for n in range(2000)))
    if page != "docs/python.md":
        import tare

        tare.compare(["sort", "words.txt"], ["glibc", "mimalloc"], runs=2, folder="results")
    namespace: dict[str, object] = {"__name__": "snippet"}
    for number, code in enumerate(blocks(ROOT / page, "python"), 1):
        exec(compile(code, f"{page}, snippet {number}", "exec"), namespace)
    assert capsys.readouterr().out


def test_the_picture_is_small() -> None:
    pictures = list((ROOT / "docs" / "images").iterdir())
    assert pictures
    assert all(picture.stat().st_size < 250_000 for picture in pictures)


def test_the_floors_of_the_architecture_are_those_that_are_checked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["name"] == "floors")
    checked = {
        name: len(layers) - place
        for place, layer in enumerate(layers)
        for name in re.split(r" [:|] ", layer)
    }
    assert len(layers) <= 8
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| `tare/(\w+)/` \| (.+) \|$", page, re.MULTILINE)
    assert {name: int(floor) for floor, name, _ in rows} == checked
    for _, name, charter in rows:
        code = ast.parse((ROOT / "tare" / name / "__init__.py").read_text(encoding="utf-8"))
        assert charter == (ast.get_docstring(code) or "").partition("\n")[0]


def test_the_table_of_systems_is_that_of_what_was_run() -> None:
    table = rows(json.loads((ROOT / KEPT).read_text()))
    assert "\n".join(["", *table, ""]) in (ROOT / PAGE).read_text()
