"""The words that users read: `words.toml` has those to avoid, with better ones, and lengths."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from scripts.file_keys import FILES
from tare.__main__ import tare_group
from tare.records.metrics import METRICS
from tare.report.glossary import terms
from tests.docs.command_lines import FENCE, PAGES, relative
from tests.support import ROOT

RULES = tomllib.loads((ROOT / "tests" / "docs" / "words.toml").read_text())
AVOIDED = re.compile("|".join(map(re.escape, RULES["instead"])), re.IGNORECASE)
WRITTEN = [page for page in PAGES if page.name != "papers.md"]
"""The page of the papers is made; its texts are those of bench/papers."""
TABLE_OR_CODE = re.compile(r"^(?:\||    |<|#|- \[|!\[).*$", re.MULTILINE)
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n\n+|\n(?=- |\d+\. )")
LEAST_WORDS = 3
"""Texts of fewer words are names and keys."""


def avoided(text: str) -> list[str]:
    return [
        f"{found[0]!r}: write {RULES['instead'][found[0].lower()]!r}"
        for found in AVOIDED.finditer(" ".join(text.split()))
    ]


def sentences(page: str) -> Iterator[str]:
    """Of the prose, without tables and code."""
    prose = TABLE_OR_CODE.sub("", FENCE.sub("", page))
    yield from (found for found in SENTENCE_END.split(prose) if found.strip())


def test_a_riddle_is_found() -> None:
    assert avoided("Half of what is held\n in  vain") == ["'in vain': write 'unused'"]
    assert [*sentences("One.\n\n| a | b |\n\n```sh\nx\n```\nTwo: three.")] == [
        "One.",
        "Two:",
        "three.",
    ]


@pytest.mark.parametrize("page", WRITTEN, ids=relative)
def test_a_page_has_plain_words_and_short_sentences(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert avoided(FENCE.sub("", text)) == []
    long = [found for found in sentences(text) if len(found.split()) > RULES["sentence"]]
    assert long == []


def helps() -> Iterator[tuple[str, str]]:
    """What `--help` says of each command and each option, by their names."""
    groups: list[tuple[str, click.Command]] = [("tare", tare_group)]
    while groups:
        name, command = groups.pop()
        yield name, command.help or ""
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield f"{name} {parameter.opts[-1]}", parameter.help or ""
        if isinstance(command, click.Group):
            context = click.Context(command)
            for leaf in command.list_commands(context):
                found = command.get_command(context, leaf)
                assert found is not None
                groups.append((f"{name} {leaf}", found))


def test_help_is_plain_and_short() -> None:
    texts = dict(helps())
    assert len(texts) > 200
    for name, text in texts.items():
        assert avoided(text) == [], name
        assert text.strip(), f"{name} has no help"
        assert not text[0].islower(), name
        if " -" in name:
            assert len(text.split()) <= RULES["help"], name


def test_metrics_and_terms_are_plain_and_short() -> None:
    for name, metric in METRICS.items():
        assert avoided(f"{metric.title}. {metric.explanation}") == [], name
        assert len(metric.explanation.split()) <= RULES["explanation"], name
    for term in terms():
        assert avoided(term.meaning) == [], term.name


@pytest.mark.parametrize("name", FILES)
def test_keys_of_files_are_plain_and_short(name: str) -> None:
    for line in FILES[name]():
        assert avoided(line) == []
        assert all(len(found.split()) <= RULES["sentence"] for found in re.split(r"[.|]", line))


def texts_of(module: Path) -> Iterator[tuple[int, str]]:
    """All texts that are no docstrings, by their lines."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in alone:
            continue
        if isinstance(node.value, str) and len(node.value.split()) >= LEAST_WORDS:
            yield node.lineno, node.value


def test_sentences_of_the_code_are_plain() -> None:
    modules = sorted((ROOT / "tare").rglob("*.py"))
    texts = [(module, *found) for module in modules for found in texts_of(module)]
    assert len(texts) > 2000
    wrong = [
        f"{relative(module)}:{line}: {problem}"
        for module, line, text in texts
        for problem in avoided(text)
    ]
    assert wrong == []
