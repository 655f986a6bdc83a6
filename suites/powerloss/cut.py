"""The power of all machines cut while clients write: stores open clean, and what was acknowledged is there."""

from __future__ import annotations

from functools import partial

from lab.ceph.fsck import fsck
from lab.cluster import Cluster
from lab.errors import LabBroken
from lab.faults import layout_of
from lab.faults.power import PowerCut
from lab.pools import EC_2_1, REPLICATED, PoolKind
from lab.scenario import Scenario, Stage, Tier, Topology
from lab.spec import Capability
from suites.resilience.trial import (
    EXPECTED,
    again_and_again,
)

ROUNDS = {Tier.QUICK: 1, Tier.FULL: 5}
BEFORE_S = (0.5, 4.0)

STORES = {
    "one-disk": Topology(native=3, foreign=0, mons=3, lone_client=True),
    "separate-db": Topology(native=3, foreign=0, mons=3, lone_client=True, separate_db=True),
}


def cut(stage: Stage, kind: PoolKind) -> None:
    """Rounds in which all machines with daemons lose their power, and stores are checked before any daemon starts."""
    cluster = stage.cluster
    power = PowerCut.aim(layout_of(cluster), stage.rng)
    if power is None:
        raise LabBroken("no machine has a daemon", f"layout: {layout_of(cluster).nodes}")

    def look() -> None:
        power.switch_on(cluster)
        check_stores(stage, cluster)

    again_and_again(stage, power, ROUNDS[stage.tier], before_s=BEFORE_S, meanwhile=look, kind=kind)


def check_stores(stage: Stage, cluster: Cluster) -> None:
    """What is on the disks now is what was there when the power went."""
    for osd in cluster.osd_ids():
        found = fsck(cluster.daemon(f"osd.{osd}"), deep=True, patience=cluster.patience)
        stage.recorder.observe(
            f"fsck of {found.osd} after the power was cut", got=found.clean or found.said, wanted=True
        )


def scenario(pool: str, kind: PoolKind, store: str, tier: Tier) -> Scenario:
    return Scenario(
        name=f"powerloss.cut[pool={pool},store={store}]",
        goal="When all machines lose their power under load, stores are clean and no acknowledged write is lost.",
        method="Ends every guest with daemons at once under a recorded load; fsck of each store; start; read back.",
        run=partial(cut, kind=kind),
        check="recorded",
        tier=tier,
        topology=STORES[store],
        needs=frozenset({Capability.POWER_CUT}),
        expects=EXPECTED,
    )


SCENARIOS: tuple[Scenario, ...] = (
    scenario("replicated", REPLICATED, "one-disk", Tier.QUICK),
    scenario("replicated", REPLICATED, "separate-db", Tier.FULL),
    scenario("ec21", EC_2_1, "one-disk", Tier.FULL),
    scenario("ec21", EC_2_1, "separate-db", Tier.FULL),
)
