"""S3 objects through gateways of both architectures: integrity, faults, object sizes, CPU cost and latency."""

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
