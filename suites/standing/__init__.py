"""A cluster as it stands: looked at, so that it can be one that serves; and loaded, where that is allowed."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.standing import load, looks

SCENARIOS: tuple[Scenario, ...] = (*looks.SCENARIOS, *load.SCENARIOS)
