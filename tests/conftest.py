"""Keeps the tests of the lab within their minute."""

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
"""Allocations between two collections of garbage, where Python has 700: modules and tests are made once and stay."""

LIBRARIES: tuple[str, ...] = ("boto3", "cryptography.x509", "docker", "elftools.elf.elffile", "hypothesis", "jinja2")
LIBRARIES += ("jsonschema", "numpy.ma", "pydantic", "pylxd", "rich.table", "scipy.optimize", "scipy.special")
LIBRARIES += ("typer.testing", "yaml")
"""What every worker imports: their installation has their bytecode, which is not looked for where ours is kept."""
BYTECODE = Path(__file__).resolve().parents[1] / ".pytest_cache" / "bytecode"


def keep_bytecode() -> None:
    """Compiling this tree and rewriting its asserts takes half of a worker's collection, and each command that a test
    starts compiles again. Where Python may leave nothing beside the code, it is kept in pytest's own folder.
    """
    if sys.dont_write_bytecode:
        for name in LIBRARIES if "PYTEST_XDIST_WORKER" in os.environ else ():
            import_module(name)
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(BYTECODE)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # none where Python was started with -B
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


keep_bytecode()  # before the first module of tests is imported


def pytest_unconfigure() -> None:
    """What tests wrote and imported is gone with their folders."""
    shutil.rmtree(f"{BYTECODE}{tempfile.gettempdir()}", ignore_errors=True)


def pytest_configure() -> None:
    """Collecting three thousand tests makes objects that live on; looking through them again and again finds none."""
    gc.set_threshold(SELDOM, 20, 20)
    # Typer makes all commands anew for each call of its test runner, which took a quarter of the tests' time.
    vars(testing)["_get_command"] = functools.cache(get_command)


def pytest_collection_finish() -> None:
    """What collecting made stays until the end; no collection of garbage has to go through it again."""
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A module whose every test `-m` leaves out is not imported, unless it is named: a sixth of all modules."""
    if collection_path.suffix != ".py" or any(Path(arg.partition("::")[0]).suffix == ".py" for arg in config.args):
        return None
    return True if marked_whole(collection_path.read_text()) & left_out(config.option.markexpr) else None


def left_out(expression: str) -> set[str]:
    """The marks that an expression of `-m` leaves out whatever else a test has."""
    return set() if re.search(r"\bor\b|[(]", expression) else set(re.findall(r"\bnot (\w+)", expression))


def marked_whole(code: str) -> set[str]:
    """The mark that begins a module's `pytestmark`."""
    return set(re.findall(r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", code, re.MULTILINE))


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Strangers:
    return Strangers(monkeypatch)
