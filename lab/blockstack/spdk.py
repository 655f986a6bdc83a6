"""Gateways of ceph-nvmeof, Ceph's own gateway over SPDK, in a group of an attached cluster.

A change on one gateway of a group reaches the others through Ceph within seconds. Ceph's monitors decide which of them
serves a namespace, and fence one that failed.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CephTrouble, SpecError, Unavailable
from cephlab.lab.blockstack.gatewayapi import Certificates, GatewayApi, GatewayRefused, require
from cephlab.lab.blockstack.nvmeof import PORT, AnaState, Namespace, Pair, Volume
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.spec.inventory import Role, with_port

OLDEST = (1, 2)
"""The oldest supported version of ceph-nvmeof. In older ones some fields have other numbers."""
BLOCK_BYTES = 512
"""Block size of a namespace, as with the kernel's target."""
MAX_NAMESPACES = 32
SHOWN_S = 30.0
"""A gateway checks every five seconds for changes on others of its group (state_update_interval_sec)."""
TURNED_S = 300.0
"""Monitors miss a gateway after ten seconds (mon_nvmeofgw_beacon_grace). One that was fenced restarts."""

_STATES = re.compile(r"(\d+): (\w+)")
_TYPED = re.compile(r"^v[12]:")


@dataclass(frozen=True)
class Member:
    """A gateway as the monitors see it. group: its own ANA group; states: its state for each ANA group."""

    available: bool
    group: int
    states: Mapping[int, str]

    def state(self, group: int) -> AnaState:
        """The ANA state of its path to the namespaces of a group."""
        serves = self.available and self.states.get(group) == "ACTIVE"
        return AnaState.OPTIMIZED if serves else AnaState.INACCESSIBLE


def members(answer: Mapping[str, Any]) -> dict[str, Member]:
    """Name -> gateway, from the output of `ceph nvme-gw show POOL GROUP`."""
    listed = answer.get("Created Gateways:", answer.get("Created Gateways", []))
    return {
        str(gateway["gw-id"]): Member(
            gateway["Availability"] == "AVAILABLE",
            int(gateway["anagrp-id"]),
            {int(group): state for group, state in _STATES.findall(gateway["ana states"])},
        )
        for gateway in listed
    }


