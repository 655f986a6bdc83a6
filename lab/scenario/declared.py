"""Finds what a scenario must have recorded before it may pass: what it declares, and what its source always records.

The source gives the name of each observation, figure and witness without which the function cannot end: those recorded
unconditionally, and those in loops over something that is known not to be empty. The scenario declares the others.
"""

import ast
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any

from cephlab.lab.history.history import Event

RECORDING = {"observe", "figure", "witness"}
ANYTHING = ".*"
_PASSING_ON = {"enumerate", "list", "reversed", "set", "sorted", "tuple", "zip", "product"}
_OF_MAPPINGS = {"items", "keys", "values"}
_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Raise)
_MOST_DEEP = 12
Patterns = Mapping[str, str]
"""Name of a parameter -> regular expression that matches the text given for it."""


def must_see(run: Callable[..., object], declared: Sequence[str] = ()) -> tuple[str, ...]:
    """Regular expressions. Each must match the whole name of something that was recorded."""
    derived = [pattern for pattern in _of_function(run, 0) if pattern != ANYTHING]
    return tuple(dict.fromkeys((*declared, *derived)))


def unseen(events: Sequence[Event], wanted: Iterable[str]) -> list[str]:
    """The patterns that match nothing that was recorded."""
    names = {str(event.data.get("what") or event.data.get("metric") or event.kind) for event in events}
    names |= {event.kind for event in events}
    return [pattern for pattern in wanted if not any(re.fullmatch(pattern, name, re.DOTALL) for name in names)]


def _of_function(run: Callable[..., object], depth: int, patterns: Patterns | None = None) -> tuple[str, ...]:
    """What a function always records. patterns: what is known of its arguments."""
    known = dict(patterns or {})
    while isinstance(run, partial):
        bound = _bound(run.func, [_text_pattern(value) for value in run.args], _patterns_of(run.keywords))
        run, known = run.func, {**bound, **known}
    run = inspect.unwrap(run)
    if depth > _MOST_DEEP or not inspect.isfunction(run) or not run.__module__.startswith("cephlab."):
        return ()
    body, names = _read(run)
    return tuple(_Reader(names, known, depth).block(body))


@cache
def _read(run: FunctionType) -> tuple[Sequence[ast.stmt], Mapping[str, Any]]:
    """A function's statements (none if there is no source), and the values of its global and enclosing names."""
    own = {*run.__code__.co_varnames, *run.__code__.co_cellvars}
    enclosed = zip(run.__code__.co_freevars, run.__closure__ or (), strict=True)
    around = {name: cell.cell_contents for name, cell in enclosed}
    names = {name: value for name, value in {**run.__globals__, **around}.items() if name not in own}
    with suppress(OSError, SyntaxError):
        tree = ast.parse(dedent(inspect.getsource(run))).body
        if len(tree) == 1 and isinstance(tree[0], ast.FunctionDef) and _is_source_of(tree[0], run):
            return tree[0].body, names
    return (), names


def _is_source_of(tree: ast.FunctionDef, run: FunctionType) -> bool:
    """Whether a function was compiled from this source. Its file may have been edited after the import."""
    tree.decorator_list = []
    module = compile(ast.Module([tree], []), "", "exec")
    return any(_names(code) == _names(run.__code__) for code in module.co_consts if isinstance(code, CodeType))


def _names(code: CodeType) -> tuple[object, ...]:
    """Identifies the code of a function, independent of its line numbers and of the code around it."""
    return code.co_name, set(code.co_varnames + code.co_cellvars), set(code.co_names) - set(code.co_freevars)


def _bound(run: Callable[..., object], args: Sequence[str], keywords: Patterns) -> dict[str, str]:
    with suppress(TypeError, ValueError):
        bound = inspect.signature(run).bind_partial(*args, **keywords)
        return {name: value for name, value in bound.arguments.items() if isinstance(value, str)}
    return dict(keywords)


def _text_pattern(value: object) -> str:
    return re.escape(value) if isinstance(value, str) else ANYTHING


