"""Fast disks on one architecture, slow disks on the other: every promotion and every flush crosses between them."""

from dataclasses import replace

from cephlab.lab.scenario.scenario import Scenario, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.suites.cachetier import leaving, misses, promotion
from cephlab.suites.cachetier.stand import APART

REPEATED = ("cachetier.whiteout", "cachetier.misses", "cachetier.leaving[mode=proxy]")


def repeated(known: Scenario, fast: str, topology: Topology) -> Scenario:
    """The same scenario on a cluster whose fast disks are on one architecture."""
    name, _, variant = known.name.partition("[")
    inside = f"fast={fast}" if not variant else f"{variant.rstrip(']')},fast={fast}"
    return replace(known, name=f"{name}[{inside}]", tier=Tier.FULL, topology=topology)


SCENARIOS = tuple(
    repeated(known, fast.value, topology)
    for fast, topology in APART.items()
    for known in (*promotion.SCENARIOS, *misses.SCENARIOS, *leaving.SCENARIOS)
    if known.name in REPEATED
)
