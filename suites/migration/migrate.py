"""Moving a cluster to other machines: nodes switched off and replaced, disks reused, monitors and managers moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.ceph import disks, keyring
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.keyring import Entity
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.deploy.packages import plan_osd
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.faults.nodes import switch_off
from cephlab.lab.providers.base import TakesOver
from cephlab.lab.providers.host import Host
from cephlab.lab.services.mon import MON
from cephlab.lab.services.osd import OSD
from cephlab.lab.spec.clusterspec import Capability, Node, without_daemons

_TOOL_S = 120.0
_QUORUM_S = 60.0
_SERVICE_ORDER = ("mgr", "osd", "mon")
"""Who is stopped first. Started again in the other direction."""


def daemons_on(cluster: Cluster, node: str) -> list[Daemon]:
    """The daemons of a node, in the order that they are stopped in."""
    daemons = [daemon for daemon in cluster.daemons.values() if daemon.host.name == node]
    return sorted(daemons, key=lambda daemon: (_SERVICE_ORDER.index(daemon.kind), daemon.name))


def osds_on(cluster: Cluster, node: str) -> list[int]:
    """Ids of the OSDs of a node."""
    return sorted(int(daemon.id) for daemon in daemons_on(cluster, node) if daemon.kind == "osd")


def node_spec(cluster: Cluster, name: str) -> Node:
    """What the spec says of a node."""
    return next(node for node in cluster.spec.nodes if node.name == name)


# Leaving


def power_off(cluster: Cluster, node: str) -> None:
    """Switch a machine off without grace; nothing on it is told. The lab's own client must not be there."""
    if cluster.client.host.name == node:
        raise LabBroken(f"{node} cannot be switched off", "the lab's own client runs there", "raise it with clients")
    switch_off(cluster, [node])


def remove_node(cluster: OwnCluster, node: str) -> None:
    """Take a node that is off, with its OSDs, out of the cluster for good. Its monitor and manager moved before."""
    client = cluster.client
    for osd in osds_on(cluster, node):
        give_up_osd(cluster, osd)
    client.mon("osd crush rm", name=cluster.deployer.identities.get(node, node))
    left = [daemon.name for daemon in daemons_on(cluster, node)]
    if left:
        raise LabBroken(f"{node} still carries {', '.join(left)}", hint="move them first")
    cluster.respec([known for known in cluster.spec.nodes if known.name != node])
    cluster.save()


def give_up_osd(cluster: OwnCluster, osd: int) -> None:
    """Stop an OSD and take it out of the cluster for good; its disk keeps what it held."""
    name = f"osd.{osd}"
    if cluster.daemon(name).alive():
        cluster.stop(name)
    # The map may not know yet that the machine was switched off.
    cluster.client.mon("osd down", ids=[str(osd)])
    cluster.client.mon("osd purge-actual", id=osd, yes_i_really_mean_it=True)
    cluster.forget_daemon(name)


# Coming


def add_machine(cluster: OwnCluster, node: Node) -> Host:
    """Raise a machine with its disks and ceph.conf, and no daemon yet."""
    return cluster.add_node(without_daemons(node))


def add_osds(cluster: OwnCluster, node: Node) -> list[int]:
    """Make and start the OSDs of a machine that is up. DiskInUse, before any is made, where a disk is used."""
    host = cluster.hosts[node.name]
    for osd in node.osds:
        disks.refuse_used(host, osd.disks, patience=cluster.patience, preload=shim_of(host))
    _note_disks(cluster, node)
    return [int(cluster.add_osd(plan_osd(node, osd, cluster.next_osd_id())).id) for osd in node.osds]


def _note_disks(cluster: OwnCluster, node: Node) -> None:
    """Note in the spec that a node has these OSDs and their disks, wherever the disks were before."""
    here = {disk.name for disk in node.disks}
    nodes = []
    for known in cluster.spec.nodes:
        rest = tuple(disk for disk in known.disks if disk.name not in here)
        given = replace(known, disks=(*rest, *node.disks), osds=node.osds)
        osds = tuple(osd for osd in known.osds if not here & set(osd.disks))
        nodes.append(given if known.name == node.name else replace(known, disks=rest, osds=osds))
    cluster.respec(nodes)
    cluster.save()


def shim_of(host: Host) -> tuple[PurePosixPath, ...]:
    """What BlueStore's programs need preloaded on a host."""
    return OSD.preload(host)


def add_mon(cluster: OwnCluster, node: str) -> None:
    """A monitor on a node joins the others. They give it the map and the key."""
    host, client = cluster.hosts[node], cluster.client
    monmap = client.command("mon", "mon getmap")
    entity = Entity("mon.", str(client.mon("auth get-key", entity="mon.")["key"]), MON.caps)
    cluster.deployer.start_mon(cluster.deployment, node_spec(cluster, node), monmap, {"mon.": entity})
    _wait_quorum(cluster, node, present=True)
    _name_mons(cluster, {**cluster.deployment.mon_addresses, node: host.address})
    _change(cluster, node, lambda known: replace(known, mon=True))


