"""What the documentation site has besides the pages in docs: the reference made of the code.

A hook of MkDocs, see mkdocs.yml; `make docs` builds the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File

import tare as api
from tare.__main__ import tare_group
from tare.records.metrics import METRICS


def anchor(text: str, _separator: str = "-") -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def on_config(config: Any) -> Any:
    """A page stands in the navigation by being there: commands under theirs, others at the end."""
    (commands,) = [part["Commands"] for part in config.nav if "Commands" in part]
    commands += [{name: f"commands/{name}.md"} for name in command_names()]
    named = set(re.findall(r"[\w/-]+\.md", str(config.nav)))
    docs = Path(config.docs_dir)
    others = sorted({str(page.relative_to(docs)) for page in docs.rglob("*.md")} - named)
    if others:
        config.nav.append({"More": others})
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages that are made, not written."""
    for name, make in PAGES.items():
        content = "\n".join(make()) + "\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files beside docs lead nowhere on a site; what they name stays."""
    depth = page.file.src_uri.count("/")
    outside = re.compile(rf"\[([^\]]+)\]\((?:\.\./){{{depth + 1}}}([\w/.-]+)(?:#[\w-]+)?\)")
    return outside.sub(r"\1 (`\2` in the repository)", markdown)


def command_names() -> list[str]:
    return sorted(tare_group.list_commands(click.Context(tare_group)))


def options() -> Iterator[str]:
    """Every option of every command, in the words of its help."""
    yield "# All options"
    yield ""
    yield "Made of the commands themselves. Their own pages have examples, and say more."
    for name in command_names():
        command = tare_group.get_command(click.Context(tare_group), name)
        assert command is not None
        leaves = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for leaf, each in leaves:
            yield from _options_of(f"tare {name} {leaf}".rstrip(), name, each)


def _options_of(title: str, page: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=title)
    yield from ("", f"## {title}", "", f"{command.get_short_help_str(200)}", "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"`{title} {usage}` · [its page](../commands/{page}.md)"
    records = [r for p in command.get_params(context) if (r := p.get_help_record(context))]
    yield from ("", "| option | meaning |", "| --- | --- |")
    for spelling, meaning in records:
        yield f"| `{_cell(spelling)}` | {_cell(meaning)} |"


def metrics() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "Made of `tare/records/metrics.py`. [Results](../results.md#metrics) says more of some."
    yield from ("", "| name | title | unit | meaning |", "| --- | --- | --- | --- |")
    for name, metric in METRICS.items():
        cells = (f"`{name}`", metric.title, metric.unit, metric.explanation)
        yield f"| {' | '.join(map(_cell, cells))} |"


def managers() -> Iterator[str]:
    yield "# Managers"
    yield ""
    yield (
        "Made of what Tare knows. `tare managers` says what is installed, "
        "`tare managers show NAME` all of one."
    )
    yield from ("", "| name | kind | version | what it is |", "| --- | --- | --- | --- |")
    for row in api.managers().iter_rows(named=True):
        cells = (f"`{row['name']}`", row["kind"], row["version"], row["title"])
        yield f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "options": options,
    "metrics": metrics,
    "managers": managers,
}
