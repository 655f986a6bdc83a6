"""What the machines below Ceph give: measured where the lab can, skipped by name where only hardware has it."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.baseline import atomics, checksum, clocks, disk, growth, hardware, network

SCENARIOS: tuple[Scenario, ...] = (
    *clocks.SCENARIOS,
    *network.SCENARIOS,
    *disk.SCENARIOS,
    *checksum.SCENARIOS,
    *atomics.SCENARIOS,
    *hardware.SCENARIOS,
    *growth.SCENARIOS,
)
