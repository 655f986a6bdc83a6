"""Cache tiers on real clusters: promotion, misses, flushing, and removing a tier under load without data loss."""

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
