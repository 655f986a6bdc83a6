"""Ceph's own gateways over SPDK, where an attached cluster has a pair: the same scenarios as with the kernel's target.

Their monitors turn and fence them, so that a failover is something to wait for, and not something to do.
"""

from functools import partial

from cephlab.lab.blockstack.initiator import Initiator
from cephlab.lab.blockstack.nvmeof import host_nqn, secret_of
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.nvmeof.access import SECRET_BYTES
from cephlab.suites.nvmeof.failover import failed_over
from cephlab.suites.nvmeof.faults import CutOff
from cephlab.suites.nvmeof.namespaces import come_grow_go
from cephlab.suites.nvmeof.smallest import smallest
from cephlab.suites.nvmeof.stand import from_first, initiator_on, served

scenario_on_spdk = partial(
    Scenario, topology=Topology(native=1, foreign=0), needs=frozenset({Capability.SPDK_GATEWAYS}), check="witnessed"
)


def refused(stage: Stage) -> None:
    """Ask both gateways by a name that is not on the list, without a secret and with a wrong one; then as wanted."""
    recorder, cluster = stage.recorder, stage.cluster
    node = initiator_on(cluster)
    right, wrong = (secret_of(stage.rng.randbytes(SECRET_BYTES)) for _ in range(2))
    with served(stage, from_first(host_arch()), secrets={host_nqn(node): right}) as pair:
        askers = {
            "by a name that is not on the list": Initiator(cluster, node, known_as=host_nqn("stranger"), secret=right),
            "without a secret": Initiator(cluster, node),
            "with a wrong secret": Initiator(cluster, node, secret=wrong),
        }
        for what, asking in askers.items():
            let_in = [gateway.name for gateway in pair.gateways if not asking.refused(pair.volume, gateway)]
            recorder.observe(f"gateways that let one in {what}", got=let_in, wanted=[], of=len(pair.gateways))
            device, paths = asking.look(pair.volume)
            recorder.observe(f"what a machine has of the volume {what}", got=[device, *paths], wanted=[""])
        known = Initiator(cluster, node, secret=right)
        try:
            known.connect(pair.volume, pair.gateways)
            live = [path for path in known.look(pair.volume)[1] if path.state == "live"]
            recorder.witness("ways of one that is on the list, with its secret", got=len(live), least=2)
        finally:
            known.disconnect(pair.volume)


SCENARIOS = (
    scenario_on_spdk(
        name="nvmeof.spdk-content",
        goal="Data passes through either of two gateways over SPDK unchanged, both ways, with digests on the wire.",
        method="Writes over NVMe and reads by librbd, and the other way around; puts the namespace into the other's "
        "ANA group; again.",
        run=smallest,
    ),
    scenario_on_spdk(
        name="nvmeof.spdk-access",
        goal="Gateways over SPDK refuse a host that is not on the list or cannot prove its name, which sees nothing.",
        method="Connects by another name, without a secret, with a wrong one (DH-HMAC-CHAP), then with the right one.",
        run=refused,
        sees=("gateways that let one in .*", "what a machine has of the volume .*"),
    ),
    scenario_on_spdk(
        name="nvmeof.spdk-namespaces",
        goal="A namespace of gateways over SPDK is added, grows and is removed under load: others see nothing of it.",
        method="As nvmeof.namespaces, by the gateways' gRPC API.",
        run=come_grow_go,
        check="recorded",
        tier=Tier.FULL,
        sees=("read by librbd: .*", "read over NVMe: .*"),
    ),
    scenario_on_spdk(
        name="nvmeof.spdk-failover",
        goal="A gateway over SPDK that is cut off under load is replaced by its twin: nothing is lost, no error seen.",
        method="Cuts the gateway's machine off from OSDs, monitors and initiator; waits for Ceph's monitors to have "
        "its twin serve; ends it, and waits until it has its ANA group again.",
        run=partial(failed_over, fault=CutOff(), first=host_arch()),
        check="recorded",
        tier=Tier.FULL,
        sees=("Ceph clients of .* that Ceph refuses",),
    ),
)
