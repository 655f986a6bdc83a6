"""Disk reuse: a machine of the other architecture takes over a node's disks, configuration and identity.

The steps and their order come from the white paper Ceph on Ampere Altra (2023), section 9.2.1.
"""

from dataclasses import replace
from functools import partial

from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import Capability, Node
from cephlab.suites.interop.recovery import SHORT_LOGS
from cephlab.suites.migration import migrate
from cephlab.suites.migration.budget import REUSE
from cephlab.suites.migration.swap import MOVED, NATIVE_3, NEEDS, PAIRS, note_went_to, scenario_of_migration
from cephlab.suites.migration.trial import (
    EXPECTED,
    Trial,
    replace_all,
    replace_last,
    without_backfill,
)

WITH_DB = replace(NATIVE_3, separate_db=True)
MONS_3 = replace(NATIVE_3, mons=3, options=(*SHORT_LOGS, ("mon_election_timeout", "2"), ("mon_lease", "2")))
"""Elections at the pace of native monitors. With the defaults an emulated monitor takes a minute per outage."""


def reuse(running: Trial, old: Node, name: str) -> Node:
    """Move one node's disks by the paper's steps. Returns the machine that took over."""
    cluster = running.cluster
    new, moved = Node(name, old.arch.other), set(migrate.osds_on(cluster, old.name))
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
            for disk in old.disks:
                cluster.lab.move_disk(disk.name, name)
        with running.step(f"restore the configuration on {name}"):
            names = migrate.restore(cluster, saved, name)
        with running.step(f"start the services of {name}"):
            for daemon in names:
                cluster.start(daemon)
            cluster.wait(lambda status: status.all_up and len(status.quorum) == status.mons, what=f"{name} back")
    with running.step(f"recover {name}"):
        running.recovered(f"{old.name} to {name}")
    note_went_to(running, new)
    # An OSD registers with the architecture of the machine that it runs on, and only its own store has its identity.
    metadata = cluster.client.mon("osd metadata")
    here = [entry for entry in metadata if entry["id"] in moved and entry["arch"] == new.arch.value]
    running.recorder.witness(f"OSDs that serve from {name} with their old identity", got=len(here), least=len(moved))
    return migrate.node_spec(cluster, name)


def scenario(topology: Topology, kind: PoolKind, tier: Tier) -> Scenario:
    db = "separate" if topology.separate_db else "none"
    return scenario_of_migration(
        name=f"migration.reuse[db={db},pool={kind.name}]",
        goal="A node's disks move with all their data to a machine of the other architecture, and back.",
        method="Stops a node's services under recorded load and fio, backs up its configuration, moves its disks to "
        "the new machine, restores the configuration, starts the services; then moves everything back.",
        run=partial(replace_last, kind=kind, legs=2, procedure=REUSE, replacement=reuse),
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
        goal="A whole cluster moves to the other architecture and back and keeps every disk, monitor and identity.",
        method="Moves three nodes, each with a monitor, one by one under recorded load and fio; then moves them back.",
        run=partial(replace_all, kind=REPLICATED, procedure=REUSE, replacement=reuse),
        topology=MONS_3,
        needs=REUSE_NEEDS,
        expects={**EXPECTED, **MOVED},
    ),
)
