"""The mutants of a module: mutmut's changes, on its constants and decorated functions too, and two kinds of our own.

mutmut's own runner is not used: it runs the tests several times in one process, which those of the pytest plugin do not
bear, and leaves out constants and properties.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper
from mutmut.mutation import mutators
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.pragma_handling import IgnoredCode

from tests.mutate.trial import Mutant

Change = Callable[[Any], Iterable[cst.CSTNode]]


WORDS = ("DerivationStep", "Derivation")
"""Calls that take words for people, as a raised error does: tests hold that they are made, not how they are worded."""


class _Everything(MutationVisitor):
    """mutmut passes over decorated functions because of how it runs mutants; a whole module has no such trouble."""

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef) and node.decorators:
            return False
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in WORDS:
            return True
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "strict":
            return True
        return bool(super()._skip_node_and_children(node))

    def on_visit(self, node: cst.CSTNode) -> bool:
        return super().on_visit(node) and not isinstance(node, cst.Raise)


def mutants(module: str, code: str) -> Iterator[Mutant]:
    """Every mutant of a module's text, each once."""
    wrapper = MetadataWrapper(cst.parse_module(code))
    visitor = _Everything(_changes(), IgnoredCode(set(), set(), set()))
    tree = wrapper.visit(visitor)
    # A change is made in its own statement: to write out a whole module for each takes most of a run.
    pieces = [tree.code_for_node(statement) for statement in tree.body]
    head, _, tail = code.partition("".join(pieces))
    seen = {code}
    for number, (statement, piece) in enumerate(zip(tree.body, pieces, strict=True)):
        places = _places(statement)
        for mutation in visitor.mutations:
            if mutation.original_node not in places:
                continue
            place, within = places[mutation.original_node]
            changed = tree.code_for_node(statement.deep_replace(mutation.original_node, mutation.mutated_node))
            source = "".join((head, *pieces[:number], changed, *pieces[number + 1 :], tail))
            if source not in seen and not (place == "" and _is_alias(mutation.original_node)):
                seen.add(source)
                yield Mutant(module, place, *_lines_that_differ(piece, changed), source, within)


def _changes() -> list[tuple[type, Change]]:
    ours: dict[Change, Change] = {
        mutators.operator_string: _string,
        mutators.operator_arg_removal: _argument,
        mutators.operator_assignment: _assignment,
    }
    theirs: list[tuple[type, Change]] = [
        (kind, ours.get(change, change)) for kind, change in mutators.mutation_operators
    ]
    return [*theirs, (cst.List, _element), (cst.Expr, _statement), (cst.Raise, _silence)]


def _string(node: cst.BaseString) -> Iterator[cst.CSTNode]:
    """A name that is another one; the wording of messages is not held by tests."""
    if not _is_prose(node):
        yield from list(mutators.operator_string(node))[:1]


def _argument(node: cst.Call) -> Iterator[cst.CSTNode]:
    for changed in mutators.operator_arg_removal(node):
        if _held(changed) == _held(node):
            yield changed


def _assignment(node: cst.Assign | cst.AnnAssign) -> Iterator[cst.CSTNode]:
    if node.value is None or not _is_prose(node.value):
        yield from mutators.operator_assignment(node)


def _element(node: cst.List) -> Iterator[cst.CSTNode]:
    """One member of a list left out: a check that is not made, a limit that is not looked at."""
    for number, element in enumerate(node.elements):
        if _is_prose(element.value):
            continue
        yield node.with_changes(elements=[*node.elements[:number], *node.elements[number + 1 :]])


def _statement(node: cst.Expr) -> Iterator[cst.CSTNode]:
    """A call left out that was made for what it does."""
    if isinstance(node.value, cst.Call | cst.Yield):
        yield node.with_changes(value=cst.Ellipsis())


def _silence(_node: cst.Raise) -> Iterator[cst.CSTNode]:
    """What should be refused is let through."""
    yield cst.Pass()


def _is_prose(node: cst.CSTNode) -> bool:
    """A sentence, or a part of one: text with a space in it."""
    if isinstance(node, cst.FormattedString):
        return any(isinstance(part, cst.FormattedStringText) and " " in part.value for part in node.parts)
    if isinstance(node, cst.ConcatenatedString):
        return _is_prose(node.left) or _is_prose(node.right)
    return isinstance(node, cst.SimpleString) and " " in node.value


def _held(call: cst.Call) -> list[str]:
    """Arguments that stay as they are: wording, and zip's `strict`, which guards against programmers."""
    return [
        cst.Module([]).code_for_node(argument)
        for argument in call.args
        if _is_prose(argument.value) or (argument.keyword is not None and argument.keyword.value == "strict")
    ]


def _is_alias(node: cst.CSTNode) -> bool:
    """`Key = tuple[str, str]` outside of functions, which only annotations speak of."""
    return isinstance(node, cst.Assign) and isinstance(node.value, cst.Subscript)


def _places(tree: cst.CSTNode) -> dict[cst.CSTNode, tuple[str, bool]]:
    """Node -> the name of the innermost function or class around it, and whether it is in a function's body."""
    named: dict[cst.CSTNode, tuple[str, bool]] = {}
    waiting: list[tuple[cst.CSTNode, str, bool]] = [(tree, "", False)]
    while waiting:
        node, place, within = waiting.pop()
        named[node] = (place, within)
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            place = f"{place}.{node.name.value}" if place else node.name.value
        body = node.body if isinstance(node, cst.FunctionDef) else None
        waiting += [(child, place, within or child is body) for child in node.children]
    return named


def _lines_that_differ(before: str, after: str) -> tuple[str, str]:
    differing = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[:2] in {"- ", "+ "}]
    was = [line[2:].strip() for line in differing if line[0] == "-"]
    now = [line[2:].strip() for line in differing if line[0] == "+"]
    return " ".join(was), " ".join(now)
