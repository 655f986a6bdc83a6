"""One pytest item for each scenario of the suite."""

from __future__ import annotations

import pytest

from fixtures.outcomes import require
from lab.scenario import Scenario, Stage, run_scenario
from suites.hci import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario, stage: Stage) -> None:
    require(run_scenario(scenario, stage))
