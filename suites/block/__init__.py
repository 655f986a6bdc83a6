"""Block devices: the cost of an operation, throughput against depth and clients, the papers' own settings."""

from cephlab.suites.block import cache, clients, costs, depth, papers, radosbench, unwritten, watts

SCENARIOS = (
    *unwritten.SCENARIOS,
    *costs.SCENARIOS,
    *depth.SCENARIOS,
    *clients.SCENARIOS,
    *cache.SCENARIOS,
    *radosbench.SCENARIOS,
    *papers.SCENARIOS,
    *watts.SCENARIOS,
)
