"""Rolling upgrades of a mixed cluster: every mix of versions serves, the newer reads what the older wrote."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.upgrade import rolling

SCENARIOS: tuple[Scenario, ...] = (*rolling.SCENARIOS,)
