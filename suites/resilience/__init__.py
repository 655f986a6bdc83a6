"""Machines, disks and networks that fail under load: no acknowledged write is lost, and the cluster recovers."""

from cephlab.suites.resilience import crash, full, monitors, osds, single, soak

SCENARIOS = (
    *crash.SCENARIOS,
    *full.SCENARIOS,
    *monitors.SCENARIOS,
    *osds.SCENARIOS,
    *single.SCENARIOS,
    *soak.SCENARIOS,
)
