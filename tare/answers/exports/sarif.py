"""What to do as SARIF 2.1.0, the form in which code hosts and editors take what tools say of lines:
https://docs.oasis-open.org/sarif/sarif/v2.1.0/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import to_builtins

from tare.answers.changed_actions import ALL
from tare.base.units import format_percent
from tare.base.version import __version__
from tare.records.actions import Action, Kind, Place
from tare.records.metrics import METRICS
from tare.records.results import Results
from tare.weighing.actions import actions_of

RULES: Mapping[Kind, str] = {
    Kind.ALLOCATOR: "Another allocator costs less.",
    Kind.OPTION: "Another setting of the allocator costs less.",
    Kind.FREE_EARLIER: "Memory is held after its last use.",
    Kind.LEAK: "Memory is never freed.",
    Kind.PINNED: "Free memory lies between objects and cannot be given back.",
    Kind.RESERVE: "A container grows step by step.",
    Kind.SHORT_LIVED: "Objects live so briefly that they need no malloc.",
    Kind.NEVER_USED: "Memory is allocated and never used.",
    Kind.UNTOUCHED: "Part of what is allocated is never touched.",
    Kind.CROSS_THREAD: "Objects are freed by another thread than allocated them.",
    Kind.COLLECTOR: "Another collector, or another heap, costs less.",
}


def to_sarif(results: Results, root: Path) -> dict[str, Any]:
    """The actions that name a line. A file below ``root`` is named from there, as hosts want it."""
    placed = [each for each in actions_of(results, ALL) if each.place and each.place.file]
    kinds = dict.fromkeys(each.kind for each in placed)
    rules = [
        {
            "id": str(kind),
            "shortDescription": {"text": RULES[kind]},
            "defaultConfiguration": {"level": "warning"},
        }
        for kind in kinds
    ]
    numbers = {kind: number for number, kind in enumerate(kinds)}
    driver = {"name": "Tare", "version": __version__, "rules": rules}
    found = [_result(each, numbers[each.kind], root) for each in placed]
    run = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": found}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }


def _result(action: Action, rule: int, root: Path) -> dict[str, Any]:
    gain = action.gain
    title = METRICS[gain.metric].title if gain.metric in METRICS else gain.metric
    saved = f"Brings {format_percent(1 - gain.ratio)} less {title} ({action.certainty})."
    assert action.place is not None
    return {
        "ruleId": str(action.kind),
        "ruleIndex": rule,
        "level": "warning",
        "message": {"text": f"{action.text} {saved} To see it: {action.verify}"},
        "locations": [_location(action.place, root)],
        "properties": {"certainty": str(action.certainty), "gain": to_builtins(gain)},
    }


def _location(place: Place, root: Path) -> dict[str, Any]:
    """SARIF counts lines from 1."""
    path = Path(place.file)
    artifact: dict[str, str]
    if path.is_relative_to(root):
        artifact = {"uri": quote(path.relative_to(root).as_posix()), "uriBaseId": "%SRCROOT%"}
    else:
        artifact = {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}
    region = {"region": {"startLine": place.line}} if place.line > 0 else {}
    return {
        "physicalLocation": {"artifactLocation": artifact, **region},
        "logicalLocations": [{"fullyQualifiedName": place.function, "kind": "function"}],
    }
