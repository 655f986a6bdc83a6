"""Node swap-out: a machine is switched off and another of the other architecture, with new disks, takes its part.

The steps, and their order, are those of the white paper Ceph on Ampere Altra (2023), section 9.1.1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability, Node, Osd
from cephlab.suites.expected import MON_TERMINATED
from cephlab.suites.interop.matrix import other
from cephlab.suites.migration import migrate
from cephlab.suites.migration.paper import SWAP
from cephlab.suites.migration.trial import EXPECTED, SHORT_LOGS, Trial, trial, without_backfill

PAIRS = PoolKind("replica-2", 2)
NATIVE_3 = Topology(native=3, foreign=0, clients=True, options=SHORT_LOGS)
NATIVE_5 = Topology(native=5, foreign=0, clients=True, options=SHORT_LOGS)
NEEDS = frozenset({Capability.FOREIGN_ARCH})

MOVED = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((MON_DOWN|MON_CLOCK_SKEW|MGR_DOWN)\)": (
        "A monitor or manager left, or has just started and answers its first clock probes late."
    ),
    r"\[WRN\] : (Health detail: HEALTH_WARN|\[WRN\] [A-Z_]+: | +)": (
        "A new leader repeats the health details: what the scenario moved."
    ),
    **MON_TERMINATED,
}
"""What a monitor or manager that moves says."""

scenario_of_migration = partial(
    Scenario, check="recorded", tier=Tier.FULL, topology=NATIVE_3, needs=NEEDS, spoils=True, expects=EXPECTED
)
"""Makes a scenario of this suite. What it says itself comes before these values."""


def swap_out(running: Trial, old: str, new: Node) -> None:
    """The paper's steps for one node."""
    cluster = running.cluster
    with running.step(f"prepare {new.name} ({new.arch})"):
        migrate.add_machine(cluster, new)
    move_roles(running, old, new.name)
    with without_backfill(running):
        with running.step(f"switch {old} off"):
            running.disturb(replaced=old)
            migrate.power_off(cluster, old)
        with running.step(f"remove {old} from the cluster"):
            migrate.remove_node(cluster, old)
        with running.step(f"add {new.name}"):
            migrate.add_osds(cluster, new)
            cluster.wait(lambda status: status.all_up, what=f"the OSDs of {new.name} up")
    with running.step(f"redistribute to {new.name}"):
        running.mended(f"{old} to {new.name}")
    note_went_to(running, new)


def note_went_to(running: Trial, new: Node) -> None:
    """Observe which architecture the OSDs of a replaced node run on, by their own word, which is uname's."""
    cluster = running.cluster
    numbers = set(migrate.osds_on(cluster, new.name))
    archs = {str(entry["arch"]) for entry in cluster.client.mon("osd metadata") if entry["id"] in numbers}
    what = f"architectures that the OSDs of {new.name} report"
    running.recorder.observe(what, got=sorted(archs), wanted=[new.arch.value])


def move_roles(running: Trial, old: str, new: str) -> None:
    """A monitor and a manager go before their machine does."""
    cluster = running.cluster
    spec = migrate.node_spec(cluster, old)
    if spec.mon:
        with running.step(f"move the monitor of {old} to {new}"):
            migrate.add_mon(cluster, new)
            migrate.remove_mon(cluster, old)
    if spec.mgr:
        with running.step(f"move the manager of {old} to {new}"):
            migrate.add_mgr(cluster, new)
            migrate.remove_mgr(cluster, old)


def successor(old: Node, arch: Arch, name: str) -> Node:
    """A machine of another architecture with as many new disks as the old one had."""
    names = {disk.name: f"{name}-{disk.name.partition('-')[2]}" for disk in old.disks}
    disks = tuple(replace(disk, name=names[disk.name]) for disk in old.disks)
    osds = tuple(
        Osd(names[osd.block], names[osd.db] if osd.db else None, names[osd.wal] if osd.wal else None)
        for osd in old.osds
    )
    return Node(name, arch, disks, osds)


