"""CephFS across architectures: clients that share a tree, metadata server failures, scrub, migration and upgrade."""

from cephlab.suites.cephfs import (
    across,
    caps,
    failover,
    mixed,
    mounted,
    moved,
    ranks,
    scrub,
    upgraded,
    walk,
    walk_moved,
)

SCENARIOS = (
    *caps.SCENARIOS,
    *across.SCENARIOS,
    *walk.SCENARIOS,
    *walk_moved.SCENARIOS,
    *failover.SCENARIOS,
    *ranks.SCENARIOS,
    *scrub.SCENARIOS,
    *mounted.SCENARIOS,
    *mixed.SCENARIOS,
    *moved.SCENARIOS,
    *upgraded.SCENARIOS,
)
