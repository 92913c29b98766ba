"""jemalloc's statistics as JSON: ``malloc_stats_print`` with ``J`` among its options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tare.base.errors import UsageError
from tare.importing.dumps import (
    Dump,
    SizeClass,
    as_imported,
    count,
    head,
    malformed,
    whole_text,
)
from tare.importing.runs import Imported

TITLE = "jemalloc's statistics (its JSON)"
_MOST_BYTES = 64 << 20
_MOST_CLASSES = 1000
_MOST_ARENAS = 100_000


def recognises_runs(path: Path) -> bool:
    return head(path).lstrip().startswith(b'{"jemalloc"') or b'"jemalloc": {' in head(path)


def read_runs(path: Path, note: Callable[[str], None]) -> Imported:
    note(f"reading {path}")
    empty = Dump("jemalloc", path.name, "jemalloc")
    return as_imported(add_account(empty, path))


def add_account(dump: Dump, path: Path) -> Dump:
    """The dump with what statistics of the same moment say of it."""
    if dump.manager != "jemalloc":
        raise UsageError(f"{path}: statistics of jemalloc go with a heap profile of jemalloc only")
    values, classes = account(path)
    notes = [
        "The account of the heap is jemalloc's own and exact; cells in threads' caches count as "
        "live.",
        *dump.notes,
    ]
    if dump.sites:
        notes.append(
            "Free cells by call site are estimated: those of a size class are charged to the sites "
            "with live objects of it, by their bytes."
        )
    return replace(dump, values={**values, **dump.values}, classes=classes, notes=notes)


def account(path: Path) -> tuple[dict[str, float], list[SizeClass]]:
    """The values and size classes in a file of statistics. UsageError where it is none."""
    try:
        return _account(json.loads(whole_text(path, _MOST_BYTES))["jemalloc"])
    except json.JSONDecodeError as error:
        raise malformed(path, error.lineno, f"not JSON: {error.msg}") from None
    except RecursionError:
        raise UsageError(f"{path} is not jemalloc's: it is nested too deeply") from None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} is not jemalloc's statistics with those of bins: {what}",
            'write them by malloc_stats_print(…, "J") without a, b and m among the options',
        ) from None


def _account(document: Mapping[str, Any]) -> tuple[dict[str, float], list[SizeClass]]:
    stats, constants = document["stats"], document["arenas"]
    found = _merged(document["stats.arenas"])
    bins = constants["bin"][:_MOST_CLASSES]
    cells = [(count(each["size"]), count(each["nregs"])) for each in bins]
    if [size for size, _ in cells] != sorted({size for size, _ in cells}):
        raise ValueError("its size classes do not ascend")
    classes = []
    for (size, in_slab), used in zip(cells, found["bins"], strict=True):
        objects, room = count(used["curregs"]), count(used["curslabs"]) * in_slab
        if objects > room:
            raise ValueError(f"more objects of {size} bytes than its slabs have cells")
        classes.append(SizeClass(size, objects, room))
    page = count(constants["page"])
    values: dict[str, float] = {
        "live_bytes": count(stats["allocated"]),
        "active_bytes": count(stats["active"]),
        "heap_resident_bytes": count(stats["resident"]),
        "metadata_bytes": count(stats["metadata"]),
        "external_bytes": sum(each.external for each in classes),
        "retained_bytes": page * (count(found["pdirty"]) + count(found["pmuzzy"])),
        "cached_bytes": count(found["tcache_bytes"]),
    }
    return values, classes


def _merged(arenas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of all arenas. With one arena jemalloc writes only that."""
    if "merged" in arenas:
        merged: Mapping[str, Any] = arenas["merged"]
        return merged
    parts: Sequence[Mapping[str, Any]] = [
        each for name, each in list(arenas.items())[:_MOST_ARENAS] if name.isdigit()
    ]
    if len(parts) != 1:
        raise KeyError("merged")
    return parts[0]
