"""The smallest NVMe-oF test: two machines of one architecture, data through both gateways."""

from dataclasses import dataclass

from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.nvmeof.content import both_ways
from cephlab.suites.nvmeof.stand import standing

BOTH = ("n0", "c0")
"""Nodes of the gateways. The first also has all of Ceph, the second the initiator, which saves booting machines."""


@dataclass(frozen=True)
class SmallTopology(Topology):
    """One machine with all of Ceph, and `beside` machines without. Any of them may have a gateway."""

    beside: int = 1

    @property
    def made(self) -> str:
        return "gateways"

    @property
    def bare(self) -> tuple[Arch, ...]:
        return (host_arch(),) * self.beside


def smallest(stage: Stage) -> None:
    """Pass data in both directions through the serving gateway, switch to the other gateway, and repeat."""
    with standing(stage, BOTH) as stand:
        for gateway in stand.pair.gateways:
            both_ways(stage, stand, f"gateway {gateway.name}")
            stand.pair.hand_over()


SCENARIOS = (
    Scenario(
        name="nvmeof.smallest",
        goal="Data passes unchanged in both directions through either gateway of a pair, with digests on.",
        method="Writes over NVMe and reads with librbd, then the reverse; switches gateways; repeats. Two machines of "
        "the native architecture, a gateway on each: one also has all of Ceph, the other the initiator.",
        run=smallest,
        topology=SmallTopology(native=1, foreign=0),
        needs=frozenset({Capability.FABRICS}),
    ),
)