def remove_mon(cluster: OwnCluster, name: str) -> None:
    """A monitor leaves the others for good; it may be dead."""
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
    """A manager on a node stands by for the active one."""
    daemon = f"mgr.{node}"
    entity = cluster.deployer.new_entity(cluster.deployment, daemon)
    cluster.client.command("mon", "auth import", payload=keyring.render([entity]))
    address = cluster.hosts[node].address
    where = f"mgr/prometheus/{node}/server_addr"
    cluster.client.mon("config set", who="mgr", name=where, value=address, force=True)
    cluster.deployer.start_service(cluster.deployment, node_spec(cluster, node), daemon, {entity.name: entity})
    clock.wait(
        lambda: cluster.client.mon("mgr dump"),
        lambda dump: node in {dump["active_name"], *(standby["name"] for standby in dump["standbys"])},
        what=f"mgr.{node} standing by",
        timeout_s=_QUORUM_S * cluster.patience,
        timed_out=clock.not_reached_with(lambda dump: str(dump["active_name"])),
    )
    _change(cluster, node, lambda known: replace(known, mgr=True))


def remove_mgr(cluster: OwnCluster, name: str) -> None:
    """A manager leaves; another one is active afterwards."""
    daemon = cluster.daemon(f"mgr.{name}")
    if daemon.alive():
        cluster.stop(daemon.name)
    cluster.client.mon("mgr fail", who=name)
    cluster.client.mon("auth rm", entity=f"mgr.{name}")
    cluster.forget_daemon(daemon.name)
    _change(cluster, daemon.host.name, lambda known: replace(known, mgr=False))
    clock.wait(
        lambda: cluster.client.mon("mgr dump"),
        lambda dump: dump["available"] and dump["active_name"] != name,
        what=f"a manager other than {name}",
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
    """Tell every host that is up where the monitors are."""
    cluster.deployment = replace(cluster.deployment, mon_addresses=addresses)
    for node in cluster.spec.nodes:
        if cluster.hosts[node.name].up():
            cluster.deployer.push_conf(cluster.deployment, cluster.hosts[node.name])
    cluster.save()


def _change(cluster: OwnCluster, name: str, change: Callable[[Node], Node]) -> None:
    """Note in the spec how a node has changed."""
    cluster.respec([change(node) if node.name == name else node for node in cluster.spec.nodes])
    cluster.save()


# Staying, in another machine


@dataclass(frozen=True)
class Backup:
    """What was saved of a node: its daemons, which disks they have, and their directories as a tar."""

    node: Node
    daemons: tuple[tuple[str, tuple[str, ...]], ...]
    archive: bytes


def stop_services(cluster: Cluster, node: str) -> None:
    """Stop every daemon of a node and see that none is left."""
    for daemon in daemons_on(cluster, node):
        cluster.stop(daemon.name)
    left = [daemon.name for daemon in daemons_on(cluster, node) if daemon.alive()]
    if left:
        raise LabBroken(f"services of {node} are still running", ", ".join(left))


def back_up(cluster: Cluster, node: str) -> Backup:
    """Save the directories of a node's stopped daemons, symbolic links as such."""
    host = cluster.hosts[node]
    daemons = tuple((daemon.name, daemon.disks) for daemon in daemons_on(cluster, node))
    argv = ["tar", "-C", str(host.directory), "-cf", "-", *(name for name, _ in daemons)]
    return Backup(node_spec(cluster, node), daemons, host.run(argv, timeout_s=_TOOL_S * cluster.patience).stdout_bytes)


def take_over(cluster: OwnCluster, old: Node, new: Node) -> Host:
    """Raise a machine in the place of one that is off: with its address, and for Ceph with its name.

    new: without disks or daemons of its own. Unavailable where the provider cannot do it.
    """
    lab = cluster.lab
    if not isinstance(lab, TakesOver):
        what = f"the {cluster.provider_name} provider has no {Capability.TAKE_OVER}"
        raise Unavailable(what, "a machine cannot get the address of another", "choose another --lab")
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
    return host


def move_disks(cluster: OwnCluster, saved: Backup, target: str) -> list[str]:
    """Pull a node's disks and put them into another machine; their names."""
    names = [disk.name for disk in saved.node.disks]
    for name in names:
        cluster.lab.move_disk(name, target)
    return names


def restore(cluster: OwnCluster, saved: Backup, target: str) -> list[str]:
    """Unpack a backup on another machine and make its daemons ready there; their names, in the order to start them in.

    Every disk is looked at first: CephTrouble of the tool, or LabBroken, where it does not carry what it must.
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
            carried = "nothing" if label is None else str(label)
            raise LabBroken(f"disk {disk} is not one of {daemon.name}", f"it carries {carried}, wanted {wanted}")


def replay_map(cluster: Cluster, osdmap: bytes, host: Host | None = None) -> str:
    """Which OSDs each PG belongs to by an OSD map, as osdmaptool prints it. host: whose tool; None: the client's."""
    host = host or cluster.client.host
    path = host.directory / "osdmap"
    host.push(osdmap, path)
    argv = ["osdmaptool", str(path), "--test-map-pgs-dump"]
    return run_tool(host, argv, timeout_s=_TOOL_S * cluster.patience).stdout


def out(cluster: Cluster, osds: Sequence[int]) -> None:
    """Ask the cluster to move everything off some OSDs."""
    cluster.client.mon("osd out", ids=[str(osd) for osd in osds])
