"""The rooms of the house: how many a reader meets, and that no two modules import each other."""

from pathlib import PurePosixPath

import pytest

from tests.code_tree import PACKAGES, imports, modules, package_of, trees

MAX_ROOMS = 26
"""What a reader meets first: the rooms of lab, and the folders beside it."""


def rooms() -> set[str]:
    """The folders of lab, and the other packages; tests are none."""
    parts = [PurePosixPath(path).parts for path in modules() if package_of(path) != "tests"]
    return {"/".join(each[:2]) if each[0] == "lab" and len(each) > 2 else each[0] for each in parts} - {"lab"}


def test_a_reader_meets_few_rooms() -> None:
    assert 10 < len(rooms()) <= MAX_ROOMS


def arrows() -> dict[str, set[str]]:
    """Module -> modules of ours that it imports, anywhere in it; tests are left out."""
    named = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in modules()}
    imported: dict[str, set[str]] = {}
    for path, tree in trees([package for package in PACKAGES if package != "tests"]).items():
        targets = set()
        for _, module in imports(tree):
            target = module if module in named else module.rpartition(".")[0]
            if target in named and named[target] != path and not named[target].endswith("__init__.py"):
                targets.add(named[target])
        imported[path] = targets
    return imported


def circles(graph: dict[str, set[str]]) -> list[str]:
    """One line for each import that closes a circle."""
    done: set[str] = set()
    closing: list[str] = []

    def walk(path: str, way: tuple[str, ...]) -> None:
        for target in sorted(graph.get(path, ())):
            if target in way:
                closing.append(f"{path} imports {target}, which imports it back")
            elif target not in done:
                walk(target, (*way, target))
        done.add(path)

    for path in sorted(graph):
        if path not in done:
            walk(path, (path,))
    return closing


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(arrows()) == []


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["c imports a, which imports it back"]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
