"""The code of this repository as syntax trees, for the tests of its shape."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("lab", "tuning", "fixtures", "suites", "cli", "tests")


def package_of(path: str) -> str:
    return PurePosixPath(path).parts[0]


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All of a module's, in the order of `ast.walk`; a dozen rules look at them."""
    return tuple(ast.walk(tree))


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import; `from a import b` gives `a.b`, as b may be a module.

    Modules of ours lose their `cephlab.`: the folders are how the rules name them.
    """
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.removeprefix("cephlab.")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "(relative)"
            whole = f"{node.module}."
            yield from ((node.lineno, f"{whole}{alias.name}".removeprefix("cephlab.")) for alias in node.names)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def modules(packages: Sequence[str] = PACKAGES) -> list[str]:
    paths = [path.relative_to(ROOT).as_posix() for package in packages for path in (ROOT / package).rglob("*.py")]
    return sorted(paths)


def trees(packages: Sequence[str] = PACKAGES) -> dict[str, ast.Module]:
    return {path: tree(path) for path in modules(packages)}


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())
