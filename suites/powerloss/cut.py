"""All machines lose power while clients write: stores are clean, and acknowledged writes survive."""

from dataclasses import replace
from functools import partial

from cephlab.lab.ceph.disks import fsck
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.faults import aimed
from cephlab.lab.faults.power import PowerCut
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.resilience.trial import EXPECTED, THREE, Data, again_and_again

ROUNDS = {Tier.QUICK: 1, Tier.FULL: 5}
BEFORE_S = (0.5, 4.0)

MIXED_DB = replace(THREE, separate_db=True)
ALIKE = replace(THREE, native=3, foreign=0)
"""Machines of one architecture, for providers that have no other, such as LXD's virtual machines."""


def cut(stage: Stage, kind: PoolKind) -> None:
    """Cut the power of all machines with daemons, several times; check the stores before any daemon starts."""
    cluster = stage.cluster
    power = aimed(PowerCut, cluster, stage.rng)

    def look() -> None:
        power.switch_on(cluster)
        check_stores(stage, cluster)

    again_and_again(stage, power, ROUNDS[stage.tier], Data(kind), before_s=BEFORE_S, meanwhile=look)


def check_stores(stage: Stage, cluster: Cluster) -> None:
    """Observe that every store is clean: the disks are as they were when the power went."""
    for osd in cluster.osd_ids():
        checked = fsck(cluster.daemon(f"osd.{osd}"), deep=True, patience=cluster.patience)
        what = f"fsck of {checked.osd} after the power was cut"
        stage.recorder.observe(what, got=checked.clean or checked.output, wanted=True)


def scenario(pool: str, kind: PoolKind, machines: str, topology: Topology, tier: Tier = Tier.FULL) -> Scenario:
    return Scenario(
        name=f"powerloss.cut[pool={pool},{machines}]",
        goal="When all machines lose power under load, stores are clean and no acknowledged write is lost.",
        method="Kills all guests with daemons at once under a recorded load; fsck of each store; starts; reads back.",
        run=partial(cut, kind=kind),
        sees=("fsck of .* after the power was cut",),
        check="recorded",
        tier=tier,
        topology=topology,
        needs=frozenset({Capability.POWER_CUT}),
        expects=EXPECTED,
    )


SCENARIOS = (
    scenario("replicated", REPLICATED, "store=one-disk", THREE, Tier.QUICK),
    scenario("replicated", REPLICATED, "nodes=alike", ALIKE),
    scenario("replicated", REPLICATED, "store=separate-db", MIXED_DB),
    scenario("ec21", EC_2_1, "store=one-disk", THREE),
    scenario("ec21", EC_2_1, "store=separate-db", MIXED_DB),
)
