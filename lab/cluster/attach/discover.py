"""Asks an existing cluster for its daemons, and finds the machine of each in the inventory."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base.errors import SpecError
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.spec.clusterspec import ClusterSpec, Disk, DiskClass, Node, Osd
from cephlab.lab.spec.inventory import Inventory, Machine, Role

_ADDRESS = re.compile(r"(?:v[12]:)?(\[[0-9a-fA-F:]+\]|\d+\.\d+\.\d+\.\d+):\d+/\d+")
_RELEASE = re.compile(r"ceph version \S+ \([0-9a-f]+\) (\w+)")
_KINDS = {"osd": Role.OSD, "mon": Role.MON, "mgr": Role.MGR}


@dataclass(frozen=True)
class DaemonRecord:
    """Ceph's own record of a daemon: where it is and, for an OSD, its size in bytes and its class."""

    name: str
    hostname: str
    addresses: frozenset[str]
    arch: str
    size_bytes: int = 0
    device_class: str = ""

    @property
    def kind(self) -> str:
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Census:
    """A whole cluster. placed: daemon -> name of its machine; release: Ceph's name of the release."""

    fsid: str
    release: str
    daemons: tuple[DaemonRecord, ...]
    placed: Mapping[str, str]
    pools: frozenset[str]
    profiles: frozenset[str]
    rules: frozenset[str]
    changed_weights: tuple[str, ...] = ()


def take_census(client: RadosClient, inventory: Inventory) -> Census:
    """Ask the cluster for its daemons, pools and rules. SpecError if it does not match the inventory."""
    daemons = tuple(_daemons(client))
    osd_map = client.mon("osd dump")
    affine = (osd["osd"] for osd in osd_map["osds"] if osd["weight"] != 1 or osd.get("primary_affinity", 1) != 1)
    return Census(
        fsid=str(osd_map["fsid"]),
        release=_release(client.mon("versions")),
        daemons=daemons,
        placed=place(daemons, inventory),
        pools=frozenset(pool["pool_name"] for pool in osd_map["pools"]),
        profiles=frozenset(client.mon("osd erasure-code-profile ls")),
        rules=frozenset(client.mon("osd crush rule ls")),
        changed_weights=tuple(f"osd.{number}" for number in affine),
    )


def place(daemons: Iterable[DaemonRecord], inventory: Inventory) -> dict[str, str]:
    """Daemon -> machine: by address, else by host name, else by the daemon's own name.

    SpecError names every daemon without a machine, and every machine with a wrong role or architecture.
    """
    placed: dict[str, str] = {}
    wrong = []
    for daemon in daemons:
        machine = _machine_of(daemon, inventory)
        if machine is None:
            where = f"{daemon.hostname} ({', '.join(sorted(daemon.addresses))})"
            wrong.append(f"{daemon.name} is on {where}, which the inventory does not have")
            continue
        placed[daemon.name] = machine.name
        if _KINDS[daemon.kind] not in machine.roles:
            has = ", ".join(sorted(machine.roles))
            wrong.append(f"roles of {machine.name}: got {has}, wanted: also {daemon.kind} (for {daemon.name})")
        if daemon.arch and daemon.arch != machine.arch.value:
            wrong.append(f"architecture of {machine.name}: got {machine.arch}, {daemon.name} reports {daemon.arch}")
    for machine in inventory.machines:
        kinds = {_KINDS[name.partition(".")[0]] for name, where in placed.items() if where == machine.name}
        spare = sorted(machine.roles - kinds - {Role.CLIENT, Role.NVMEOF})
        wrong += [f"roles of {machine.name}: got {role}, but the cluster has no {role} there" for role in spare]
    if wrong:
        hint = "list every machine that has a daemon, each with the cluster_address that Ceph uses"
        raise SpecError(f"{inventory.source} does not match this cluster", "\n".join(wrong), hint)
    return placed


def _machine_of(daemon: DaemonRecord, inventory: Inventory) -> Machine | None:
    for machine in inventory.machines:
        if daemon.addresses & {machine.address, machine.cluster_address}:
            return machine
    ident = daemon.name.partition(".")[2]
    # Monitors and managers are named after their machines. cephadm appends a word to a manager's name.
    called = () if daemon.kind == "osd" else (ident, ident.partition(".")[0])
    names = (daemon.hostname, daemon.hostname.partition(".")[0], *called)
    return next((machine for machine in inventory.machines if machine.name in names), None)


def _daemons(client: RadosClient) -> Iterable[DaemonRecord]:
    classes = {f"osd.{node['id']}": node.get("device_class", "") for node in client.mon("osd tree")["nodes"]}
    for entry in client.mon("osd metadata"):
        name = f"osd.{entry['id']}"
        size = int(entry.get("bluestore_bdev_size", 0))
        yield _record(name, entry, size_bytes=size, device_class=classes.get(name, ""))
    for kind in ("mon", "mgr"):
        for entry in client.mon(f"{kind} metadata"):
            yield _record(f"{kind}.{entry['name']}", entry)


def _record(name: str, entry: Mapping[str, Any], **of_osd: Any) -> DaemonRecord:
    listed = " ".join(str(entry.get(key, "")) for key in ("front_addr", "addrs", "addr"))
    addresses = frozenset(address.strip("[]") for address in _ADDRESS.findall(listed)) - {"0.0.0.0", "::"}
    return DaemonRecord(name, str(entry.get("hostname", "")), addresses, str(entry.get("arch", "")), **of_osd)


def _release(versions: Mapping[str, Mapping[str, int]]) -> str:
    names = sorted({match[1] for version in versions.get("overall", {}) if (match := _RELEASE.match(version))})
    return "+".join(names) or "unknown"


def spec_of(census: Census, inventory: Inventory) -> ClusterSpec:
    """The cluster as a spec. The devices of its OSDs are named `osd-N`; scenarios may not use them."""
    nodes = []
    for machine in inventory.machines:
        here = [daemon for daemon in census.daemons if census.placed[daemon.name] == machine.name]
        kinds = {daemon.kind for daemon in here}
        disks = tuple(_disk(daemon) for daemon in here if daemon.kind == "osd")
        osds = tuple(Osd(disk.name) for disk in disks)
        nodes.append(Node(machine.name, machine.arch, disks, osds, mon="mon" in kinds, mgr="mgr" in kinds))
    return ClusterSpec(tuple(nodes), release=census.release)


def _disk(osd: DaemonRecord) -> Disk:
    device_class = DiskClass(osd.device_class) if osd.device_class in list(DiskClass) else DiskClass.SSD
    return Disk(osd.name.replace(".", "-"), max(1, osd.size_bytes), device_class)
