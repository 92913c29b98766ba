"""Writes the tables of pages that are made of the code: options of studies, and the glossary.

    python scripts/made_tables.py             renews docs/commands/*.md and docs/glossary.md

The options that every study has are described once, in docs/options.md; a page has those of its own
command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from tare.checking import command as check
from tare.cli.commands import suite, trace
from tare.report.glossary import terms
from tare.studies import modules
from tare.studykit import options
from tare.studykit.command import command_of

GLOSSARY = "| term | meaning |\n| --- | --- |\n"
ROOT = Path(__file__).resolve().parent.parent
HEAD = "| option | meaning |\n| --- | --- |\n"
REST = "And [the options that every study has](../options.md)."
LINKS = {
    "memory system": "../memsys.md",
    "Dask cluster": "../campaigns.md#starting-a-cluster",
    "what FILE names": "../events.md",
}
FLAG = re.compile(r"(?<![\w`-])(-{1,2}[a-z][a-z-]*)")


def pages() -> Iterator[tuple[Path, click.Command]]:
    """The page of each command that is made of requests, but for the bill's."""
    commands = {study: command_of(f"tare.studies.{study}") for study, _ in modules("request")}
    commands |= {"check": check.command, "suite": suite.run, "trace": trace.command}
    for name, command in commands.items():
        yield ROOT / "docs" / "commands" / f"{name}.md", command


def common(*decorators: Callable[[Any], Any]) -> set[str]:
    """The names of the parameters that these add."""

    def nothing() -> None:
        pass

    for decorator in decorators:
        nothing = decorator(nothing)
    return {parameter.name for parameter in nothing.__click_params__}  # type: ignore[attr-defined]


def is_like_a_study(command: click.Command) -> bool:
    """Whether it has the options that every study has."""
    has = {parameter.name for parameter in command.params}
    return common(options.run_options, options.output_options) <= has


def table(command: click.Command) -> str:
    """The options of the command, without those that every study has."""
    context = click.Context(command)
    known = common(options.run_options, options.output_options, options.program_argument)
    own = [
        parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        and not (is_like_a_study(command) and parameter.name in known)
    ]
    return HEAD + "".join(_row(parameter, context) for parameter in own)


def _row(parameter: click.Option, context: click.Context) -> str:
    spelled = ", ".join(f"`{flag}`" for flag in parameter.opts)
    if not parameter.is_flag:
        spelled = f"{spelled[:-1]} {parameter.make_metavar(context)}`"
    meaning = FLAG.sub(r"`\1`", parameter.help or "")
    for words, page in LINKS.items():
        meaning = meaning.replace(words, f"[{words}]({page})", 1)
    if parameter.show_default is True:
        meaning = f"{meaning} Default: {parameter.default:g}."
    return f"| {_in_cell(spelled)} | {_in_cell(meaning)} |\n"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def renewed(page: str, command: click.Command) -> str:
    """The page with its table as the command has it."""
    begin = page.index(HEAD)
    end = page.index("\n\n", begin)
    if not is_like_a_study(command):
        return f"{page[:begin]}{table(command).rstrip()}{page[end:]}"
    rest = page[end:].removeprefix(f"\n\n{REST}")
    return f"{page[:begin]}{table(command)}\n{REST}{rest}"


def glossary(page: str) -> str:
    """The page with its table, which stands last, as the code has it."""
    rows = "".join(f"| {term.name} | {_in_cell(term.meaning)} |\n" for term in terms())
    return page[: page.index(GLOSSARY)] + GLOSSARY + rows


if __name__ == "__main__":
    for path, command in pages():
        path.write_text(renewed(path.read_text(encoding="utf-8"), command), encoding="utf-8")
    page = ROOT / "docs" / "glossary.md"
    page.write_text(glossary(page.read_text(encoding="utf-8")), encoding="utf-8")
