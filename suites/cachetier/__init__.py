"""Cache tiers on real clusters: promotion, misses, flushing, and leaving a tier under load without a loss."""

from cephlab.suites.cachetier import benefit, flushing, leaving, misses, mixed, oltp, promotion

SCENARIOS = (
    *promotion.SCENARIOS,
    *misses.SCENARIOS,
    *flushing.SCENARIOS,
    *leaving.SCENARIOS,
    *mixed.SCENARIOS,
    *benefit.SCENARIOS,
    *oltp.SCENARIOS,
)
