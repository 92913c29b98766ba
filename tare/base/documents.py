"""JSON and TOML from outside, made into structs: what later code relies on is there, of its type.

A type's ``Meta(description=…)`` are the words for what belongs at a place: "must be …".
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import EnumType
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, structs

T = TypeVar("T")
Hooks = Mapping[type, Callable[[Any], Any]]
"""By type, how a value becomes one. ValueError where it cannot."""

MOST_TOML_BYTES = 1 << 20

PlainText = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]
Text = Annotated[
    str,
    Meta(
        pattern=r"\A[^\0]+\Z",
        description="a string that is not empty and holds no null character",
    ),
]
Sha256 = Annotated[
    str,
    Meta(pattern=r"\A[0-9a-f]{64}\Z", description="64 hexadecimal digits in lower case"),
]

_WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
_STEP = re.compile(r"\.(?P<field>\w+)|\[(?P<index>\d+|\.\.\.)\]")
_LONGEST_SHOWN = 60
_converting = RLock()
"""At a type's first conversion msgspec reads its fields: another thread that comes meanwhile finds
half of them, and ends the process."""


class DocumentError(ValueError):
    """Names the place in the document, but not the file."""


def read_toml(
    path: Path, kind: type[T], hooks: Hooks | None = None, most_bytes: int = MOST_TOML_BYTES
) -> T:
    """What a TOML file of a user's holds. Raises DocumentError."""
    return toml(file_content(path, most_bytes), kind, hooks)


def file_content(path: Path, most_bytes: int = MOST_TOML_BYTES) -> bytes:
    """Raises DocumentError, also for what is no file."""
    try:
        # Not blocking, so that a FIFO in place of a file is reported and not waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise DocumentError("not a regular file")
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}") from None
    if len(content) > most_bytes:
        raise DocumentError(f"is too large: {most_bytes:,} bytes at most")
    return content


def toml(content: bytes, kind: type[T], hooks: Hooks | None = None) -> T:
    """Raises DocumentError."""
    try:
        table = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"cannot be read as TOML: {error}") from None
    return converted(table, kind, hooks)


def converted(document: object, kind: type[T], hooks: Hooks | None = None) -> T:
    """A document as a struct. Raises DocumentError. What a ``__post_init__`` complains of begins
    with the name of the field."""
    try:
        made: T = _convert(document, kind, hooks)
    except msgspec.ValidationError as error:
        raise DocumentError(_told(error, document, kind, hooks)) from None
    except UnicodeEncodeError:
        raise DocumentError("has text with half a character (a surrogate) in it") from None
    return made


def no_number(word: str) -> float:
    """For ``parse_constant`` of ``json``: refuses NaN and Infinity, which JSON does not know."""
    raise ValueError(f"{word} is not a number")


def shown(value: object) -> str:
    """A value from outside, for a message."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _convert(document: object, kind: Any, hooks: Hooks | None) -> Any:
    made_by = hooks or {}
    with _converting:
        return msgspec.convert(
            document, kind, dec_hook=lambda wanted, value: made_by[wanted](value)
        )


def _told(error: msgspec.ValidationError, value: Any, kind: Any, hooks: Hooks | None) -> str:
    """The words of an error: where in the document, and what should be there."""
    own = "" if error.__cause__ is None else str(error.__cause__)
    problem, is_inside, at = str(error)[len(own) :].rpartition(" - at `")
    problem, at = (problem, at) if is_inside else (at, "")
    schema = _fields(kind).get("schema")
    given = value.get("schema") if isinstance(value, dict) else None
    if schema is not None and given is not None and _is_refused(given, schema, hooks):
        return f"schema: must be {_words(schema)}, not {shown(given)}"
    place, behind = "", ""
    for step in _STEP.finditer(at):
        if step["field"] is not None:
            kind, value = _fields(kind)[step["field"]], value[step["field"]]
            place, behind = f"{place}{behind}{step['field']}", "."
            continue
        inner = _inner(kind)
        if step["index"] == "...":
            key = next(key for key, item in value.items() if _is_refused({key: item}, kind, hooks))
            place, behind, value = f"{place}{behind}{key}", ".", value[key]
        elif not (_fields(inner) or get_origin(_plain(inner)) is tuple):
            break
        else:
            number = int(step["index"])
            value = value[number]
            name = value.get("name") if isinstance(value, dict) else None
            called = shown(name) if isinstance(name, str) else str(number + 1)
            place, behind = f"{place} {called}", ": "
        kind = inner
    if own:
        return f"{place}{behind if _fields(kind) else ': '}{own}" if place else own
    if (field := re.search(r"missing required field `(.*)`", problem)) is not None:
        return f"{place}{behind}{field[1]}: is missing"
    if (field := re.search(r"unknown field `(.*)`", problem, re.DOTALL)) is not None:
        return f"{place}{behind}{field[1]}: unknown key; known: {', '.join(sorted(_fields(kind)))}"
    return f"{place}{': ' if place else ''}must be {_words(kind)}, not {shown(value)}"


def _is_refused(value: object, kind: Any, hooks: Hooks | None) -> bool:
    try:
        _convert(value, kind, hooks)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return True
    return False


def _plain(kind: Any) -> Any:
    """A type without its constraints, and without None."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    members = [part for part in _members(kind) if part is not types.NoneType]
    return _plain(members[0]) if len(members) == 1 and members != [kind] else kind


def _members(kind: Any) -> Sequence[Any]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _fields(kind: Any) -> dict[str, Any]:
    """The types of the fields of a struct or a data class; none for another type."""
    struct = _plain(kind)
    if is_dataclass(struct) and isinstance(struct, type):
        return get_type_hints(struct, include_extras=True)
    if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
        return {}
    return {field.encode_name: field.type for field in structs.fields(struct)}


def _inner(kind: Any) -> Any:
    """The type of the items of a list, or of the values of a table."""
    arguments = get_args(_plain(kind))
    return arguments[1] if len(arguments) == 2 and arguments[1] is not ... else arguments[0]


def _words(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        described = [meta.description for meta in get_args(kind)[1:] if meta.description]
        return described[-1] if described else _words(get_args(kind)[0])
    members = [part for part in _members(kind) if part is not types.NoneType]
    if members != [kind]:
        return " or ".join(dict.fromkeys(map(_words, members)))
    plain = _plain(kind)
    if get_origin(plain) is Literal:
        choices = get_args(plain)
        return str(choices[0]) if len(choices) == 1 else f"one of {', '.join(map(str, choices))}"
    if isinstance(plain, EnumType):
        return f"one of {', '.join(plain)}"
    if get_origin(plain) in (tuple, list):
        return "a list of strings" if _plain(_inner(plain)) is str else "a list of tables"
    return _WORDS.get(plain, "a table")
