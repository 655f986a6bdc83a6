"""Rolling upgrades of a mixed cluster: every mix of versions serves, and newer releases read older data."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.upgrade import rolling

SCENARIOS: tuple[Scenario, ...] = (*rolling.SCENARIOS,)
