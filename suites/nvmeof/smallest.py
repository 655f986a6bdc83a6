"""The smallest stand that shows whether all of it works: two machines, and data through the gateway of each."""

from dataclasses import dataclass

from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.nvmeof.content import both_ways
from cephlab.suites.nvmeof.stand import standing

BOTH = ("n0", "c0")
"""Nodes of the gateways. The first has all of Ceph too, and the second the initiator: the fewest machines to boot."""


@dataclass(frozen=True)
class SmallTopology(Topology):
    """One machine with all of Ceph, and others beside it, which all may have a gateway."""

    beside: int = 1

    @property
    def made(self) -> str:
        return "gateways"

    @property
    def bare(self) -> tuple[Arch, ...]:
        return (host_arch(),) * self.beside


def smallest(stage: Stage) -> None:
    """Data both ways by the gateway that serves, and by its twin once the volume was handed over."""
    with standing(stage, BOTH) as stand:
        for gateway in stand.pair.gateways:
            both_ways(stage, stand, f"gateway {gateway.name}")
            stand.pair.hand_over()


SCENARIOS = (
    Scenario(
        name="nvmeof.smallest",
        goal="Data passes through either gateway of a pair unchanged, both ways, with digests on the wire.",
        method="Writes over NVMe and reads by librbd, and the other way around; hands over; again. Two machines of "
        "this one's architecture, each with a gateway: one has all of Ceph too, the other the initiator.",
        run=smallest,
        check="witnessed",
        topology=SmallTopology(native=1, foreign=0),
        needs=frozenset({Capability.FABRICS}),
    ),
)
