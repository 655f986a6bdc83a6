"""Moves a cluster to other machines: replaces nodes, reuses disks, moves monitors and managers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.ceph import disks, keyring
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.keyring import Entity
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.deploy.packages import plan_osd
from cephlab.lab.cluster.own import OwnCluster, add_service, own, remove_service
from cephlab.lab.faults.nodes import switch_off
from cephlab.lab.providers.base import TakesOver
from cephlab.lab.providers.host import Host
from cephlab.lab.services.exporter import EXPORTER
from cephlab.lab.services.mon import MON
from cephlab.lab.services.osd import OSD
from cephlab.lab.services.prometheus import PROMETHEUS
from cephlab.lab.spec.clusterspec import ONLOOKERS, Capability, Node, without_daemons

_TOOL_S = 120.0
_QUORUM_S = 60.0
_LAST = ("mgr", "osd", "mon")
"""The order in which these kinds stop, after all other services. They start in reverse order."""


def daemons_on(cluster: Cluster, node: str) -> list[Daemon]:
    """The daemons of a node that are part of the cluster, in the order in which they stop."""
    daemons = [daemon for daemon in _all_on(cluster, node) if daemon.kind not in ONLOOKERS]
    return sorted(daemons, key=lambda daemon: (daemon.kind in _LAST and _LAST.index(daemon.kind) + 1, daemon.name))


def _all_on(cluster: Cluster, node: str) -> list[Daemon]:
    return [daemon for daemon in cluster.daemons.values() if daemon.host.name == node]


def osds_on(cluster: Cluster, node: str) -> list[int]:
    return sorted(int(daemon.id) for daemon in daemons_on(cluster, node) if daemon.kind == "osd")


def osd_nodes(cluster: Cluster) -> list[Node]:
    return [node for node in cluster.spec.nodes if node.osds]


def node_spec(cluster: Cluster, name: str) -> Node:
    return next(node for node in cluster.spec.nodes if node.name == name)


# Nodes that leave


def power_off(cluster: Cluster, node: str) -> None:
    """Cut a machine's power without a shutdown. LabBroken if the lab's own client runs there."""
    if cluster.client.host.name == node:
        raise LabBroken(f"{node} cannot be switched off", "the lab's own client runs there", "add client machines")
    for daemon in _all_on(cluster, node):
        if daemon.kind in ONLOOKERS:
            remove_service(own(cluster), daemon.name)
    switch_off(cluster, [node])


def look_on(cluster: OwnCluster, node: str) -> None:
    """Start an exporter on a new machine if the cluster has a Prometheus."""
    if any(daemon.kind == PROMETHEUS.kind for daemon in cluster.daemons.values()):
        add_service(cluster, node, EXPORTER.kind)


def remove_node(cluster: OwnCluster, node: str) -> None:
    """Remove a node that is off, and its OSDs, from the cluster. Its monitor and manager must have moved already."""
    client = cluster.client
    for osd in osds_on(cluster, node):
        give_up_osd(cluster, osd)
    client.mon("osd crush rm", name=cluster.deployer.identities.get(node, node))
    left = [daemon.name for daemon in daemons_on(cluster, node)]
    if left:
        raise LabBroken(f"{node} still runs {', '.join(left)}", hint="move them first")
    cluster.respec([known for known in cluster.spec.nodes if known.name != node])
    cluster.save()


def give_up_osd(cluster: OwnCluster, osd: int) -> None:
    """Stop an OSD and remove it from the cluster for good. Its disk keeps its data."""
    name = f"osd.{osd}"
    if cluster.daemon(name).alive():
        cluster.stop(name)
    # The map may not yet show the OSDs of a machine that is off as down.
    cluster.client.mon("osd down", ids=[str(osd)])
    cluster.client.mon("osd purge-actual", id=osd, yes_i_really_mean_it=True)
    cluster.forget_daemon(name)


# Nodes that join


def add_machine(cluster: OwnCluster, node: Node) -> Host:
    """Start a machine with its disks and ceph.conf, without daemons of the cluster."""
    host = cluster.add_node(without_daemons(node))
    look_on(cluster, node.name)
    return host


def add_osds(cluster: OwnCluster, node: Node) -> list[int]:
    """Make and start the OSDs of a machine. Returns their ids. DiskInUse, before it makes any, for a used disk."""
    host = cluster.hosts[node.name]
    for osd in node.osds:
        disks.refuse_used(host, osd.disks, patience=cluster.patience, preload=OSD.preload(host))
    _note_disks(cluster, node)
    return [int(cluster.add_osd(plan_osd(node, osd, cluster.next_osd_id())).id) for osd in node.osds]


def _note_disks(cluster: OwnCluster, node: Node) -> None:
    """Record in the spec that this node has these OSDs and disks, and that no other node has the disks."""
    here = {disk.name for disk in node.disks}
    nodes = []
    for known in cluster.spec.nodes:
        rest = tuple(disk for disk in known.disks if disk.name not in here)
        osds = tuple(osd for osd in known.osds if not here & set(osd.disks))
        if known.name == node.name:
            rest, osds = (*rest, *node.disks), node.osds
        nodes.append(replace(known, disks=rest, osds=osds))
    cluster.respec(nodes)
    cluster.save()


def add_mon(cluster: OwnCluster, node: str) -> None:
    """Start a monitor on a node. It joins the other monitors with their map and key."""
    host, client = cluster.hosts[node], cluster.client
    monmap = client.command("mon", "mon getmap")
    entity = Entity("mon.", str(client.mon("auth get-key", entity="mon.")["key"]), MON.caps)
    cluster.deployer.start_mon(cluster.deployment, node_spec(cluster, node), monmap, {"mon.": entity})
    _wait_quorum(cluster, node, present=True)
    _name_mons(cluster, {**cluster.deployment.mon_addresses, node: host.address})
    _change(cluster, node, lambda known: replace(known, mon=True))


def remove_mon(cluster: OwnCluster, name: str) -> None:
    """Remove a monitor, dead or alive, for good."""
    daemon = cluster.daemon(f"mon.{name}")
    cluster.client.mon("mon rm", name=name)
    if daemon.alive():
        cluster.stop(daemon.name)
    cluster.forget_daemon(daemon.name)
    _wait_quorum(cluster, name, present=False)
    addresses = {mon: address for mon, address in cluster.deployment.mon_addresses.items() if mon != name}
    _name_mons(cluster, addresses)
    _change(cluster, daemon.host.name, lambda known: replace(known, mon=False))


def add_mgr(cluster: OwnCluster, node: str) -> None:
    """Start a manager on a node, and wait until it is active or a standby."""
    daemon = f"mgr.{node}"
    entity = cluster.deployer.new_entity(cluster.deployment, daemon)
    cluster.client.command("mon", "auth import", payload=keyring.render([entity]))
    address = cluster.hosts[node].address
    where = f"mgr/prometheus/{node}/server_addr"
    cluster.client.mon("config set", who="mgr", name=where, value=address, force=True)
    cluster.deployer.start_service(cluster.deployment, node_spec(cluster, node), daemon, {entity.name: entity})
    _wait_mgr(
        cluster,
        lambda dump: node in {dump["active_name"], *(standby["name"] for standby in dump["standbys"])},
        f"mgr.{node} standing by",
    )
    _change(cluster, node, lambda known: replace(known, mgr=True))


def remove_mgr(cluster: OwnCluster, name: str) -> None:
    """Remove a manager, and wait until another one is active."""
    daemon = cluster.daemon(f"mgr.{name}")
    if daemon.alive():
        cluster.stop(daemon.name)
    cluster.client.mon("mgr fail", who=name)
    cluster.client.mon("auth rm", entity=f"mgr.{name}")
    cluster.forget_daemon(daemon.name)
    _change(cluster, daemon.host.name, lambda known: replace(known, mgr=False))
    _wait_mgr(
        cluster, lambda dump: dump["available"] and dump["active_name"] != name, f"a manager other than {name} active"
    )


def _wait_mgr(cluster: Cluster, ready: Callable[[Any], bool], what: str) -> None:
    clock.wait(
        lambda: cluster.client.mon("mgr dump"),
        ready,
        what=what,
        timeout_s=_QUORUM_S * cluster.patience,
        timed_out=clock.not_reached_with(lambda dump: str(dump["active_name"])),
    )


def _wait_quorum(cluster: Cluster, name: str, *, present: bool) -> None:
    clock.wait(
        lambda: list(cluster.client.mon("quorum_status")["quorum_names"]),
        lambda names: (name in names) is present,
        what=f"a quorum {'with' if present else 'without'} mon.{name}",
        timeout_s=_QUORUM_S * cluster.patience,
    )


def _name_mons(cluster: OwnCluster, addresses: dict[str, str]) -> None:
    """Write the monitors' addresses into ceph.conf on every host that is up."""
    cluster.deployment = replace(cluster.deployment, mon_addresses=addresses)
    for node in cluster.spec.nodes:
        if cluster.hosts[node.name].up():
            cluster.deployer.push_conf(cluster.deployment, cluster.hosts[node.name])
    cluster.save()


