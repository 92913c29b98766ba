"""The documentation site: it builds without a warning, and its reference is all that there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import tare as api
from scripts import file_keys
from scripts.file_keys import FILES
from tare.__main__ import tare_group
from tare.records.metrics import METRICS
from tare.report.glossary import terms
from tests.docs.command_lines import PAGES
from tests.support import ROOT

pytest.importorskip("material", reason="the Python package mkdocs-material")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_each_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        relative = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / relative).is_file(), relative


def test_the_page_of_a_command_has_its_options(site: Path) -> None:
    common = (site / "options.html").read_text()
    context = click.Context(tare_group)
    overview = (site / "reference" / "commands.html").read_text()
    for name in tare_group.list_commands(context):
        command = tare_group.get_command(context, name)
        assert f"tare {name}" in overview
        page = (site / "commands" / f"{name}.html").read_text()
        leaves = getattr(command, "commands", {"": command}).values()
        for leaf in leaves:
            for parameter in leaf.params:
                if parameter.param_type_name == "option":
                    assert parameter.opts[-1] in page + common, (name, parameter.opts)


def test_the_reference_has_every_metric_manager_and_term(site: Path) -> None:
    metrics = (site / "reference" / "metrics.html").read_text()
    assert all(f"<code>{name}</code>" in metrics for name in METRICS)
    managers = (site / "reference" / "managers.html").read_text()
    assert all(f"<code>{name}</code>" in managers for name in api.managers()["name"])
    glossary = (site / "glossary.html").read_text()
    assert all(f"<td>{term.name}</td>" in glossary for term in terms())


@pytest.mark.parametrize("name", FILES)
def test_the_page_of_a_file_has_all_its_keys(site: Path, name: str) -> None:
    marker = f"<!-- keys of {name} -->"
    (page,) = (found for found in PAGES if marker in found.read_text())
    shown = (site / page.relative_to(ROOT / "docs").with_suffix(".html")).read_text()
    keys = re.findall(r"^\| `([^`]+)`", "\n".join(FILES[name]()), re.MULTILINE)
    assert len(keys) > 6
    assert all(f"<code>{key}</code>" in shown for key in keys)


def test_a_key_without_a_meaning_is_refused() -> None:
    class Undescribed(msgspec.Struct):
        told: int
        """So many."""
        left_out: str = ""

    with pytest.raises(AssertionError, match="Undescribed: no text below left_out"):
        file_keys.meanings(Undescribed)


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]*)',
            page.read_text(),
        )
        assert not loaded, page


@pytest.mark.parametrize(
    ("page", "words", "place", "found"),
    [
        ("index", "exit codes", ".md-search-result__link h1", "Options and exit codes"),
        ("commands/tune", "zzyzx", ".md-search-result__meta", "No matching documents"),
    ],
)
def test_search_works_on_a_page_opened_as_a_file(
    browser: Any, site: Path, page: str, words: str, place: str, found: str
) -> None:
    shown = browser.new_page()
    shown.goto((site / f"{page}.html").as_uri())
    shown.locator(".md-search__input").press_sequentially(words)  # it listens to keys
    shown.locator(place).first.filter(has_text=found).wait_for()
