"""One pytest item for each requirement of the run's profile."""

import pytest

from cephlab.fixtures.outcomes import require
from cephlab.fixtures.plugin import HARDWARE, OPTIONS
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario
from cephlab.suites.profile.wanted import scenarios_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The scenarios are those of the profile that the run was given."""
    hardware, options = metafunc.config.stash[HARDWARE], metafunc.config.stash[OPTIONS]
    if hardware is not None:
        scenarios = scenarios_of(hardware, options.home, attached=options.inventory is not None)
        metafunc.parametrize("scenario", scenarios, ids=[scenario.name for scenario in scenarios])


def test_scenario(scenario: Scenario, stage: Stage) -> None:
    require(run_scenario(scenario, stage))
