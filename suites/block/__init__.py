"""Block devices: the cost of an operation, throughput against depth and clients, the papers' own settings."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.block import cache, clients, costs, depth, papers, radosbench, unwritten

SCENARIOS: tuple[Scenario, ...] = (
    *unwritten.SCENARIOS,
    *costs.SCENARIOS,
    *depth.SCENARIOS,
    *clients.SCENARIOS,
    *cache.SCENARIOS,
    *radosbench.SCENARIOS,
    *papers.SCENARIOS,
)
