"""Machines, disks and networks that fail while clients work: nothing acknowledged is lost, and the cluster returns."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.resilience import crash, full, monitors, osds, single, soak

SCENARIOS: tuple[Scenario, ...] = (
    *crash.SCENARIOS,
    *full.SCENARIOS,
    *monitors.SCENARIOS,
    *osds.SCENARIOS,
    *single.SCENARIOS,
    *soak.SCENARIOS,
)
