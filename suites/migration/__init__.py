"""Moves a cluster under load to machines of the other architecture and back: no data lost, no client refused."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.migration import backfills, disks, leaving, reuse, swap

SCENARIOS: tuple[Scenario, ...] = (
    *swap.SCENARIOS,
    *reuse.SCENARIOS,
    *leaving.SCENARIOS,
    *disks.SCENARIOS,
    *backfills.SCENARIOS,
)
