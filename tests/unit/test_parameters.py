"""No function asks for more than a reader keeps in mind: what belongs together is a dataclass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support import ROOT

MOST = 6
EXCEPTIONS: dict[str, str] = {}
"""Functions that may have more, as MODULE.FUNCTION, and why."""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    asked = function.args
    names = [each.arg for each in (*asked.posonlyargs, *asked.args, *asked.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def functions() -> Iterator[tuple[str, int]]:
    """Each function of Tare, and how many parameters it has; `*` and `**` are one each."""
    for path in sorted((ROOT / "tare").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                packed = (node.args.vararg, node.args.kwarg)
                yield f"{module}.{node.name}", len(parameters(node)) + sum(map(bool, packed))


def test_no_function_has_many_parameters() -> None:
    many = {name: number for name, number in functions() if number > MOST}
    assert many.keys() == EXCEPTIONS.keys(), many