def _change(cluster: OwnCluster, name: str, change: Callable[[Node], Node]) -> None:
    """Change a node in the spec."""
    cluster.respec([change(node) if node.name == name else node for node in cluster.spec.nodes])
    cluster.save()


# Moving into another machine


@dataclass(frozen=True)
class Backup:
    """A node's backup. daemons: each name with its disks; archive: a tar file of their directories."""

    daemons: tuple[tuple[str, tuple[str, ...]], ...]
    archive: bytes


def stop_services(cluster: Cluster, node: str) -> None:
    """Stop every daemon of a node. LabBroken if one still runs."""
    for daemon in daemons_on(cluster, node):
        cluster.stop(daemon.name)
    left = [daemon.name for daemon in daemons_on(cluster, node) if daemon.alive()]
    if left:
        raise LabBroken(f"services of {node} are still running", ", ".join(left))


def back_up(cluster: Cluster, node: str) -> Backup:
    """Save the directories of a node's stopped daemons. Symbolic links stay links."""
    host = cluster.hosts[node]
    daemons = tuple((daemon.name, daemon.disks) for daemon in daemons_on(cluster, node))
    argv = ["tar", "-C", str(host.directory), "-cf", "-", *(name for name, _ in daemons)]
    return Backup(daemons, host.run(argv, timeout_s=_TOOL_S * cluster.patience).stdout_bytes)


