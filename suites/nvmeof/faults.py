"""Faults that stop a gateway from answering while it holds writes, which it sends to Ceph when it is back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from signal import SIGTERM
from typing import ClassVar

import psutil

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import Unavailable, try_all
from cephlab.lab.blockstack.nvmeof import PORT
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.faults.fault import Sign, look_for
from cephlab.lab.faults.nodes import OneNode, cannot
from cephlab.lab.providers.base import RunsMachines, Unplugs
from cephlab.lab.providers.host import Host, reaches
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.spec.inventory import Machine, Role

UNDONE_S = 900
"""A machine of an attached cluster undoes the fault by itself after this time, even if the lab has died."""
STUCK_S = 1.5
"""Long enough that every worker of the load has a request waiting in the gateway."""


def storage_of(cluster: Cluster) -> list[str]:
    """The addresses of all daemons."""
    return sorted({f"{daemon.host.address}/32" for daemon in cluster.daemons.values()})


def without_storage(host: Host, storage: Sequence[str]) -> None:
    """Drop what a machine sends to these addresses, and wait until its gateway holds requests."""
    for address in storage:
        host.run(["ip", "route", "add", "blackhole", address])
    SYSTEM.sleep(STUCK_S)


def with_storage(host: Host, storage: Sequence[str]) -> None:
    """Undo `without_storage`, also if it failed halfway."""
    for address in storage:
        host.run(["ip", "route", "del", "blackhole", address], check=False)


@dataclass(frozen=True)
class IsolateNode(OneNode):
    """A machine first loses its network to the OSDs, and then, while it holds requests, its whole network."""

    name: ClassVar[str] = "isolate-node"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PARTITION})

    @property
    def target(self) -> str:
        return self.node

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        lab, host = own(cluster).lab, cluster.hosts[self.node]
        if not isinstance(lab, Unplugs):
            raise cannot(cluster, "take a node off the network")
        storage = storage_of(cluster)
        try:
            without_storage(host, storage)
            lab.disconnect(self.node)
            yield
        finally:
            lab.connect(self.node)
            with_storage(host, storage)

    def sign(self, cluster: Cluster) -> Sign:
        return unheard(cluster, self.node)


@dataclass(frozen=True)
class CutOff(IsolateNode):
    """The first gateway of an attached cluster loses its network to the OSDs, then to monitors and initiator too.

    Blackhole routes do it, so that ssh still works. The machine removes them by itself after UNDONE_S.
    """

    name: ClassVar[str] = "cut-off"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SPDK_GATEWAYS})
    node: str = "the gateway that serves"

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        assert isinstance(cluster, AttachedCluster)
        machine = struck(cluster)
        host = cluster.hosts[machine.name]
        storage, others = lost_by(cluster, host)
        undoing = "; ".join(" ".join(route("del", address)) for address in (*storage, *others))
        watchdog = host.spawn(["sh", "-c", f"sleep {UNDONE_S}; {undoing}"], log=host.directory / "cut-off.log")
        added: list[str] = []
        try:
            for address in (*storage, *others):
                if others and address == others[0]:
                    SYSTEM.sleep(STUCK_S)
                host.run(route("add", address))
                added.append(address)
            yield
        finally:
            removals = [partial(host.run, route("del", address), check=False) for address in added]
            try_all([partial(watchdog.signal, SIGTERM), *removals])

    def sign(self, cluster: Cluster) -> Sign:
        assert isinstance(cluster, AttachedCluster)
        return unheard(cluster, struck(cluster).name)


def struck(cluster: AttachedCluster) -> Machine:
    """The machine of the first gateway. Unavailable if it has another role, because that would be cut off too."""
    machine = cluster.inventory.with_role(Role.NVMEOF)[0]
    if machine.roles != {Role.NVMEOF}:
        roles = f"roles of {machine.name}: {', '.join(sorted(machine.roles))}"
        raise Unavailable("a gateway of the attached cluster is cut off only on a machine without other roles", roles)
    return machine


def lost_by(cluster: AttachedCluster, host: Host) -> tuple[list[str], list[str]]:
    """(addresses of OSDs, other addresses of monitors and initiator). Unavailable if ssh comes from one of them."""
    of_kind: dict[str, set[str]] = {"osd": set(), "mon": set()}
    for daemon in cluster.census.daemons:
        of_kind.setdefault(daemon.kind, set()).update(daemon.addresses)
    name = cluster.client.host.address
    seen_as = {line.split()[0] for line in host.run(["getent", "ahosts", name]).stdout.splitlines()}
    storage, others = of_kind["osd"], (of_kind["mon"] | seen_as) - of_kind["osd"]
    entered_from = (host.run(["sh", "-c", "echo $SSH_CONNECTION"]).stdout.split() or [""])[0]
    if entered_from in storage | others:
        what = f"the fault would cut ssh to {host.name} of the attached cluster"
        raise Unavailable(what, f"ssh connects from {entered_from}", "run cephlab on a machine without Ceph's daemons")
    return sorted(storage), sorted(others)


def route(verb: str, address: str) -> list[str]:
    """The command that adds or deletes a blackhole route to an address."""
    return ["ip", "-6" if ":" in address else "-4", "route", verb, "blackhole", address]


@dataclass(frozen=True)
class PauseMachine(OneNode):
    """A machine first loses its network to the OSDs. Then, while it holds requests, it is suspended with all of them.

    Later it continues with its whole network, as if nothing had happened, and sends what it held.
    """

    name: ClassVar[str] = "pause-machine"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.POWER_CUT})

    @property
    def target(self) -> str:
        return self.node

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        lab, host = own(cluster).lab, cluster.hosts[self.node]
        if not isinstance(lab, RunsMachines):
            raise cannot(cluster, "run machines as processes")
        machine, storage = psutil.Process(lab.machine_pid(self.node)), storage_of(cluster)
        try:
            without_storage(host, storage)
            machine.suspend()
            yield
        finally:
            machine.resume()
            with_storage(host, storage)

    def sign(self, cluster: Cluster) -> Sign:
        return unheard(cluster, self.node)


def unheard(cluster: Cluster, node: str) -> Sign:
    """Proof that a gateway does not answer, checked from the machine of the lab's client."""
    address, looker = cluster.hosts[node].address, cluster.client.host

    def silent() -> int:
        return int(not reaches(looker, address, PORT))

    return look_for("a gateway that does not answer", silent, patience=cluster.patience)
