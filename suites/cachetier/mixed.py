"""Fast disks on one architecture, slow disks on the other: every promotion and every flush crosses between them."""

from dataclasses import replace

from cephlab.lab.scenario.scenario import Scenario, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.cachetier import leaving, misses, promotion
from cephlab.suites.cachetier.stand import UNTHROTTLED
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout

APART = {
    (host_arch() if fast_native else host_arch().other): TieredTopology(
        layout=TierLayout(servers=2, apart=True, fast_native=fast_native), clients=True, options=UNTHROTTLED
    )
    for fast_native in (True, False)
}
"""Architecture of the fast disks -> topology."""

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
