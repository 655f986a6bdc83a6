"""Turns the scenarios of a suite into pytest items."""

from collections.abc import Callable, Sequence

import pytest

from cephlab.fixtures.outcomes import report_cases, require
from cephlab.lab.scenario.scenario import Scenario, Stage, refuse_swallowing, run_scenario


def one_item_each(scenarios: Sequence[Scenario]) -> Callable[[Scenario, Stage, pytest.FixtureRequest], None]:
    """Make a suite's `test_scenario`: a test function from which pytest makes one item for each scenario.

    SpecError for a suite whose source swallows errors.
    """
    for scenario in scenarios:
        refuse_swallowing(scenario.run)

    @pytest.mark.parametrize("scenario", scenarios, ids=lambda scenario: scenario.name)
    def test_scenario(scenario: Scenario, stage: Stage, request: pytest.FixtureRequest) -> None:
        try:
            verdict = run_scenario(scenario, stage)
        finally:
            report_cases(request.node, stage.recorder.events())
        require(verdict)

    return test_scenario
