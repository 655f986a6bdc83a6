"""Keeps the tests of the lab within their minute."""

import functools
import gc

import pytest
from typer import testing
from typer.main import get_command

from tests.strangers import Strangers

SELDOM = 200_000
"""Allocations between two collections of garbage, where Python has 700: modules and tests are made once and stay."""


def pytest_configure() -> None:
    """Collecting three thousand tests makes objects that live on; looking through them again and again finds none."""
    gc.set_threshold(SELDOM, 20, 20)
    # Typer makes all commands anew for each call of its test runner, which took a quarter of the tests' time.
    vars(testing)["_get_command"] = functools.cache(get_command)


def pytest_collection_finish() -> None:
    """What collecting made stays until the end; no collection of garbage has to go through it again."""
    gc.freeze()


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Strangers:
    return Strangers(monkeypatch)
