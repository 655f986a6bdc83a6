"""A cluster that moves to machines of the other architecture under load, and back: nothing lost, nobody refused."""

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