def run(stage: Stage, kind: PoolKind, legs: int) -> None:
    """Swap the last node for one of the other architecture; with a second leg, that one back again."""
    cluster = stage.cluster
    old = [node for node in cluster.spec.nodes if node.osds][-1]
    with trial(stage, kind, procedure=SWAP) as running:
        for leg in range(legs):
            new = successor(old, other(old.arch), f"m{leg}")
            swap_out(running, old.name, new)
            old = new


def run_monitor(stage: Stage, kind: PoolKind) -> None:
    """Swap the node that has the cluster's only monitor and manager, which move first."""
    cluster = stage.cluster
    old = next(node for node in cluster.spec.nodes if node.mon)
    with trial(stage, kind, procedure=SWAP) as running:
        swap_out(running, old.name, successor(old, other(old.arch), "m0"))
    for entry in ("mon", "mgr"):
        archs = {str(known["arch"]) for known in cluster.client.mon(f"{entry} metadata")}
        stage.recorder.observe(f"architecture of the {entry}", got=sorted(archs), wanted=[other(old.arch).value])


def run_all(stage: Stage, kind: PoolKind) -> None:
    """Swap every node, one by one, until the cluster is of the other architecture; then every node back."""
    cluster = stage.cluster
    with trial(stage, kind, procedure=SWAP) as running:
        for leg in ("there", "back"):
            for old in [node for node in cluster.spec.nodes if node.osds]:
                swap_out(running, old.name, successor(old, other(old.arch), f"{leg}{old.name[-1]}"))
            note_archs(stage, leg, other(host_arch()) if leg == "there" else host_arch())


def note_archs(stage: Stage, when: str, wanted: Arch) -> None:
    """Observe that every daemon runs on one architecture, by Ceph's own word."""
    cluster = stage.cluster
    for kind in ("mon", "mgr", "osd"):
        archs = {entry["arch"] for entry in cluster.client.mon(f"{kind} metadata")}
        stage.recorder.observe(f"architectures of every {kind}, {when}", got=sorted(archs), wanted=[wanted.value])


def scenario(topology: Topology, kind: PoolKind, tier: Tier, *, legs: int) -> Scenario:
    nodes = topology.native + topology.foreign
    source, target = (host_arch(), other(host_arch())) if topology.native else (other(host_arch()), host_arch())
    back = " and then the other way" if legs > 1 else ""
    return scenario_of_migration(
        name=f"migration.swap[nodes={nodes},from={source},legs={legs},pool={kind.name}]",
        goal=f"A node of {source} is replaced by one of {target} with new disks, and clients only have to wait.",
        method=f"The paper's steps on {nodes} nodes under recorded load and fio: off without grace, out, in{back}.",
        run=partial(run, kind=kind, legs=legs),
        tier=tier,
        topology=topology,
    )


SCENARIOS: tuple[Scenario, ...] = (
    scenario(NATIVE_3, PAIRS, Tier.QUICK, legs=1),
    *(scenario(NATIVE_3, kind, Tier.FULL, legs=2) for kind in (PAIRS, REPLICATED, EC_2_1)),
    *(scenario(NATIVE_5, kind, Tier.FULL, legs=2) for kind in (PAIRS, REPLICATED, EC_2_1)),
    scenario_of_migration(
        name=f"migration.swap-monitor[pool={PAIRS.name}]",
        goal="The node with the only monitor and manager is replaced, and clients only have to wait.",
        method="Adds a monitor and a manager on the new node, removes the old ones, then follows the paper's steps.",
        run=partial(run_monitor, kind=PAIRS),
        expects={**EXPECTED, **MOVED},
    ),
    scenario_of_migration(
        name=f"migration.swap-all[pool={REPLICATED.name}]",
        goal="A whole cluster, monitor and manager too, becomes one of the other architecture, and one of this again.",
        method="Swaps three nodes one by one under recorded load and fio, each with new disks; then three back.",
        run=partial(run_all, kind=REPLICATED),
        expects={**EXPECTED, **MOVED},
    ),
)
