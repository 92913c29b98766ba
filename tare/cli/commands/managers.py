"""`tare managers`: what can serve a program's memory, and how to get it."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tare.base.errors import MissingError, UsageError
from tare.base.native import native_file
from tare.memory_managers import layers, mmtk, runtimes
from tare.memory_managers.catalogue import Recipe, load_recipes, object_path
from tare.memory_managers.manager import machine_libc
from tare.report.terminal import console_on

EPILOG = """\b
Examples:
  tare managers
  tare managers show bdwgc
  tare managers install google-tcmalloc
"""
_GROUPS = {
    "allocators": "implementations of malloc in use today, and collectors behind malloc",
    "classics": "published allocators, built from Tare's own layers",
    "layers": "over an allocator, as in delay(jemalloc, size=1MiB)",
    "collectors": "MMTk's collectors, for replays of heap traces",
    "runtimes": "collectors of language runtimes, for their programs, as in jvm.g1(heap=64MiB)",
}


@click.group(epilog=EPILOG, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> int:
    """List the managers, installed or not; * marks the ones that `tare weigh` tries."""
    if context.invoked_subcommand is not None:
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("manager", "version", "installed", "what it is"):
        table.add_column(title, overflow="fold", no_wrap=title == "manager")
    every = _listed().values()
    for group, what in _GROUPS.items():
        table.add_row()
        table.add_row(Text(group, style="bold"), "", "", Text(what, style="bold"))
        for recipe in every:
            if _group(recipe) == group:
                name = recipe.name + ("*" if recipe.default_weigh else "")
                installed = "no" if _object(recipe) is None else "yes"
                table.add_row(name, version_cell(recipe), installed, Text(recipe.title))
    with console_on(sys.stdout) as console:
        console.print(table)
    known = max(recipe.upstream.as_of for recipe in every)
    print(
        "\n* tried by `tare weigh`. own: whatever the program links. "
        "./libmine.so: a shared object of yours.\n"
        f"newest, upstream, stopped: the releases of its authors, as of {known}.\n"
        "`tare managers show NAME` lists options; `tare managers install NAME` builds one."
    )
    return 0


def version_cell(recipe: Recipe) -> str:
    """The version, and below it how that stands to its authors' releases."""
    upstream = recipe.upstream
    lines = [recipe.version]
    if upstream.newest not in ("", recipe.version):
        lines.append(f"upstream {upstream.newest}")
    elif upstream.newest and not upstream.stopped:
        lines.append("newest")
    if upstream.stopped:
        lines.append(f"stopped {upstream.stopped}")
    return "\n".join(lines)


def _object(recipe: Recipe) -> Path | None:
    if recipe.kind == "system":
        return machine_libc()
    if recipe.name in mmtk.PLANS:
        return _built(mmtk.PLANS[recipe.name].program)
    if runtimes.is_name(recipe.name):
        return runtimes.found(runtimes.runtime(recipe.name.partition(".")[0]).TRIAL[0])
    if recipe.kind == "layer":
        return _built(layers.layers()[recipe.name].OBJECT)
    return object_path(recipe)


def _built(file: str) -> Path | None:
    try:
        return native_file(file)
    except MissingError:
        return None


def _group(recipe: Recipe) -> str:
    if recipe.name in mmtk.PLANS:
        return "collectors"
    if runtimes.is_name(recipe.name):
        return "runtimes"
    return {"classic": "classics", "layer": "layers"}.get(recipe.kind, "allocators")


def _listed() -> dict[str, Recipe]:
    """The catalogue, the layers, the collectors for replays, and those of runtimes."""
    of_layers = {name: layer.RECIPE for name, layer in layers.layers().items()}
    return {**load_recipes(), **of_layers, **mmtk.recipes(), **runtimes.recipes()}


def _recipe(name: str, recipes: dict[str, Recipe]) -> Recipe:
    if name not in recipes:
        alike = difflib.get_close_matches(name, recipes, n=1)
        hint = f"did you mean {alike[0]}?" if alike else f"known: {', '.join(recipes)}"
        raise UsageError(f"there is no manager '{name}'", hint)
    return recipes[name]


@command.command()
@click.argument("name")
def show(name: str) -> int:
    """Version, source, licence and options of one manager."""
    recipe = _recipe(name, _listed())
    with console_on(sys.stdout) as console:
        _show(recipe, console)
    return 0


def _show(recipe: Recipe, console: Console) -> None:
    console.print(Text(f"{recipe.name} {recipe.version}", style="bold"))
    console.print(Text(recipe.title))
    rows = [
        ("upstream", _upstream(recipe)),
        ("kind", recipe.kind),
        ("licence", recipe.licence),
        ("home page", recipe.homepage),
        ("object", str(_object(recipe) or "not installed")),
        ("to use it", _use(recipe)),
        ("note", recipe.note),
    ]
    for label, value in rows:
        if value:
            console.print(Text(f"{label}: {value}"), soft_wrap=label == "object")
    if recipe.options:
        console.print()
        console.print(_options(recipe))


def _options(recipe: Recipe) -> Table:
    table = Table("option", "takes", "if not set", "meaning", box=None, padding=(0, 2, 0, 0))
    for option in recipe.options:
        unset = option.default if option.default is not None else option.usual
        table.add_row(option.name, option.values, unset, Text(option.description))
    return table


def _upstream(recipe: Recipe) -> str:
    upstream = recipe.upstream
    parts = []
    if upstream.released:
        parts.append(f"{recipe.version} was released in {upstream.released}")
    if upstream.newest:
        which = "it" if upstream.newest == recipe.version else upstream.newest
        parts.append(f"{which} was the newest release as of {upstream.as_of}")
    if upstream.stopped:
        parts.append(f"none after {upstream.stopped}")
    return "; ".join(parts)


def _use(recipe: Recipe) -> str:
    use = recipe.use
    if use is not None:
        return (
            f"install Debian's {use.package} and set LD_PRELOAD={use.preload}; to link it, "
            f"install {use.development} and use {use.link}"
        )
    source = recipe.source
    if source is None:
        return ""
    return f"no distribution has a package; its source is {source.package} {source.version}"


@command.command()
@click.argument("names", nargs=-1, required=True)
def install(names: tuple[str, ...]) -> int:
    """Build or fetch managers into your data folder (~/.local/share/tare)."""
    from tare.memory_managers.install import install as build

    for name in names:
        _recipe(name, load_recipes())
    build(list(names), report=lambda line: print(line, file=sys.stderr, flush=True))
    return 0
