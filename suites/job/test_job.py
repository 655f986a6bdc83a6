"""One pytest item for each part of a job: of the file that --job names, else of the papers' jobs."""

import pytest

from cephlab.fixtures.outcomes import require
from cephlab.fixtures.plugin import OPTIONS
from cephlab.lab.jobs.jobfile import load_job
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario
from cephlab.suites.job import SCENARIOS
from cephlab.suites.job.scenarios import scenarios_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A job that was asked for runs in every tier."""
    path = metafunc.config.stash[OPTIONS].job
    scenarios = SCENARIOS if path is None else scenarios_of(load_job(path), asked=True)
    metafunc.parametrize("scenario", scenarios, ids=[scenario.name for scenario in scenarios])


def test_scenario(scenario: Scenario, stage: Stage) -> None:
    require(run_scenario(scenario, stage))
