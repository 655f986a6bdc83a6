"""Upstream's test programs: one pytest item for each run, one result for each of its cases."""

import pytest

from cephlab.fixtures.outcomes import report_cases, require
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario
from cephlab.suites.interop import cephtests, objectstore

SCENARIOS = (*cephtests.SCENARIOS, *objectstore.SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_program(scenario: Scenario, stage: Stage, request: pytest.FixtureRequest) -> None:
    try:
        verdict = run_scenario(scenario, stage)
    finally:
        report_cases(request.node, stage.recorder.events())
    require(verdict)
