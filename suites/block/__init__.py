"""Block devices: cost of an operation, throughput against queue depth and clients, settings of the papers."""

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
