"""Refuses a suite whose source swallows errors: a scenario that broke half way would pass by what it saw before."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from cephlab.lab.base.errors import SpecError

BROAD = {"BaseException", "Exception", "AssertionError", "LabError", "LabBroken", "CephTrouble", "NotReached"}
"""Errors that say that something went wrong, and not what."""
_QUIET = (ast.Pass, ast.Continue, ast.Break)


def refuse_swallowing(run: Callable[..., object]) -> None:
    """SpecError, with the lines, where a module beside the one of a scenario's function drops a broad error."""
    while isinstance(run, partial):
        run = run.func
    file = inspect.getsourcefile(run)
    lines = _swallowing(Path(file).parent) if file is not None else ()
    if lines:
        raise SpecError(
            "a suite swallows errors, so that its scenarios could not fail",
            "\n".join(lines),
            "catch the error that is meant, and record what it shows",
        )


@cache
def _swallowing(folder: Path) -> tuple[str, ...]:
    return tuple(
        f"{path}:{line}: {what}" for path in sorted(folder.glob("*.py")) for line, what in _lines(path.read_text())
    )


def _lines(source: str) -> Iterator[tuple[int, str]]:
    """Handlers that do nothing, and calls of `suppress`, each for a broad error: (line, text)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            caught = _names(node.type) if node.type is not None else {"BaseException"}
            if caught & BROAD and all(isinstance(step, _QUIET) or _is_docstring(step) for step in node.body):
                yield node.lineno, f"except {', '.join(sorted(caught))}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "suppress":
            caught = {name for argument in node.args for name in _names(argument)}
            if caught & BROAD:
                yield node.lineno, ast.unparse(node)


def _names(node: ast.expr) -> set[str]:
    """The last words of the names in an expression."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return {ast.unparse(part).rpartition(".")[2] for part in parts}


def _is_docstring(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)
