"""dm-cache between a database and RBD, as in the 2015 paper: what it gains, costs, and must not lose."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.dmcache import benefit, correctness, lost, power, settings

SCENARIOS: tuple[Scenario, ...] = (
    *correctness.SCENARIOS,
    *power.SCENARIOS,
    *lost.SCENARIOS,
    *benefit.SCENARIOS,
    *settings.SCENARIOS,
)
