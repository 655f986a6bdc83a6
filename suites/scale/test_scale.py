"""One pytest item for each scale model: of the suite's own profiles, or of the run's, where it has requirements."""

import pytest

from cephlab.fixtures.outcomes import require
from cephlab.fixtures.plugin import HARDWARE
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario
from cephlab.suites.scale import SCENARIOS
from cephlab.suites.scale.model import scenario_for


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The loads of the run's profile; without one those of the suite."""
    hardware = metafunc.config.stash[HARDWARE]
    scenarios = SCENARIOS
    if hardware is not None:
        scenarios = tuple(scenario_for(hardware, requirement) for requirement in hardware.requirements)
    metafunc.parametrize("scenario", scenarios, ids=[scenario.name for scenario in scenarios])


def test_scenario(scenario: Scenario, stage: Stage) -> None:
    require(run_scenario(scenario, stage))