def _patterns_of(values: Mapping[str, object]) -> dict[str, str]:
    return {name: _text_pattern(value) for name, value in values.items()}


@dataclass(frozen=True)
class _Reader:
    """Reads one function. names: values of its names; given: patterns of its arguments; depth: calls above it."""

    names: Mapping[str, Any]
    given: Patterns
    depth: int

    def block(self, statements: Sequence[ast.stmt]) -> Iterator[str]:
        for statement in statements:
            yield from self._statement(statement)
            if _may_leave(statement):
                return

    def _statement(self, node: ast.stmt) -> Iterator[str]:
        if isinstance(node, ast.With):
            for item in node.items:
                yield from self._expression(item.context_expr)
            yield from self.block(node.body)
        elif isinstance(node, ast.Try):
            if not node.handlers:
                yield from self.block(node.body)
            yield from self.block(node.finalbody)
        elif isinstance(node, ast.For):
            yield from self._expression(node.iter)
            if self._holds_something(node.iter):
                yield from self.block(node.body)
        elif isinstance(node, ast.If):
            yield from self._expression(node.test)
            otherwise = set(self.block(node.orelse))
            yield from (pattern for pattern in self.block(node.body) if pattern in otherwise)
        elif isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return) and node.value:
            yield from self._expression(node.value)

    def _expression(self, node: ast.expr) -> Iterator[str]:
        """What is always recorded while an expression is evaluated."""
        if isinstance(node, ast.Call):
            for part in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield from self._expression(part)
            yield from self._call(node)
        elif isinstance(node, ast.IfExp | ast.BoolOp):
            yield from self._expression(node.test if isinstance(node, ast.IfExp) else node.values[0])
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from self._expression(child)

    def _call(self, node: ast.Call) -> Iterator[str]:
        if isinstance(node.func, ast.Attribute) and node.func.attr in RECORDING:
            if ast.unparse(node.func.value).endswith("recorder") and node.args:
                yield self._pattern(node.args[0])
            return
        target = self._value(node.func)
        if callable(target) and not isinstance(target, type):
            plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
            args = [self._pattern(argument) for argument in node.args] if plain else []
            keywords = {keyword.arg: self._pattern(keyword.value) for keyword in node.keywords if keyword.arg}
            yield from _of_function(target, self.depth + 1, _bound(inspect.unwrap(target), args, keywords))

    def _value(self, node: ast.expr) -> Any:
        """The value, outside the function, of a name or of an attribute of a module; None if unknown."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return getattr(owner, node.attr, None) if inspect.ismodule(owner) else None
        return None

    def _pattern(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return re.escape(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
            return "".join(map(self._pattern, parts))
        if isinstance(node, ast.Name):
            return self.given.get(node.id) or _text_pattern(self.names.get(node.id))
        return ANYTHING

    def _holds_something(self, node: ast.expr) -> bool:
        """Whether an iterable is known not to be empty."""
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return any(not isinstance(element, ast.Starred) for element in node.elts)
        if isinstance(node, ast.Call):
            return self._call_holds_something(node)
        value = self._value(node)
        return isinstance(value, Collection) and not isinstance(value, str) and len(value) > 0

    def _call_holds_something(self, node: ast.Call) -> bool:
        func = node.func
        if isinstance(func, ast.Attribute):
            return func.attr in _OF_MAPPINGS and self._holds_something(func.value)
        name = func.id if isinstance(func, ast.Name) else ""
        if name == "range" and len(node.args) == 1:
            count = node.args[0].value if isinstance(node.args[0], ast.Constant) else self._value(node.args[0])
            return isinstance(count, int) and count > 0
        return name in _PASSING_ON and bool(node.args) and all(map(self._holds_something, node.args))


def _may_leave(statement: ast.stmt) -> bool:
    """Whether a statement may end its block, so that the statements after it do not run."""
    return any(isinstance(node, _LEAVING) for node in _own_nodes(statement))


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, except those of functions that it defines."""
    if not isinstance(node, ast.FunctionDef | ast.Lambda):
        yield node
        for part in ast.iter_child_nodes(node):
            yield from _own_nodes(part)
