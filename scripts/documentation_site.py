"""What the documentation site has besides the pages in docs: all that is made of the code.

A hook of MkDocs, see mkdocs.yml; `make docs` builds the site. On a page of docs, `<!-- options -->`
stands for the options of its command, with a heading, `<!-- glossary -->` for the terms of the
field, and `<!-- keys of NAME -->` for the keys of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import click
from mkdocs.structure.files import File

import tare as api
from scripts.file_keys import FILES
from tare.__main__ import tare_group
from tare.records.metrics import METRICS
from tare.report.glossary import terms
from tare.studykit import options

OPTIONS, GLOSSARY = "<!-- options -->", "<!-- glossary -->"
KEYS = re.compile(r"<!-- keys of ([\w.]+) -->")
NONE = "It has none of its own."
REST = "And [the options that every study has](../options.md)."
LINKS = {
    "memory system": "../memsys.md",
    "Dask cluster": "../campaigns.md#starting-a-cluster",
    "what FILE names": "../events.md",
}
FLAG = re.compile(r"(?<![\w`-])(-{1,2}[a-z][a-z-]*)")


def anchor(text: str, _separator: str = "-") -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def on_files(files: Any, config: Any) -> Any:
    """The pages that are made, not written."""
    for name, make in PAGES.items():
        content = "\n".join(make()) + "\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    path = PurePosixPath(page.file.src_uri)
    if OPTIONS in markdown:
        of_command = path.parent.name == "commands"
        made = ["## Options", "", *options_of(path.stem)] if of_command else common_options()
        markdown = markdown.replace(OPTIONS, "\n".join(made))
    markdown = markdown.replace(GLOSSARY, "\n".join(glossary()))
    markdown = KEYS.sub(lambda found: "\n".join(FILES[found[1]]()), markdown)
    return without_outside_links(markdown, len(path.parts) - 1)


def without_outside_links(markdown: str, depth: int) -> str:
    """Links to files beside docs lead nowhere on a site; what they name stays."""
    outside = re.compile(rf"\[([^\]]+)\]\((?:\.\./){{{depth + 1}}}([\w/.-]+)(?:#[\w-]+)?\)")
    return outside.sub(r"\1 (`\2` in the repository)", markdown)


def command_names() -> list[str]:
    return sorted(tare_group.list_commands(click.Context(tare_group)))


def command_of(name: str) -> click.Command:
    command = tare_group.get_command(click.Context(tare_group), name)
    assert command is not None, f"docs/commands/{name}.md: there is no command {name}"
    return command


def options_of(name: str) -> Iterator[str]:
    """The options of a command, each in the words of its help, but for those of every study."""
    command = command_of(name)
    if isinstance(command, click.Group):
        leaves = [leaf for leaf in command.commands.values() if _options(leaf)]
        for leaf in leaves:
            yield from (f"### tare {name} {leaf.name}", "", leaf.get_short_help_str(200), "")
            yield from (*_table(_options(leaf)), "")
        if not leaves:
            yield NONE
        return
    known = _names(options.run_options, options.output_options, options.program_argument)
    like_a_study = _names(options.run_options, options.output_options) <= {
        parameter.name for parameter in command.params
    }
    own = [each for each in _options(command) if not like_a_study or each.name not in known]
    yield from _table(own)
    if like_a_study:
        yield from ("", REST)


def common_options() -> Iterator[str]:
    """Those that every study has."""
    yield from _table(
        _declared(options.output_options, options.run_options, options.program_argument)
    )


def glossary() -> Iterator[str]:
    yield from ("| term | meaning |", "| --- | --- |")
    yield from (f"| {term.name} | {_cell(term.meaning)} |" for term in terms())


def _declared(*decorators: Callable[[Any], Any]) -> list[click.Option]:
    """The options that these add to a command."""

    def nothing() -> None:
        pass

    for decorator in decorators:
        nothing = decorator(nothing)
    parameters = reversed(nothing.__click_params__)  # type: ignore[attr-defined]
    return [each for each in parameters if isinstance(each, click.Option)]


def _names(*decorators: Callable[[Any], Any]) -> set[str | None]:
    return {option.name for option in _declared(*decorators)}


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def _table(declared: list[click.Option]) -> Iterator[str]:
    if not declared:
        yield NONE
        return
    context = click.Context(click.Command("tare"))
    yield from ("| option | meaning |", "| --- | --- |")
    for option in declared:
        spelled = ", ".join(f"`{flag}`" for flag in option.opts)
        if not option.is_flag:
            spelled = f"{spelled[:-1]} {option.make_metavar(context)}`"
        meaning = FLAG.sub(r"`\1`", option.help or "")
        for words, page in LINKS.items():
            meaning = meaning.replace(words, f"[{words}]({page})", 1)
        if option.show_default is True:
            meaning = f"{meaning} Default: {option.default:g}."
        yield f"| {_cell(spelled)} | {_cell(meaning)} |"


def commands() -> Iterator[str]:
    yield from ("# All commands", "", "| command | what it answers |", "| --- | --- |")
    for name in command_names():
        answers = command_of(name).get_short_help_str(200)
        yield f"| [`tare {name}`](../commands/{name}.md) | {_cell(answers)} |"


def metrics() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "The figures in results. [Results](../results.md) says where they stand."
    yield from ("", "| name | title | unit | meaning |", "| --- | --- | --- | --- |")
    for name, metric in METRICS.items():
        cells = (f"`{name}`", metric.title, metric.unit, metric.explanation)
        yield f"| {' | '.join(map(_cell, cells))} |"


def managers() -> Iterator[str]:
    yield "# All managers"
    yield ""
    yield "`tare managers` says what is installed, `tare managers show NAME` all of one."
    yield from ("", "| name | kind | version | what it is |", "| --- | --- | --- | --- |")
    for row in api.managers().iter_rows(named=True):
        cells = (f"`{row['name']}`", row["kind"], row["version"], row["title"])
        yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "metrics": metrics,
    "managers": managers,
}
