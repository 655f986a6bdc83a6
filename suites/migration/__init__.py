"""Moves a cluster under load to machines of the other architecture and back, without lost data or refused clients."""

from cephlab.suites.migration import backfills, disks, exact, leaving, reuse, swap

SCENARIOS = (
    *swap.SCENARIOS,
    *reuse.SCENARIOS,
    *leaving.SCENARIOS,
    *exact.SCENARIOS,
    *disks.SCENARIOS,
    *backfills.SCENARIOS,
)
