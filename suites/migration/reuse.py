"""Disk reuse: a node's disks, configuration and identity go on in a machine of the other architecture.

The steps, and their order, are those of the white paper Ceph on Ampere Altra (2023), section 9.2.1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability, Node
from cephlab.suites.interop.matrix import other
from cephlab.suites.migration import migrate
from cephlab.suites.migration.paper import REUSE
from cephlab.suites.migration.swap import MOVED, NATIVE_3, NEEDS, PAIRS, note_archs, note_went_to, scenario_of_migration
from cephlab.suites.migration.trial import EXPECTED, SHORT_LOGS, Trial, trial, without_backfill

WITH_DB = replace(NATIVE_3, separate_db=True)
MONS_3 = replace(NATIVE_3, mons=3, options=(*SHORT_LOGS, ("mon_election_timeout", "2"), ("mon_lease", "2")))
"""Elections at the pace of native monitors: the default patience with an emulated one is a minute an outage."""


def reuse(running: Trial, old: Node, name: str) -> Node:
    """The paper's steps for one node; the machine that goes on."""
    cluster = running.cluster
    new = Node(name, other(old.arch))
    with without_backfill(running):
        with running.step(f"stop the services of {old.name}"):
            running.disturb(replaced=old.name)
            migrate.stop_services(cluster, old.name)
        with running.step(f"back up the configuration of {old.name}"):
            saved = migrate.back_up(cluster, old.name)
        with running.step(f"replace {old.name} by {name} ({new.arch}), with its address and name"):
            migrate.power_off(cluster, old.name)
            migrate.take_over(cluster, old, new)
        with running.step(f"move the disks to {name}"):
            moved = migrate.move_disks(cluster, saved, name)
        with running.step(f"restore the configuration on {name}"):
            names = migrate.restore(cluster, saved, name)
        with running.step(f"start the services of {name}"):
            for daemon in names:
                cluster.start(daemon)
            cluster.wait(lambda status: status.all_up and len(status.quorum) == status.mons, what=f"{name} back")
    with running.step(f"recover {name}"):
        running.mended(f"{old.name} to {name}")
    note_went_to(running, new)
    running.recorder.witness(f"disks that went to {name}", got=len(moved), least=len(old.disks))
    return migrate.node_spec(cluster, name)


def run(stage: Stage, kind: PoolKind, legs: int) -> None:
    """The last node's disks go to a machine of the other architecture; with a second leg, back to another."""
    node = [known for known in stage.cluster.spec.nodes if known.osds][-1]
    with trial(stage, kind, procedure=REUSE) as running:
        for leg in range(legs):
            node = reuse(running, node, f"m{leg}")


def run_all(stage: Stage, kind: PoolKind) -> None:
    """Every node, its monitor and manager too, goes on in a machine of the other architecture; then back."""
    cluster = stage.cluster
    with trial(stage, kind, procedure=REUSE) as running:
        for leg in ("there", "back"):
            for node in [known for known in cluster.spec.nodes if known.osds]:
                reuse(running, node, f"{leg}{node.name[-1]}")
            note_archs(stage, leg, other(host_arch()) if leg == "there" else host_arch())


def scenario(topology: Topology, kind: PoolKind, tier: Tier) -> Scenario:
    db = "separate" if topology.separate_db else "none"
    return scenario_of_migration(
        name=f"migration.reuse[db={db},pool={kind.name}]",
        goal="A node's disks go on, with all their data, in a machine of the other architecture, and back again.",
        method="The paper's steps under recorded load and fio: services off, backup, disks over, restored, started.",
        run=partial(run, kind=kind, legs=2),
        tier=tier,
        topology=topology,
        needs=REUSE_NEEDS,
    )


REUSE_NEEDS = NEEDS | {Capability.MOVE_DISK, Capability.TAKE_OVER}

SCENARIOS: tuple[Scenario, ...] = (
    scenario(WITH_DB, PAIRS, Tier.QUICK),
    *(scenario(WITH_DB, kind, Tier.FULL) for kind in (REPLICATED, EC_2_1)),
    *(scenario(NATIVE_3, kind, Tier.FULL) for kind in (PAIRS, REPLICATED, EC_2_1)),
    scenario_of_migration(
        name="migration.reuse-all[pool=replicated]",
        goal="A whole cluster changes its architecture and back while every disk, monitor and identity stays.",
        method="Moves three nodes with a monitor each, one by one, under recorded load and fio; then three back.",
        run=partial(run_all, kind=REPLICATED),
        topology=MONS_3,
        needs=REUSE_NEEDS,
        expects={**EXPECTED, **MOVED},
    ),
)
