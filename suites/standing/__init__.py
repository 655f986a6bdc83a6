"""A cluster as it stands: looked at, so that it can be one that serves; and loaded, where that is allowed."""

from __future__ import annotations

from lab.scenario import Scenario
from suites.standing import load, looks

SCENARIOS: tuple[Scenario, ...] = (*looks.SCENARIOS, *load.SCENARIOS)
