"""Tables of the keys of a file, from the struct that reads it.

A key's meaning is the text below its field.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Set
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from tare.observers.memory_model import ModelTable
from tare.programs.suite import SuiteTable
from tare.records.header import Header
from tare.records.metrics import Status
from tare.records.runs import Outcome, Run, Started
from tare.studies.breakdown.descriptor import Descriptor

NAMES = {str: "text", bool: "true or false", int: "whole number", float: "number", Any: "anything"}
SIZES = {"Size": "size such as `64KiB`", "Power": "size such as `64B`, a power of two"}


def tables(kind: type, level: int, *, written: bool = True) -> Iterator[str]:
    """Markdown: a row for each key of a struct, and of those that its fields hold, each below a
    heading of this level. Of a file that is ``written`` by users also what each key can be."""
    left: list[tuple[str, type]] = [("", kind)]
    seen: set[type] = set()
    while left:
        path, kind = left.pop(0)
        if kind in seen:
            continue
        seen.add(kind)
        if path:
            yield from (f"{'#' * level} `{heading(kind) or path}`", "", *explanation(kind))
        yield from (*head(written=written), *rows(kind, written=written), "")
        hints = get_type_hints(kind, include_extras=True)
        for name, spelled, _ in fields(kind):
            below = f"{path}.{spelled}" if path else spelled
            left += [(below, inner) for inner in structs_in(hints[name])]


def head(*, written: bool) -> tuple[str, str]:
    names = ("key", "value", "meaning") if written else ("key", "meaning")
    return _row(*names), _row(*["---"] * len(names))


def rows(kind: type, *, written: bool) -> Iterator[str]:
    hints = get_type_hints(kind, include_extras=True)
    for name, spelled, default in fields(kind):
        known = [f"{value(hints[name])}{default}"] if written else []
        yield _row(f"`{spelled}`", *known, meanings(kind)[name])


def members(kind: type[Enum]) -> Iterator[str]:
    """A row for each member, without a head."""
    return (_row(f"`{member.value}`", meanings(kind)[member.name]) for member in kind)


def fields(kind: type) -> Iterator[tuple[str, str, str]]:
    """Name, name in the file, and what a file without it means, in words."""
    if dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            yield each.name, each.name, ""
        return
    for field in msgspec.structs.fields(kind):
        yield field.name, field.encode_name, "; required" if field.required else _default(field)


def _default(field: Any) -> str:
    """Empty where it says nothing."""
    default = field.default
    if default in (None, "") or not isinstance(default, str | int | float | Set):
        return ""
    if isinstance(default, Set):
        return f"; default {', '.join(f'`{each}`' for each in sorted(default))}"
    if isinstance(default, str):
        return f"; default `{default}`"
    return f"; default {str(default).lower() if isinstance(default, bool) else f'{default:g}'}"


def value(kind: Any) -> str:
    """What a field can be, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        told = [meta.description for meta in inner[1:] if getattr(meta, "description", None)]
        return re.sub(r"^an? ", "", told[0]) if told else value(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(value(each) for each in inner if each is not NoneType))
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if origin in (tuple, frozenset, list):
        return f"list of {_several(value(inner[0]))}"
    if origin is not None and issubclass(origin, Mapping):
        return f"table of {_several(value(inner[1]))}"
    if origin is re.Pattern:
        return "regular expression"
    if kind in NAMES:
        return NAMES[kind]
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return ", ".join(f"`{each.value}`" for each in kind)
    return SIZES.get(kind.__name__, "table")


def _several(words: str) -> str:
    return f"{words}s" if words in ("text", "table", "number", "whole number") else words


def structs_in(kind: Any) -> Iterator[type]:
    if inspect.isclass(kind) and get_origin(kind) is None:
        if issubclass(kind, msgspec.Struct):
            yield kind
        return
    for inner in get_args(kind):
        yield from structs_in(inner)


WRITTEN = re.compile(r"(?:A|The) table ``(\[.*?\])``[:,.]?\s*")


def heading(kind: type) -> str:
    """The table as a file writes it, where the struct's text says so."""
    found = WRITTEN.match(kind.__doc__ or "")
    return found[1] if found else ""


def explanation(kind: type) -> list[str]:
    text = _markdown(WRITTEN.sub("", kind.__doc__ or "", count=1))
    return [text[0].upper() + text[1:], ""] if text else []


@functools.cache
def meanings(kind: type) -> Mapping[str, str]:
    """By field, the text below it. AssertionError where one has none."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__.partition(".")[0] not in ("builtins", "enum", "msgspec"):
            found |= _texts(owner)
    names = (
        [each.name for each in kind] if issubclass(kind, Enum) else [n for n, *_ in fields(kind)]
    )
    missing = [name for name in names if name not in found]
    assert not missing, f"{kind.__qualname__}: no text below {', '.join(missing)}"
    return {name: found[name] for name in names}


def _texts(owner: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                found[name] = _markdown(text)
    return found


def _markdown(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _row(*cells: str) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def runs() -> Iterator[str]:
    """The keys of a line, which has those of all three."""
    yield from head(written=False)
    for kind in (Run, Started, Outcome):
        yield from rows(kind, written=False)


def statuses() -> Iterator[str]:
    yield from ("| status | meaning |", "| --- | --- |", *members(Status))


FILES: dict[str, Callable[[], Iterator[str]]] = {
    "model": lambda: tables(ModelTable, 4),
    "suite": lambda: tables(SuiteTable, 3),
    "descriptor": lambda: tables(Descriptor, 3),
    "run.json": lambda: tables(Header, 3, written=False),
    "runs.jsonl": runs,
    "statuses": statuses,
}
