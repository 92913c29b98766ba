"""glibc's account of its arenas, the XML of ``malloc_info``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers.expat import errors

from tare.base.errors import UsageError
from tare.importing.dumps import MOST_COUNT, Dump, as_imported, head, malformed, whole_text
from tare.importing.runs import Imported

TITLE = "glibc's malloc_info (XML)"
_MOST_BYTES = 64 << 20
_MOST_DIGITS = 19


def recognises_runs(path: Path) -> bool:
    return head(path).startswith(b"<malloc version=")


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    note(f"reading {path}")
    text = whole_text(path, _MOST_BYTES)
    if (at := text.find(b"<!")) >= 0:  # entities can be of any length
        raise malformed(
            path, text.count(b"\n", 0, at) + 1, "a declaration, which glibc never writes"
        )
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise malformed(path, error.position[0], errors.messages[error.code]) from None
    if root.tag != "malloc" or root.get("version") != "1":
        raise UsageError(f"{path} is not what malloc_info writes in version 1")
    obtained = _size(path, root, "system[@type='current']") + _size(
        path, root, "total[@type='mmap']"
    )
    free = _size(path, root, "total[@type='fast']") + _size(path, root, "total[@type='rest']")
    if free > obtained:
        raise UsageError(f"{path} has more bytes free than obtained")
    return as_imported(
        Dump(
            "glibc",
            path.name,
            "glibc",
            values={
                "live_bytes": obtained - free,
                "obtained_bytes": obtained,
                "free_bytes": free,
                "arenas": len(root.findall("heap")),
            },
            notes=[
                "glibc counts headers and what its threads' caches hold as live; it does not say "
                "what of the free bytes is resident."
            ],
        )
    )


def _size(path: Path, root: ElementTree.Element, which: str) -> int:
    found = root.find(which)
    word = "" if found is None else found.get("size", "")
    if not (word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS):
        raise UsageError(f"{path} has no size in {which}")
    if (size := int(word)) >= MOST_COUNT:
        raise UsageError(f"{path} has an impossible size in {which}")
    return size
