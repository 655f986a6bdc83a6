"""CephFS across architectures: clients that share a tree, metadata server failures, scrub, migration and upgrade."""

from cephlab.suites.cephfs import across, caps, failover, mixed, mounted, moved, ranks, scrub, upgraded, walk

SCENARIOS = (
    *caps.SCENARIOS,
    *across.SCENARIOS,
    *walk.SCENARIOS,
    *failover.SCENARIOS,
    *ranks.SCENARIOS,
    *scrub.SCENARIOS,
    *mounted.SCENARIOS,
    *mixed.SCENARIOS,
    *moved.SCENARIOS,
    *upgraded.SCENARIOS,
)
