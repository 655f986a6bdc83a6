"""Ceph's SPDK gateways, if an attached cluster has a pair: the same scenarios as with the kernel's NVMe target.

Ceph's monitors fail them over and fence them, so that these scenarios wait for a failover and do not perform it.
"""

from functools import partial

from cephlab.lab.blockstack.initiator import Initiator
from cephlab.lab.blockstack.nvmeof import host_nqn, secret_of
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.nvmeof.access import SECRET_BYTES, refused_by_both
from cephlab.suites.nvmeof.failover import failed_over
from cephlab.suites.nvmeof.faults import CutOff
from cephlab.suites.nvmeof.namespaces import come_grow_go
from cephlab.suites.nvmeof.smallest import smallest
from cephlab.suites.nvmeof.stand import from_first, initiator_on, served

scenario_on_spdk = partial(
    Scenario, topology=Topology(native=1, foreign=0), needs=frozenset({Capability.SPDK_GATEWAYS}), check="witnessed"
)


def refused(stage: Stage) -> None:
    """Connect to both gateways with an unlisted NQN, without a secret and with a wrong one; then correctly."""
    recorder, cluster = stage.recorder, stage.cluster
    node = initiator_on(cluster)
    right, wrong = (secret_of(stage.rng.randbytes(SECRET_BYTES)) for _ in range(2))
    with served(stage, from_first(host_arch()), secrets={host_nqn(node): right}) as pair:
        askers = {
            "with a name not on the list": Initiator(cluster, node, known_as=host_nqn("stranger"), secret=right),
            "without a secret": Initiator(cluster, node),
            "with a wrong secret": Initiator(cluster, node, secret=wrong),
        }
        for what, asking in askers.items():
            refused_by_both(stage, pair, asking, what)
        known = Initiator(cluster, node, secret=right)
        try:
            known.connect(pair.volume, pair.gateways)
            live = [path for path in known.look(pair.volume)[1] if path.state == "live"]
            recorder.witness("live paths of a listed host with its secret", got=len(live), least=2)
        finally:
            known.disconnect(pair.volume)


SCENARIOS = (
    scenario_on_spdk(
        name="nvmeof.spdk-content",
        goal="Data passes unchanged in both directions through either of two SPDK gateways, with digests on.",
        method="Writes over NVMe and reads with librbd, then the reverse; moves the namespace to the ANA group of the "
        "other gateway; repeats.",
        run=smallest,
        check="observations",
    ),
    scenario_on_spdk(
        name="nvmeof.spdk-access",
        goal="SPDK gateways refuse a host that is not on the list or lacks the right secret, and it sees nothing.",
        method="Connects with an unlisted NQN, without a DH-HMAC-CHAP secret, with a wrong one, then with the right.",
        run=refused,
        sees=("gateways that accept a host .*", "device and paths of the volume .*"),
    ),
    scenario_on_spdk(
        name="nvmeof.spdk-namespaces",
        goal="A namespace of SPDK gateways can be added, grown and removed under load: others are unaffected.",
        method="As nvmeof.namespaces, through the gRPC API of the gateways.",
        run=come_grow_go,
        check="recorded",
        tier=Tier.FULL,
        sees=("read by librbd: .*", "read over NVMe: .*"),
    ),
    scenario_on_spdk(
        name="nvmeof.spdk-failover",
        goal="When an SPDK gateway is cut off under load the other takes over: nothing is lost, and no error is seen.",
        method="Cuts the gateway's machine off from OSDs, monitors and initiator; waits until Ceph's monitors have the "
        "other serve; reconnects the machine, and waits until it has its ANA group again.",
        run=partial(failed_over, fault=CutOff(), first=host_arch()),
        check="recorded",
        tier=Tier.FULL,
        sees=("blocklisted Ceph clients of .*",),
    ),
)
