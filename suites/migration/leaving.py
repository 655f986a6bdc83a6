"""Nodes that leave in other ways than the paper's: drained first, or lost without return."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.own import own
from cephlab.lab.cluster.pools import EC_2_1, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.interop.matrix import other
from cephlab.suites.migration import migrate
from cephlab.suites.migration.swap import (
    NATIVE_3,
    NATIVE_5,
    PAIRS,
    move_roles,
    note_went_to,
    scenario_of_migration,
    successor,
)
from cephlab.suites.migration.trial import LIVE, SHORT_LOGS, STILL, trial


def drain(stage: Stage, kind: PoolKind) -> None:
    """A new node comes, the old one is emptied while it runs, and leaves when nothing depends on it."""
    cluster = own(stage.cluster)
    old = [node for node in cluster.spec.nodes if node.osds][-1]
    new = successor(old, other(old.arch), "m0")
    with trial(stage, kind) as running:
        with running.step(f"add {new.name} ({new.arch})"):
            running.disturb()
            migrate.add_machine(cluster, new)
            move_roles(running, old.name, new.name)
            migrate.add_osds(cluster, new)
            cluster.wait(lambda status: status.all_up, what=f"the OSDs of {new.name} up")
        with running.step(f"drain {old.name}"):
            leaving = migrate.osds_on(cluster, old.name)
            migrate.out(cluster, leaving)
            running.mended(f"{old.name} drained")
        note_went_to(running, new)
        holders = {osd for pool in (STILL, LIVE) for pg in pools.pgs_of(cluster, pool) for osd in pg.acting}
        still = sorted(holders & set(leaving))
        stage.recorder.observe("drained OSDs that still serve a PG", got=still, wanted=[], of=len(holders))
        with running.step(f"remove {old.name}"):
            running.disturb()
            migrate.stop_services(cluster, old.name)
            migrate.power_off(cluster, old.name)
            migrate.remove_node(cluster, old.name)
            running.mended(f"{old.name} removed")


def lose(stage: Stage, kind: PoolKind) -> None:
    """A node is gone for good; what it held is made anew on those that are left."""
    cluster = own(stage.cluster)
    old = [node for node in cluster.spec.nodes if node.osds][-1]
    with trial(stage, kind) as running:
        with running.step(f"switch {old.name} off"):
            running.disturb()
            migrate.power_off(cluster, old.name)
        with running.step(f"give {old.name} up"):
            migrate.remove_node(cluster, old.name)
        with running.step("recover on the rest"):
            running.mended(f"{old.name} lost")


def scenario(topic: str, topology: Topology, kind: PoolKind) -> Scenario:
    drains = topic == "drain"
    return scenario_of_migration(
        name=f"migration.{topic}[nodes={topology.native},pool={kind.name}]",
        goal=(
            f"A node of {host_arch()} is emptied onto one of {other(host_arch())} before it goes."
            if drains
            else "A node is lost without return, and the others make up for it."
        ),
        method=(
            "Adds a node, marks the old OSDs out, waits until they hold nothing, removes them; under load."
            if drains
            else "Switches a node off and removes it, under recorded load and fio; nothing replaces it."
        ),
        run=partial(drain if drains else lose, kind=kind),
        topology=topology,
    )


FEWER_LEFT = replace(
    NATIVE_3, options=(*SHORT_LOGS, ("mon_warn_on_too_few_osds", "false"), ("osd_pool_default_size", "2"))
)
"""Two nodes are left: Ceph's own pool, of three copies by default, could never be clean on them."""

SCENARIOS: tuple[Scenario, ...] = (
    scenario("drain", NATIVE_3, PAIRS),
    scenario("drain", NATIVE_3, EC_2_1),
    scenario("loss", FEWER_LEFT, PAIRS),
    scenario("loss", NATIVE_5, EC_2_1),
)
