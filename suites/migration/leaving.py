"""Two kinds of leaving nodes that the paper did not try: drained first, or lost for good."""

from dataclasses import replace
from functools import partial

from cephlab.lab.cluster.own import own
from cephlab.lab.cluster.pools import EC_2_1, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.interop.recovery import SHORT_LOGS
from cephlab.suites.migration import migrate
from cephlab.suites.migration.swap import (
    NATIVE_3,
    NATIVE_5,
    PAIRS,
    holders,
    move_roles,
    note_went_to,
    scenario_of_migration,
    successor,
)
from cephlab.suites.migration.trial import trial


def drain(stage: Stage, kind: PoolKind) -> None:
    """Add a new node, drain the old one while it runs, and remove it when it serves no PG."""
    cluster = own(stage.cluster)
    old = migrate.osd_nodes(cluster)[-1]
    new = successor(old, old.arch.other, "m0")
    with trial(stage, kind) as running:
        with running.step(f"add {new.name} ({new.arch})"):
            running.disturb()
            migrate.add_machine(cluster, new)
            move_roles(running, old.name, new.name)
            migrate.add_osds(cluster, new)
            cluster.wait(lambda status: status.all_up, what=f"the OSDs of {new.name} up")
        with running.step(f"drain {old.name}"):
            leaving = migrate.osds_on(cluster, old.name)
            cluster.client.mon("osd out", ids=[str(osd) for osd in leaving])
            running.recovered(f"{old.name} drained")
        note_went_to(running, new)
        serving = holders(cluster)
        still = sorted(serving & set(leaving))
        stage.recorder.observe("drained OSDs that still serve a PG", got=still, wanted=[], of=len(serving))
        with running.step(f"remove {old.name}"):
            running.disturb()
            migrate.stop_services(cluster, old.name)
            migrate.power_off(cluster, old.name)
            migrate.remove_node(cluster, old.name)
            running.recovered(f"{old.name} removed")


def lose(stage: Stage, kind: PoolKind) -> None:
    """Lose a node for good. The remaining nodes rebuild its data."""
    cluster = own(stage.cluster)
    old = migrate.osd_nodes(cluster)[-1]
    with trial(stage, kind) as running:
        with running.step(f"switch {old.name} off"):
            running.disturb()
            migrate.power_off(cluster, old.name)
        with running.step(f"give {old.name} up"):
            migrate.remove_node(cluster, old.name)
        with running.step("recover on the rest"):
            running.recovered(f"{old.name} lost")


FEWER_LEFT = replace(
    NATIVE_3, options=(*SHORT_LOGS, ("mon_warn_on_too_few_osds", "false"), ("osd_pool_default_size", "2"))
)
"""For two remaining nodes. Ceph's own pool has three copies by default, and could never be clean on two nodes."""

SCENARIOS: tuple[Scenario, ...] = (
    *(
        scenario_of_migration(
            name=f"migration.drain[nodes=3,pool={kind.name}]",
            goal=f"A node of {host_arch()} leaves without lost data after its data has moved to one of "
            f"{host_arch().other}.",
            method="Adds a node under load, marks the old OSDs out, waits until they serve no PG, and removes them.",
            run=partial(drain, kind=kind),
        )
        for kind in (PAIRS, EC_2_1)
    ),
    *(
        scenario_of_migration(
            name=f"migration.loss[nodes={topology.native},pool={kind.name}]",
            goal="When a node is lost for good, the remaining nodes restore every copy without lost data.",
            method="Switches a node off under recorded load and fio, removes it, and waits until the rest is healthy; "
            "nothing replaces it.",
            run=partial(lose, kind=kind),
            topology=topology,
        )
        for topology, kind in ((FEWER_LEFT, PAIRS), (NATIVE_5, EC_2_1))
    ),
)
