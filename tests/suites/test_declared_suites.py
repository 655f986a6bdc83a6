"""Every scenario of every suite says, by its source or by its declaration, what it must have recorded."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import pytest

from cephlab.fixtures.run import suite_names
from cephlab.lab.scenario.scenario import Scenario


def scenarios() -> Iterator[Scenario]:
    for suite in suite_names():
        yield from import_module(f"cephlab.suites.{suite}").SCENARIOS


def function_of(scenario: Scenario) -> Callable[..., object]:
    run: Callable[..., object] = scenario.run
    while isinstance(run, partial):
        run = run.func
    return run


@pytest.mark.slow
def test_every_scenario_says_what_it_must_have_seen() -> None:
    # By function, since the scenarios of one differ in their arguments alone.
    by_function = {function_of(scenario): scenario for scenario in scenarios() if not scenario.sees}
    assert len(by_function) > 50
    assert [scenario.name for scenario in by_function.values() if not scenario.must_see] == []


def test_what_is_declared_can_be_matched() -> None:
    declared = {pattern for scenario in scenarios() for pattern in scenario.sees}
    assert len(declared) > 30
    for pattern in declared:
        assert re.compile(pattern)
        assert pattern.strip(".*")