@dataclass
class SpdkGateway:
    """One gateway of a group. name: of its machine; pool: where Ceph keeps the configuration of the group."""

    cluster: AttachedCluster
    name: str
    arch: Arch
    address: str
    api: GatewayApi
    pool: str
    _volume: Volume | None = None
    _group: int = 0
    _clients: tuple[str, ...] = ()

    @property
    def port(self) -> int:
        return PORT

    @cached_property
    def info(self) -> Any:
        """Its information about itself. Unavailable if its version is too old."""
        info = self.api.call("get_gateway_info")
        version = tuple(int(part) for part in re.findall(r"\d+", info.version)[:2])
        if version < OLDEST:
            wanted = f"got {info.version!r}, wanted: {'.'.join(map(str, OLDEST))} or later"
            raise Unavailable(f"the gateway on {self.name} of the attached cluster is too old", wanted)
        return info

    def serve(self, volume: Volume, state: AnaState) -> None:
        """The OPTIMIZED gateway adds the namespace to its own ANA group. The others wait until it appears."""
        self.cluster.guard.pool(volume.pool)
        if volume.tls:
            raise SpecError("the API of gateways over SPDK cannot request TLS", f"volume: {volume.image}")
        self._volume = volume
        if state is AnaState.OPTIMIZED:
            self.withdraw()  # what a killed run left
        named = {"subsystem_nqn": volume.nqn, "serial_number": volume.serial, "no_group_append": True}
        subsystem = {**named, "max_namespaces": MAX_NAMESPACES, "enable_ha": True}
        self._ensure("create_subsystem", subsystem, self._shown)
        for host in volume.hosts:
            secret = volume.secrets.get(host, "")
            let_in = {"subsystem_nqn": volume.nqn, "host_nqn": host, **({"dhchap_key": secret} if secret else {})}
            self._ensure("add_host", let_in, partial(self._lets_in, host, proven=bool(secret)))
        where = {"traddr": self.address, "trsvcid": PORT, "adrfam": int(":" in self.address), "secure": False}
        listener = {"nqn": volume.nqn, "host_name": self.info.hostname, **where}
        self._ensure("create_listener", listener, self._listens)
        if state is AnaState.OPTIMIZED:
            self._add(volume, self.info.load_balancing_group)
        self._until(partial(self._has, volume), f"{volume.image} as a namespace of the gateway on {self.name}")
        self.learn()
        self.turn(state)

    def turn(self, state: AnaState) -> None:
        """Wait until the monitors have changed its state: only they do. The gateway itself may be down."""
        clock.wait(
            lambda: self.member().state(self._group),
            lambda state_now: state_now is state,
            what=f"the gateway on {self.name} {state} for ANA group {self._group}",
            timeout_s=TURNED_S * self.cluster.patience,
            timed_out=clock.not_reached_with(lambda state_now: f"{state_now}; {self.member()}"),
        )

    def give(self, twin: SpdkGateway) -> None:
        """Have its twin serve all namespaces: move them into the ANA group of the twin."""
        group = twin.info.load_balancing_group
        for namespace in self._subsystem().namespaces:
            where = {"subsystem_nqn": self._served.nqn, "nsid": namespace.nsid}
            self.api.call("namespace_change_load_balancing_group", **where, anagrpid=group)
        for gateway in (self, twin):
            gateway._until(partial(gateway._all_in, group), f"namespaces in ANA group {group} on {gateway.name}")
            gateway.learn()

    def add(self, *namespaces: Namespace) -> None:
        for namespace in namespaces:
            self.cluster.guard.pool(namespace.pool)
            self._add(namespace, self._group)
        self.learn()

    def grow(self, namespace: Namespace) -> None:
        """Only whole MiB: the unit of the API."""
        size = int(self.cluster.client.rbd_look(namespace.pool, namespace.image, [])["size"])
        if size % MIB:
            raise SpecError(f"{namespace.image} has {size} bytes", "gateways over SPDK grow by whole MiB")
        where = {"subsystem_nqn": self._served.nqn, "nsid": namespace.number}
        self.api.call("namespace_resize", **where, new_size=size // MIB)
        what = f"{namespace.image} with {size} bytes on {self.name}"
        self._until(lambda: self._sizes().get(namespace.number) == size, what)

    def remove(self, namespace: Namespace) -> None:
        where = {"subsystem_nqn": self._served.nqn, "nsid": namespace.number}
        self._ensure("namespace_delete", where, lambda: not self._has(namespace), passing=errno.ENODEV)

    def clients(self) -> tuple[str, ...]:
        return self._clients

    def told(self) -> dict[str, Any]:
        subsystem, first = self._subsystem(), self._first()
        return {
            "nqn": subsystem.nqn,
            "serial": subsystem.serial_number,
            "uuid": first.uuid.lower(),
            "nguid": first.nguid.lower().replace("-", ""),
            "group": str(first.anagrpid),
            "hosts": sorted(["*"] if subsystem.allow_any_host else [host.nqn for host in subsystem.hosts]),
            "controllers": [subsystem.min_cntlid, subsystem.max_cntlid],
            "state": self.member().state(first.anagrpid),
        }

    def withdraw(self) -> None:
        """Delete the subsystem, for the whole group."""
        if self._volume is not None and self._shown():
            whole = {"subsystem_nqn": self._volume.nqn, "force": True}
            # If another gateway of the group deleted it, it disappears here too, and SPDK has no errno for that.
            self._ensure("delete_subsystem", whole, lambda: not self._shown(), passing=None)

    def learn(self) -> None:
        """Store what must be known once it is down: the ANA group of the namespaces, and its Ceph clients."""
        self._group = int(self._first().anagrpid)
        nonces = (_TYPED.sub("", namespace.nonce) for namespace in self._subsystem().namespaces)
        self._clients = tuple(dict.fromkeys((*self._clients, *nonces)))

    def member(self) -> Member:
        """The gateway as the monitors see it. CephTrouble if they do not know it."""
        answer = self.cluster.client.mon("nvme-gw show", pool=self.pool, group=self.info.group)
        known = members(answer)
        if self.info.name not in known:
            detail = f"nvme-gw show {self.pool} {self.info.group}: {', '.join(known) or 'none'}"
            raise CephTrouble(f"monitors know no gateway {self.info.name}", detail, "see [nvmeof] in docs/attach.md")
        return known[self.info.name]

    @property
    def _served(self) -> Volume:
        if self._volume is None:
            raise SpecError(f"the gateway on {self.name} serves nothing", "call serve first")
        return self._volume

    def _add(self, namespace: Namespace, group: int) -> None:
        image = {"rbd_pool_name": namespace.pool, "rbd_image_name": namespace.image, "block_size": BLOCK_BYTES}
        where = {"subsystem_nqn": self._served.nqn, "nsid": namespace.number, "uuid": namespace.uuid}
        usual = {"create_image": False, "size": 0, "force": False, "no_auto_visible": False}
        self._ensure("namespace_add", {**image, **where, "anagrpid": group, **usual}, partial(self._has, namespace))

    def _ensure(
        self, call: str, fields: Mapping[str, Any], done: Callable[[], bool], *, passing: int | None = errno.EEXIST
    ) -> None:
        """Make a call, and wait until the gateway reports the result: an answer alone proves nothing.

        passing: the errno if another gateway of the group already did it; None for any.
        """
        message = ""
        try:
            self.api.call(call, **fields)
        except GatewayRefused as refusal:
            if not refusal.status or passing not in (None, refusal.status):
                raise
            message = f", which answered {refusal.message!r}"
        self._until(done, f"the result of {call} on the gateway on {self.name}{message}")

    def _until(self, done: Callable[[], bool], what: str) -> None:
        clock.wait(done, bool, what=what, timeout_s=SHOWN_S * self.cluster.patience, interval_s=0.2)

    def _subsystem(self) -> Any:
        """The subsystem as SPDK has it. CephTrouble if it has none."""
        nqn = self._served.nqn
        there = {subsystem.nqn: subsystem for subsystem in self.api.call("get_subsystems").subsystems}
        if nqn not in there:
            raise CephTrouble(f"the gateway on {self.name} has no subsystem {nqn}", f"it has: {', '.join(there)}")
        return there[nqn]

    def _shown(self) -> bool:
        return self._served.nqn in {subsystem.nqn for subsystem in self.api.call("get_subsystems").subsystems}

    def _lets_in(self, host: str, *, proven: bool) -> bool:
        """Whether a host may connect. proven: whether it must authenticate; old gateways ignore secrets."""
        known = {each.nqn: each.use_dhchap for each in self.api.call("list_hosts", subsystem=self._served.nqn).hosts}
        return known.get(host) is proven

    def _listens(self) -> bool:
        return (self.address, str(PORT)) in {(at.traddr, at.trsvcid) for at in self._subsystem().listen_addresses}

    def _has(self, namespace: Namespace) -> bool:
        uuids = {present.nsid: present.uuid.lower() for present in self._subsystem().namespaces}
        return uuids.get(namespace.number) == namespace.uuid

    def _all_in(self, group: int) -> bool:
        return {namespace.anagrpid for namespace in self._subsystem().namespaces} == {group}

    def _sizes(self) -> dict[int, int]:
        listed = self.api.call("list_namespaces", subsystem=self._served.nqn).namespaces
        return {namespace.nsid: namespace.rbd_image_size for namespace in listed}

    def _first(self) -> Any:
        return next(namespace for namespace in self._subsystem().namespaces if namespace.nsid == self._served.number)


@dataclass
class MonitoredPair(Pair):
    """Two gateways of one group. Ceph's monitors switch and fence them; this class only waits for it."""

    serving: SpdkGateway
    waiting: SpdkGateway

    def take_over(self) -> None:
        self.waiting.turn(AnaState.OPTIMIZED)
        self.serving, self.waiting = self.waiting, self.serving

    def rejoin(self) -> None:
        """The monitors give a gateway that came back its own ANA group again: it serves, with new Ceph clients."""
        self.take_over()
        self.waiting.turn(AnaState.INACCESSIBLE)
        self.serving.learn()

    def hand_over(self) -> None:
        """Move all namespaces into the ANA group of the other gateway."""
        self.serving.give(self.waiting)
        for gateway, state in ((self.waiting, AnaState.OPTIMIZED), (self.serving, AnaState.INACCESSIBLE)):
            gateway.turn(state)
        self.serving, self.waiting = self.waiting, self.serving


def gateways_of(cluster: AttachedCluster) -> list[SpdkGateway]:
    """The gateways that the inventory names, in its order. Unavailable if it names none, or grpcio is missing."""
    access = cluster.inventory.nvmeof
    machines = cluster.inventory.with_role(Role.NVMEOF)
    if access is None:
        what = f"{cluster.inventory.source.name} names no NVMe-oF gateway of the attached cluster"
        raise Unavailable(what, "nvmeof: missing", "add a table [nvmeof], see docs/attach.md")
    require()
    certificates = Certificates(*access.certificates) if access.certificates else None
    return [
        SpdkGateway(
            cluster,
            machine.name,
            machine.arch,
            machine.cluster_address,
            GatewayApi(with_port(machine.address, access.port), certificates),
            access.pool,
        )
        for machine in machines
    ]


def pair_of(cluster: AttachedCluster, volume: Volume) -> MonitoredPair:
    """The first two gateways of the inventory, in front of an image. Unavailable if there are fewer."""
    gateways = gateways_of(cluster)
    if len(gateways) < 2:
        names = f"role nvmeof: {', '.join(gateway.name for gateway in gateways)}"
        what = "a pair needs two NVMe-oF gateways of the attached cluster"
        raise Unavailable(what, names, "give a second machine the role nvmeof")
    return MonitoredPair(cluster, volume, gateways[0], gateways[1])
