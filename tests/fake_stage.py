"""A stage whose cluster is what a test puts together, and what a scenario says of it."""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from cephlab.lab.checks import Verdict
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario


def stage_of(cluster: object) -> Stage:
    return Stage(cast("Any", cluster), History().recorder("suite.topic"), Random(7), Path("/nonexistent"))


def verdict_of(scenario: Scenario, cluster: object) -> Verdict:
    stage = stage_of(SimpleNamespace(name="fake", **vars(cluster)))
    return run_scenario(scenario, stage)
