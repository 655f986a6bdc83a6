"""Node swap-out: a machine of the other architecture, with new disks, replaces a node that is switched off.

The steps and their order come from the white paper Ceph on Ampere Altra (2023), section 9.1.1.
"""

from dataclasses import replace
from functools import partial

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability, Node, Osd
from cephlab.suites.expected import MON_TERMINATED
from cephlab.suites.interop.recovery import SHORT_LOGS
from cephlab.suites.interop.standing import pool_names
from cephlab.suites.migration import migrate
from cephlab.suites.migration.budget import SWAP
from cephlab.suites.migration.trial import (
    EXPECTED,
    Migration,
    Trial,
    archs_of,
    replace_all,
    replace_last,
    trial,
    without_backfill,
)

PAIRS = PoolKind("replica-2", 2)
NATIVE_3 = Topology(native=3, foreign=0, clients=True, options=SHORT_LOGS)
NATIVE_5 = Topology(native=5, foreign=0, clients=True, options=SHORT_LOGS)
NEEDS = frozenset({Capability.FOREIGN_ARCH})

MOVED = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((MON_DOWN|MON_CLOCK_SKEW|MGR_DOWN)\)": (
        "A monitor or manager left, or has just started and answers its first clock probes late."
    ),
    r"\[WRN\] : (Health detail: HEALTH_WARN|\[WRN\] [A-Z_]+: | +)": (
        "A new leader repeats the health details about the daemons that the scenario moved."
    ),
    **MON_TERMINATED,
}
"""Log lines that a moving monitor or manager causes."""

scenario_of_migration = partial(
    Scenario, check="recorded", tier=Tier.FULL, topology=NATIVE_3, needs=NEEDS, spoils=True, expects=EXPECTED
)
"""Makes a scenario of this suite. Arguments override these defaults."""


def swap_out(running: Migration, old: str, new: Node) -> None:
    """Replace one node by the paper's steps."""
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
        running.recovered(f"{old} to {new.name}")
    note_went_to(running, new)


def note_went_to(running: Migration, new: Node) -> None:
    """Observe that each OSD on the new node serves PGs, and the architecture that it reports, which uname told it."""
    cluster = running.cluster
    numbers = set(migrate.osds_on(cluster, new.name))
    # Without a place in the CRUSH map they would be up and idle, and the other nodes would hold everything.
    idle = sorted(numbers - holders(cluster))
    running.recorder.observe(f"OSDs of {new.name} that serve no PG", got=idle, wanted=[], of=len(numbers))
    archs = {str(entry["arch"]) for entry in cluster.client.mon("osd metadata") if entry["id"] in numbers}
    title = f"architectures that the OSDs of {new.name} report"
    running.recorder.observe(title, got=sorted(archs), wanted=[new.arch.value])


def holders(cluster: Cluster) -> set[int]:
    """The OSDs that serve a PG of any pool."""
    return {osd for pool in pool_names(cluster) for pg in pools.pgs_of(cluster, pool) for osd in pg.acting}


def move_roles(running: Migration, old: str, new: str) -> None:
    """Move a node's monitor and manager to the new node before the old machine leaves."""
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
    """A machine of an architecture with as many new disks as the old one had."""
    names = {disk.name: f"{name}-{disk.name.partition('-')[2]}" for disk in old.disks}
    disks = tuple(replace(disk, name=names[disk.name]) for disk in old.disks)
    osds = tuple(
        Osd(names[osd.block], names[osd.db] if osd.db else None, names[osd.wal] if osd.wal else None)
        for osd in old.osds
    )
    return Node(name, arch, disks, osds)


def swap(running: Trial, old: Node, name: str) -> Node:
    """Swap a node for a machine of the other architecture. Returns that machine."""
    new = successor(old, old.arch.other, name)
    swap_out(running, old.name, new)
    return new


def run_monitor(stage: Stage, kind: PoolKind) -> None:
    """Swap the node that runs the cluster's only monitor and manager. Both move first."""
    old = next(node for node in stage.cluster.spec.nodes if node.mon)
    with trial(stage, kind, procedure=SWAP) as running:
        swap(running, old, "m0")
    for daemon in ("mon", "mgr"):
        archs = archs_of(stage.cluster, daemon)
        stage.recorder.observe(f"architecture of the {daemon}", got=archs, wanted=[old.arch.other.value])


def scenario(topology: Topology, kind: PoolKind, tier: Tier, *, legs: int) -> Scenario:
    source, target = host_arch(), host_arch().other
    back = "; then swaps back in the same way" if legs > 1 else ""
    return scenario_of_migration(
        name=f"migration.swap[nodes={topology.native},from={source},legs={legs},pool={kind.name}]",
        goal=f"A node of {target} with new disks replaces one of {source} while clients wait but see no errors.",
        method=f"Cuts the power of one of {topology.native} nodes under recorded load and fio; removes it and adds "
        f"the new node, as the paper does{back}.",
        run=partial(replace_last, kind=kind, legs=legs, procedure=SWAP, replacement=swap),
        tier=tier,
        topology=topology,
    )


SCENARIOS: tuple[Scenario, ...] = (
    scenario(NATIVE_3, PAIRS, Tier.QUICK, legs=1),
    *(scenario(NATIVE_3, kind, Tier.FULL, legs=2) for kind in (PAIRS, REPLICATED, EC_2_1)),
    *(scenario(NATIVE_5, kind, Tier.FULL, legs=2) for kind in (PAIRS, REPLICATED, EC_2_1)),
    scenario_of_migration(
        name=f"migration.swap-monitor[pool={PAIRS.name}]",
        goal="A new node replaces the one with the only monitor and manager while clients wait but see no errors.",
        method="Adds a monitor and a manager on the new node under load; removes the old ones; follows the paper's "
        "steps.",
        run=partial(run_monitor, kind=PAIRS),
        expects={**EXPECTED, **MOVED},
    ),
    scenario_of_migration(
        name=f"migration.swap-all[pool={REPLICATED.name}]",
        goal="A whole cluster, with its monitor and manager, moves to the other architecture and back.",
        method="Swaps three nodes one by one for nodes with new disks under recorded load and fio; then swaps back.",
        run=partial(replace_all, kind=REPLICATED, procedure=SWAP, replacement=swap),
        expects={**EXPECTED, **MOVED},
    ),
)
