"""Objects through gateways of both architectures: equal by every way, under faults, by size, and what waiting costs."""

from cephlab.suites.object import across, balanced, costs, faults, pace, sizes, tls

SCENARIOS = (
    *across.SCENARIOS,
    *costs.SCENARIOS,
    *faults.SCENARIOS,
    *pace.SCENARIOS,
    *sizes.SCENARIOS,
    *tls.SCENARIOS,
    *balanced.SCENARIOS,
)
