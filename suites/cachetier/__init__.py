"""Cache tiers on real clusters: promotion, misses, flushing, and leaving a tier under load without a loss."""

from __future__ import annotations

from lab.scenario import Scenario
from suites.cachetier import benefit, brought, crowded, flushing, leaving, misses, mixed, oltp, promotion

SCENARIOS: tuple[Scenario, ...] = (
    *promotion.SCENARIOS,
    *misses.SCENARIOS,
    *flushing.SCENARIOS,
    *leaving.SCENARIOS,
    *mixed.SCENARIOS,
    *benefit.SCENARIOS,
    *oltp.SCENARIOS,
    *brought.SCENARIOS,
    *crowded.SCENARIOS,
)
