"""What is broken on purpose, and when that is a finding."""

import ast
import os
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from cephlab.lab.base.process import run
from tests.mutate.__main__ import judge, listed, tell
from tests.mutate.trial import ROOT, TIMED_OUT, Mutant, Tried, apart_from

CODE = '''"""What it is for."""

from dataclasses import dataclass

Key = tuple[str, int]
LIMIT = 1.06


@dataclass(frozen=True)
class Thing:
    """A thing."""

    value: int

    @property
    def double(self) -> int | None:
        return self.value * 2


def judged(things: list[Thing]) -> list[int]:
    if not things:
        raise ValueError("there is nothing", "at all")
    note("a sentence of words")
    return [len(things), LIMIT]


def note(text: str) -> None:
    pass
'''


@cache
def made() -> tuple[Mutant, ...]:
    from tests.mutate.mutants import mutants  # brings libcst, which the other workers need not wait for

    return tuple(mutants("lab/x.py", CODE))


def changes() -> list[tuple[str, str]]:
    return [(mutant.was, mutant.now) for mutant in made()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("LIMIT = 1.06", "LIMIT = 2.06"),
        ("return self.value * 2", "return self.value / 2"),
        ("if not things:", "if things:"),
        ('raise ValueError("there is nothing", "at all")', "pass"),
        ('note("a sentence of words")', "..."),
        ("return [len(things), LIMIT]", "return [LIMIT]"),
        ("return [len(things), LIMIT]", "return [len(things), ]"),
    ],
)
def test_what_is_done_is_broken(was: str, now: str) -> None:
    assert (was, now) in changes()


@pytest.mark.slow
def test_words_annotations_and_decorators_are_left_alone() -> None:
    touched = {was for was, _ in changes()}
    assert touched == {
        "LIMIT = 1.06",
        "return self.value * 2",
        "if not things:",
        'raise ValueError("there is nothing", "at all")',
        'note("a sentence of words")',
        "return [len(things), LIMIT]",
    }


@pytest.mark.slow
def test_a_mutant_says_where_it_is_and_whether_a_function_can_take_it_over() -> None:
    by_line = {mutant.was: mutant for mutant in made()}
    assert (by_line["LIMIT = 1.06"].place, by_line["LIMIT = 1.06"].within) == ("", False)
    inner = by_line["return self.value * 2"]
    assert (inner.place, inner.within) == ("Thing.double", True)
    assert all(mutant.source != CODE and compile(mutant.source, "x", "exec") for mutant in by_line.values())


ONE, OTHER = Mutant("lab/x.py", "f", "a", "b", ""), Mutant("lab/x.py", "g", "c", "d", "")


def test_a_survivor_that_is_not_listed_and_one_that_is_noticed_by_now_are_findings() -> None:
    listing = {ONE.key: "nothing can tell", ("lab/y.py", "f", "a", "b"): "elsewhere"}
    sound = judge("lab/x.py", [Tried(ONE, 0, 1.0), Tried(OTHER, 1, 1.0)], listing)
    assert (sound.mutants, sound.survived, sound.new, sound.gone) == (2, 1, (), ())
    new = judge("lab/x.py", [Tried(ONE, 0, 1.0), Tried(OTHER, 0, 1.0)], listing)
    assert new.new == (OTHER,)
    gone = judge("lab/x.py", [Tried(ONE, TIMED_OUT, 1.0), Tried(OTHER, 1, 1.0)], listing)
    assert (gone.gone, gone.endless) == ((ONE.key,), 1)
    many = [Tried(OTHER, 1, 1.0)] * 19
    assert tell([judge("lab/x.py", [Tried(ONE, 0, 1.0), *many], listing)]) == 0
    assert tell([judge("lab/x.py", [Tried(ONE, 0, 1.0), *many], {})]) == 1
    assert tell([judge("lab/x.py", many, listing)]) == 1
    assert tell([judge("lab/x.py", [Tried(ONE, 0, 1.0), *many[1:]], listing)]) == 1, "more than 5 % survive"


def test_a_survivor_needs_its_reason() -> None:
    text = """
[modules]
"lab/x.py" = ["tests/test_x.py"]

[[survivor]]
module = "lab/x.py"
place = "f"
was = "a"
now = "b"
"""
    assert listed(text + 'why = "nothing can tell"').survivors == {ONE.key: "nothing can tell"}
    with pytest.raises(SystemExit, match="needs its reason"):
        listed(text + 'why = " "')


TRY = """
from tests.mutate.mutants import mutants
from tests.mutate.trial import ROOT, tried

made = [one for one in mutants("tuning/units.py", (ROOT / "tuning/units.py").read_text()) if one.was == '"GB": 1e9,']
tests = ["tests/tuning/test_units.py"]
print([result.code for result in tried("tuning/units.py", made[:1], tests, 1)], flush=True)
tried("cli/gate.py", [], tests, 1)
"""


def test_every_listed_survivor_changes_a_line_of_its_function() -> None:
    """A line that was rewritten has no such mutant any more, and its entry would stay for ever."""
    survivors = listed((ROOT / "ci/mutants.toml").read_text()).survivors
    assert [key for key in survivors if not stripped(key[2]) <= stripped(source_of(key[0], key[1]))] == []


def stripped(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()}


def source_of(module: str, place: str) -> str:
    """Source of a module's function, method or class; all of it for no place."""
    return functions_of(module)[place.rpartition(".")[2]] if place else (ROOT / module).read_text()


@cache
def functions_of(module: str) -> dict[str, str]:
    """Name of a function or class -> the source of all of that name; empty for a name that is not there."""
    source = (ROOT / module).read_text()
    lines, sources = source.splitlines(), defaultdict[str, str](str)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            sources[node.name] += "\n".join([*lines[node.lineno - 1 : node.end_lineno], ""])
    return sources


def test_what_loads_a_changed_module_or_one_that_does_is_not_loaded_before(tmp_path: Path) -> None:
    sources = {
        "c": "",
        "c.apart": "import c.base",
        "c.base": "def late():\n    from c.changed import LIMIT\n",
        "c.changed": "",
        "c.near": "from c.changed import LIMIT",
        "c.farther": "if True:\n    import c.near",
        "c.pack": "from c import near",
        "c.pack.inner": "",
        "c.outer": "from c.pack.inner import x",
    }
    paths = {name: tmp_path / f"{name}.py" for name in sources}
    for name, text in sources.items():
        paths[name].write_text(text)
    assert apart_from(paths["c.changed"], paths) == ["c", "c.apart", "c.base"]


@pytest.mark.real
def test_a_changed_constant_reaches_the_tests() -> None:
    """pytest loads every module of an installed plugin in its own way; a mutant that it passes by seems to survive."""
    done = run([sys.executable, "-c", TRY], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert done.stdout == "[1]\n"
    assert "no test loads cli/gate.py" in done.stderr
