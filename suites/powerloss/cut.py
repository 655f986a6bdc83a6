"""The power of all machines cut while clients write: stores open clean, and what was acknowledged is there."""

from __future__ import annotations

from functools import partial

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.fsck import fsck
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.faults import layout_of
from cephlab.lab.faults.power import PowerCut
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.resilience.trial import EXPECTED, Data, again_and_again

ROUNDS = {Tier.QUICK: 1, Tier.FULL: 5}
BEFORE_S = (0.5, 4.0)

MACHINES = {
    "store=one-disk": Topology(native=3, foreign=0, mons=3, lone_client=True),
    "store=separate-db": Topology(native=3, foreign=0, mons=3, lone_client=True, separate_db=True),
    "nodes=mixed": Topology(native=2, foreign=1, mons=3, lone_client=True),
}
"""The last one with a machine of the other architecture, which is emulated where this one has no KVM for it."""


def cut(stage: Stage, kind: PoolKind) -> None:
    """Rounds in which all machines with daemons lose their power, and stores are checked before any daemon starts."""
    cluster = stage.cluster
    power = PowerCut.aim(layout_of(cluster), stage.rng)
    if power is None:
        raise LabBroken("no machine has a daemon", f"layout: {layout_of(cluster).nodes}")

    def look() -> None:
        power.switch_on(cluster)
        check_stores(stage, cluster)

    again_and_again(stage, power, ROUNDS[stage.tier], Data(kind), before_s=BEFORE_S, meanwhile=look)


def check_stores(stage: Stage, cluster: Cluster) -> None:
    """What is on the disks now is what was there when the power went."""
    for osd in cluster.osd_ids():
        checked = fsck(cluster.daemon(f"osd.{osd}"), deep=True, patience=cluster.patience)
        stage.recorder.observe(
            f"fsck of {checked.osd} after the power was cut", got=checked.clean or checked.said, wanted=True
        )


def scenario(pool: str, kind: PoolKind, machines: str, tier: Tier) -> Scenario:
    return Scenario(
        name=f"powerloss.cut[pool={pool},{machines}]",
        goal="When all machines lose their power under load, stores are clean and no acknowledged write is lost.",
        method="Ends every guest with daemons at once under a recorded load; fsck of each store; start; read back.",
        run=partial(cut, kind=kind),
        check="recorded",
        tier=tier,
        topology=MACHINES[machines],
        needs=frozenset({Capability.POWER_CUT}),
        expects=EXPECTED,
    )


SCENARIOS: tuple[Scenario, ...] = (
    scenario("replicated", REPLICATED, "store=one-disk", Tier.QUICK),
    scenario("replicated", REPLICATED, "store=separate-db", Tier.FULL),
    scenario("ec21", EC_2_1, "store=one-disk", Tier.FULL),
    scenario("ec21", EC_2_1, "store=separate-db", Tier.FULL),
    scenario("replicated", REPLICATED, "nodes=mixed", Tier.FULL),
)
