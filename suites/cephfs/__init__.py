"""CephFS across architectures: what two clients see of each other, dying metadata servers, scrub, Ceph's own tests."""

from cephlab.suites.cephfs import across, failover, mixed, mounted, moved, ranks, scrub, upgraded

SCENARIOS = (
    *across.SCENARIOS,
    *failover.SCENARIOS,
    *ranks.SCENARIOS,
    *scrub.SCENARIOS,
    *mounted.SCENARIOS,
    *mixed.SCENARIOS,
    *moved.SCENARIOS,
    *upgraded.SCENARIOS,
)
