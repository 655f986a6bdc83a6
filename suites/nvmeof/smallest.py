"""The smallest NVMe-oF test: machines of one architecture, data through both gateways."""

from dataclasses import dataclass

from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.nvmeof.content import both_ways
from cephlab.suites.nvmeof.stand import GatewayTopology, standing

BOTH = ("c1", "c0")
"""Nodes of the gateways. The second also has the initiator, which saves booting a machine."""


@dataclass(frozen=True)
class SmallTopology(GatewayTopology):
    """One machine with all of Ceph, and `beside` machines for gateways and initiators."""

    beside: int = 2

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
        method="Writes over NVMe and reads with librbd, then the reverse; switches gateways; repeats. Three machines "
        "of this architecture: one has all of Ceph, one a gateway, and one the other gateway and the initiator.",
        run=smallest,
        topology=SmallTopology(native=1, foreign=0),
        needs=frozenset({Capability.FABRICS}),
    ),
)
