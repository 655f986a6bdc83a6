"""Keeps the tests of the lab fast enough for their limit of a minute."""

import functools
import gc
import os
import re
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pytest
from typer import testing
from typer.main import get_command

from tests.strangers import Strangers

SELDOM = 200_000
"""Allocations between two garbage collections; Python's default is 700. Modules and tests are made once and stay."""

LIBRARIES: tuple[str, ...] = ("boto3", "cryptography.x509", "docker", "elftools.elf.elffile", "hypothesis", "jinja2")
LIBRARIES += ("jsonschema", "numpy.ma", "pydantic", "pylxd", "rich.table", "scipy.optimize", "scipy.special")
LIBRARIES += ("typer.testing", "yaml")
"""What every worker imports, before the bytecode folder is changed: their bytecode is in their own installation."""
BYTECODE = Path(__file__).resolve().parents[1] / ".pytest_cache" / "bytecode"


def keep_bytecode() -> None:
    """Keep bytecode in pytest's own folder if Python may not write it next to the code.

    Otherwise compiling and rewriting asserts takes half of a worker's collection, and every command compiles again.
    """
    if sys.dont_write_bytecode:
        for name in LIBRARIES if "PYTEST_XDIST_WORKER" in os.environ else ():
            import_module(name)
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(BYTECODE)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # not set if Python was started with -B
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


keep_bytecode()  # before the first module of tests is imported


def pytest_unconfigure() -> None:
    """Remove the bytecode of modules that tests wrote: the modules are gone with their folders."""
    shutil.rmtree(f"{BYTECODE}{tempfile.gettempdir()}", ignore_errors=True)


def pytest_configure() -> None:
    """Collect garbage less often: the objects of three thousand collected tests live until the end."""
    gc.set_threshold(SELDOM, 20, 20)
    # Typer rebuilds all commands for each call of its test runner, which took a quarter of the tests' time.
    vars(testing)["_get_command"] = functools.cache(get_command)


def pytest_collection_finish() -> None:
    """Freeze what was collected: it lives until the end, so garbage collections need not visit it."""
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip a module if `-m` leaves out all of its tests, unless it is named. That is a sixth of all modules."""
    if collection_path.suffix != ".py" or any(Path(arg.partition("::")[0]).suffix == ".py" for arg in config.args):
        return None
    return True if marked_whole(collection_path.read_text()) & left_out(config.option.markexpr) else None


def left_out(expression: str) -> set[str]:
    """The marks that a `-m` expression always leaves out."""
    return set() if re.search(r"\bor\b|[(]", expression) else set(re.findall(r"\bnot (\w+)", expression))


def marked_whole(code: str) -> set[str]:
    """The first mark of a module's `pytestmark`."""
    return set(re.findall(r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", code, re.MULTILINE))


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Strangers:
    return Strangers(monkeypatch)
