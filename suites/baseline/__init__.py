"""Speed and properties of the machines below Ceph. Scenarios that need real hardware are skipped by name elsewhere."""

from cephlab.suites.baseline import atomics, checksum, clocks, disk, growth, hardware, network, settings

SCENARIOS = (
    *clocks.SCENARIOS,
    *network.SCENARIOS,
    *disk.SCENARIOS,
    *checksum.SCENARIOS,
    *atomics.SCENARIOS,
    *hardware.SCENARIOS,
    *settings.SCENARIOS,
    *growth.SCENARIOS,
)