def take_over(cluster: OwnCluster, old: Node, new: Node) -> Host:
    """Start a machine instead of one that is off, with the same address and, for Ceph, the same name.

    new: a node without disks and daemons. Unavailable if the provider cannot do that.
    """
    lab = cluster.lab
    if not isinstance(lab, TakesOver):
        what = f"the {cluster.provider_name} provider has no {Capability.TAKE_OVER}"
        raise Unavailable(what, "a machine cannot take over the address of another", "choose another --lab")
    host = lab.add_node_at(new, cluster.hosts[old.name].address)
    identities = cluster.deployer.identities
    moved = replace(new, disks=old.disks, osds=old.osds, mon=old.mon, mgr=old.mgr)
    cluster.respec([moved if known.name == old.name else known for known in cluster.spec.nodes])
    cluster.deployer = replace(
        cluster.deployer,
        hosts=cluster.hosts,
        shims=cluster.shims_with(host),
        identities={**identities, host.name: identities.get(old.name, old.name)},
    )
    cluster.deployer.prepare_host(cluster.deployment, host)
    cluster.save()
    look_on(cluster, host.name)
    return host


def restore(cluster: OwnCluster, saved: Backup, target: str) -> list[str]:
    """Unpack a backup on another machine and prepare its daemons. Returns their names in the order to start them.

    It checks every disk of an OSD first: CephTrouble from the tool, or LabBroken, if a disk does not belong to the OSD.
    """
    host = cluster.hosts[target]
    argv = ["tar", "-C", str(host.directory), "-xf", "-"]
    host.run(argv, stdin=saved.archive, timeout_s=_TOOL_S * cluster.patience)
    for name, names in saved.daemons:
        daemon = cluster.deployer.daemon(host, name, disks=names)
        if daemon.kind == "osd":
            _require_disks(cluster, daemon)
            cluster.deployer.link_disks(daemon)
        cluster.deployment.daemons[name] = daemon
    cluster.save()
    return [name for name, _ in reversed(saved.daemons)]


def _require_disks(cluster: Cluster, daemon: Daemon) -> None:
    wanted = daemon.host.read(daemon.host.directory / daemon.name / "fsid").decode().strip()
    for disk in daemon.disks:
        label = disks.label_of(daemon.host, disk, patience=cluster.patience, preload=daemon.preload)
        if label is None or label.osd_uuid != wanted:
            carried = "no label" if label is None else str(label)
            raise LabBroken(f"disk {disk} does not belong to {daemon.name}", f"it has {carried}, wanted {wanted}")


def replay_map(cluster: Cluster, osdmap: bytes, host: Host | None = None) -> str:
    """The OSDs of each PG by an OSD map, as osdmaptool prints them. host: for the tool; None for the client's host."""
    host = host or cluster.client.host
    path = host.directory / "osdmap"
    host.push(osdmap, path)
    argv = ["osdmaptool", str(path), "--test-map-pgs-dump"]
    return run_tool(host, argv, timeout_s=_TOOL_S * cluster.patience).stdout
