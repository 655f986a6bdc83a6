"""What a cluster that exists consists of, asked of itself, and which machine of the inventory has which daemon."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base.errors import SpecError
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.spec.clusterspec import ClusterSpec, DiskClass, Node, Osd
from cephlab.lab.spec.clusterspec import Disk as SpecDisk
from cephlab.lab.spec.inventory import Inventory, Machine, Role

_ADDRESS = re.compile(r"(?:v[12]:)?(\[[0-9a-fA-F:]+\]|\d+\.\d+\.\d+\.\d+):\d+/\d+")
_RELEASE = re.compile(r"ceph version \S+ \([0-9a-f]+\) (\w+)")
_KINDS = {"osd": Role.OSD, "mon": Role.MON, "mgr": Role.MGR}


@dataclass(frozen=True)
class Found:
    """A daemon by Ceph's word: where it says it is, and of an OSD its size in bytes and its class."""

    name: str
    hostname: str
    addresses: frozenset[str]
    arch: str
    size_bytes: int = 0
    device_class: str = ""


@dataclass(frozen=True)
class Census:
    """A whole cluster. placed: daemon -> name of its machine; release: as Ceph calls it."""

    fsid: str
    release: str
    daemons: tuple[Found, ...]
    placed: Mapping[str, str]
    pools: frozenset[str]
    profiles: frozenset[str]
    rules: frozenset[str]
    changed_weights: tuple[str, ...] = ()

    def on(self, machine: str) -> list[Found]:
        return [daemon for daemon in self.daemons if self.placed[daemon.name] == machine]


def take_census(client: RadosClient, inventory: Inventory) -> Census:
    """Ask the cluster what there is. SpecError where the inventory and the cluster do not fit together."""
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


def place(daemons: Iterable[Found], inventory: Inventory) -> dict[str, str]:
    """Daemon -> machine: by address, else by host name, else by the daemon's own name.

    SpecError names every daemon without a machine, and every machine whose role or architecture is wrong.
    """
    placed: dict[str, str] = {}
    wrong = []
    for daemon in daemons:
        machine = _machine_of(daemon, inventory)
        if machine is None:
            wrong.append(f"{daemon.name} is on {daemon.hostname} ({', '.join(sorted(daemon.addresses))}): not there")
            continue
        placed[daemon.name] = machine.name
        if _KINDS[daemon.name.partition(".")[0]] not in machine.roles:
            has = ", ".join(sorted(machine.roles))
            wrong.append(
                f"roles of {machine.name}: got {has}, wanted: {daemon.name.partition('.')[0]} too ({daemon.name})"
            )
        if daemon.arch and daemon.arch != machine.arch.value:
            wrong.append(f"architecture of {machine.name}: got {machine.arch}, {daemon.name} says {daemon.arch}")
    for machine in inventory.machines:
        kinds = {_KINDS[name.partition(".")[0]] for name, where in placed.items() if where == machine.name}
        spare = sorted(machine.roles - kinds - {Role.CLIENT})
        wrong += [f"roles of {machine.name}: got {role}, and the cluster has no {role} there" for role in spare]
    if wrong:
        hint = "correct the inventory: every machine with a daemon, cluster_address as Ceph knows it"
        raise SpecError(f"{inventory.source} is not of this cluster", "\n".join(wrong), hint)
    return placed


def _machine_of(daemon: Found, inventory: Inventory) -> Machine | None:
    for machine in inventory.machines:
        if daemon.addresses & {machine.address, machine.cluster_address}:
            return machine
    kind, _, ident = daemon.name.partition(".")
    # Monitors and managers are called after their machines; cephadm adds a word to a manager's name.
    called = () if kind == "osd" else (ident, ident.partition(".")[0])
    names = (daemon.hostname, daemon.hostname.partition(".")[0], *called)
    return next((machine for machine in inventory.machines if machine.name in names), None)


def _daemons(client: RadosClient) -> Iterable[Found]:
    classes = {f"osd.{node['id']}": node.get("device_class", "") for node in client.mon("osd tree")["nodes"]}
    for entry in client.mon("osd metadata"):
        name = f"osd.{entry['id']}"
        size = int(entry.get("bluestore_bdev_size", 0))
        yield _found(name, entry, size_bytes=size, device_class=classes.get(name, ""))
    for kind in ("mon", "mgr"):
        for entry in client.mon(f"{kind} metadata"):
            yield _found(f"{kind}.{entry['name']}", entry)


def _found(name: str, entry: Mapping[str, Any], *, size_bytes: int = 0, device_class: str = "") -> Found:
    said = " ".join(str(entry.get(key, "")) for key in ("front_addr", "addrs", "addr"))
    addresses = frozenset(address.strip("[]") for address in _ADDRESS.findall(said)) - {"0.0.0.0", "::"}
    return Found(name, str(entry.get("hostname", "")), addresses, str(entry.get("arch", "")), size_bytes, device_class)


def _release(versions: Mapping[str, Mapping[str, int]]) -> str:
    names = sorted({match[1] for version in versions.get("overall", {}) if (match := _RELEASE.match(version))})
    return "+".join(names) or "unknown"


def _is(daemon: Found, kind: str) -> bool:
    return daemon.name.startswith(f"{kind}.")


def spec_of(census: Census, inventory: Inventory) -> ClusterSpec:
    """The cluster as a spec. Its OSDs' devices are named `osd-N`; scenarios may not use them."""
    nodes = []
    for machine in inventory.machines:
        here = census.on(machine.name)
        disks = tuple(_disk(daemon) for daemon in here if _is(daemon, "osd"))
        mon, mgr = (any(_is(daemon, kind) for daemon in here) for kind in ("mon", "mgr"))
        osds = tuple(Osd(disk.name) for disk in disks)
        nodes.append(Node(machine.name, machine.arch, disks, osds, mon=mon, mgr=mgr))
    return ClusterSpec(tuple(nodes), release=census.release)


def _disk(osd: Found) -> SpecDisk:
    known = {device_class.value for device_class in DiskClass}
    device_class = DiskClass(osd.device_class) if osd.device_class in known else DiskClass.SSD
    return SpecDisk(osd.name.replace(".", "-"), max(1, osd.size_bytes), device_class)
