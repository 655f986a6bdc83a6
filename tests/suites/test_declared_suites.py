"""Every scenario has a name, a check, and says, by its source or its declaration, what it must have recorded."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import pytest

from cephlab.fixtures.run import suite_names
from cephlab.lab.checks import CHECKS
from cephlab.lab.scenario.scenario import Scenario


def scenarios_of(suite: str) -> tuple[Scenario, ...]:
    listed: tuple[Scenario, ...] = import_module(f"cephlab.suites.{suite}").SCENARIOS
    return listed


def scenarios() -> Iterator[Scenario]:
    for suite in suite_names():
        yield from scenarios_of(suite)


def function_of(scenario: Scenario) -> Callable[..., object]:
    run: Callable[..., object] = scenario.run
    while isinstance(run, partial):
        run = run.func
    return run


@pytest.mark.parametrize("suite", suite_names())
def test_scenarios_have_names_of_their_own_and_checks_that_exist(suite: str) -> None:
    listed = scenarios_of(suite)
    assert len({scenario.name for scenario in listed}) == len(listed)
    assert {scenario.suite for scenario in listed} <= {suite}
    assert {scenario.check for scenario in listed} <= set(CHECKS)


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


def test_goals_and_methods_have_the_article_that_the_next_word_needs() -> None:
    wrong = re.compile(r"\b(?:[Aa] (?=[aeiouAEIOUx])(?!one\b|u[sn]i|use)|[Aa]n (?=[bcdfgjklmnpqrstvwyz]))\w+")
    texts = {text for scenario in scenarios() for text in (scenario.goal, scenario.method)}
    assert [text for text in sorted(texts) if wrong.search(text)] == []


def test_a_goal_begins_with_what_tells_it_from_others() -> None:
    families = {(" ".join(each.goal.split()[:8]), each.name.partition("[")[0]) for each in scenarios()}
    shared = Counter(beginning for beginning, _ in families)
    assert [beginning for beginning, count in shared.items() if count > 4] == []
