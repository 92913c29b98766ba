"""Call trees of what runs recorded, small enough for a page to hold many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tare.base.text import shortened, visible

DEEPEST = 256
"""Frames of a stack, from the outermost on."""
LONGEST_FRAME = 160
LEAST_SHARE = 0.0005
"""A node below this share of all in every weight is too thin to be seen."""
Note = Callable[[str], None]
Details = Mapping[str, Any]
Frames = tuple[str, ...]
"""From the outermost to the innermost."""


@dataclass(frozen=True)
class Weight:
    title: str
    unit: str


@dataclass(frozen=True)
class CallTree:
    """Node 0 is the root, and parents come before their children. ``values`` has for each weight a
    total for each node, with those of its children."""

    program: str
    manager: str
    title: str
    weights: Sequence[Weight]
    frames: Sequence[str]
    parents: Sequence[int]
    names: Sequence[int]
    values: Sequence[Sequence[float]]

    def largest(self, most: int) -> CallTree:
        """The tree with at most ``most`` nodes, and none that is too thin to be seen."""
        whole = [totals[0] or 1.0 for totals in self.values]
        shares = [
            max(totals[node] / of for totals, of in zip(self.values, whole, strict=True))
            for node in range(len(self.parents))
        ]
        # A parent is never smaller than its children, so what is kept stays a tree.
        ranked = sorted(range(1, len(shares)), key=lambda node: (-shares[node], node))
        kept = [0, *sorted(node for node in ranked[: most - 1] if shares[node] >= LEAST_SHARE)]
        places = {node: place for place, node in enumerate(kept)}
        used = {name: place for place, name in enumerate(dict.fromkeys(map(self._name, kept)))}
        return CallTree(
            self.program,
            self.manager,
            self.title,
            self.weights,
            [self.frames[name] for name in used],
            [places.get(self.parents[node], -1) for node in kept],
            [used[self.names[node]] for node in kept],
            [[totals[node] for node in kept] for totals in self.values],
        )

    def _name(self, node: int) -> int:
        return self.names[node]


def grown(
    program: str,
    manager: str,
    title: str,
    weights: Sequence[Weight],
    stacks: Iterable[tuple[Frames, Sequence[float]]],
) -> CallTree:
    """The tree of ``stacks``, each with a value for each weight."""
    frames = {program: 0}
    parents, names = [-1], [0]
    totals: list[list[float]] = [[0.0] for _ in weights]
    children: dict[tuple[int, int], int] = {}

    def add(node: int, values: Sequence[float]) -> None:
        for total, value in zip(totals, values, strict=True):
            total[node] += value

    for path, values in stacks:
        node = 0
        add(node, values)
        for frame in path[:DEEPEST]:
            name = frames.setdefault(shortened(visible(frame), LONGEST_FRAME), len(frames))
            child = children.setdefault((node, name), len(parents))
            if child == len(parents):
                parents.append(node)
                names.append(name)
                for total in totals:
                    total.append(0.0)
            node = child
            add(node, values)
    return CallTree(program, manager, title, weights, list(frames), parents, names, totals)
